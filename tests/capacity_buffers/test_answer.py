"""What `explain` and `status` tell of a buffer."""

from slack.capacity_buffers.answer import NOT_PROBED, answer_of, lines, read_finding
from slack.capacity_buffers.api import OWN_STRATEGY
from slack.capacity_buffers.probing import BufferServer, ServerFinding
from slack.cluster.wire import ManagedFields
from tests.capacity_buffers.scenes import buffer


def _served(status: str, reason: str, message: str) -> dict[str, object]:
    ready = {"type": "ReadyForProvisioning", "status": "True", "reason": "Resolved", "message": ""}
    own = {"type": "Provisioning", "status": status, "reason": reason, "message": message}
    limited = {
        "type": "LimitedByQuotas",
        "status": "True",
        "reason": "ResourceQuotasAllocated",
        "message": "from 9 to 6",
    }
    return {"provisioningStrategy": OWN_STRATEGY, "replicas": 6, "conditions": [ready, own, limited]}


def test_a_served_buffer_tells_size_nodes_bounds_and_server() -> None:
    status = _served("False", "RequiresNewCapacity", "4 of 6 chunks fit; 2 wait for a node")
    own = buffer("web", status=status, scalableRef={"kind": "Deployment", "name": "web"}, percentage=20)

    answer = answer_of(own, {"n1": 3, "n2": 1}, {"general": 4})
    text = "\n".join(lines([answer], ServerFinding(BufferServer.NOBODY, "no status"), details=True))

    assert not answer.good
    for part in (
        "shop/web  RequiresNewCapacity: 4 of 6 chunks fit; 2 wait for a node",
        "percentage 20, of Deployment web",
        "size    6 chunks",
        "bounds  from 9 to 6",
        "nodes   n1 (3), n2 (1)",
        "policy  general counts 4 chunks as extra capacity",
        "served by resource-slack",
        "served by nobody else: no status",
    ):
        assert part in text, part


def test_a_buffer_that_is_full_or_empty_by_wish_is_good() -> None:
    assert answer_of(buffer(status=_served("True", "FitsExistingCapacity", "")), None).good
    held = answer_of(buffer(status={"provisioningStrategy": OWN_STRATEGY, "replicas": 2}), {}, {}).details
    assert {"nodes   none has room", "policy  none counts it"} <= set(held)
    empty = {"provisioningStrategy": OWN_STRATEGY, "replicas": 0, "conditions": []}
    answer = answer_of(buffer(status=empty), {}, {})
    assert answer.good
    assert answer.details == ("asks    nothing", "size    0 chunks"), "there is no room to ask for"


def test_a_buffer_of_others_or_of_nobody_says_so() -> None:
    silent = answer_of(buffer(replicas=1), None)
    assert (silent.served_by, silent.headline) == ("nobody", "no server has written its status")
    foreign = answer_of(buffer(provisioningStrategy="buffer.gke.io/standby-capacity"), None)
    assert "is none that resource-slack serves" in foreign.headline
    theirs = buffer(status={"conditions": []})
    theirs.metadata.managed_fields = [ManagedFields(manager="cluster-autoscaler", subresource="status")]
    assert answer_of(theirs, None).served_by == "cluster-autoscaler"


def test_what_the_probe_has_noted_is_read() -> None:
    noted = "Karpenter: 1800000000: karpenter wrote Resolved, BufferEmpty"

    assert read_finding(noted) == ServerFinding(BufferServer.KARPENTER, "karpenter wrote Resolved, BufferEmpty")
    assert read_finding("") is None
    assert lines([], None, details=False) == [NOT_PROBED]
