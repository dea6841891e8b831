"""Who serves buffers, by what becomes of the probe; and which buffers are ours then."""

from datetime import UTC, datetime
from typing import Any

from slack.capacity_buffers.api import ACTIVE_CAPACITY, OWN_STRATEGY, Serve
from slack.capacity_buffers.probing import BufferServer, judge, rivals, serves
from slack.cluster.labels import FIELD_MANAGER
from slack.cluster.wire import ManagedFields
from tests.capacity_buffers.scenes import buffer
from tests.cases import run_for_each


def _status(ready: str | None, provisioning: str | None = None) -> dict[str, Any]:
    reasons = {"ReadyForProvisioning": ready, "Provisioning": provisioning}
    return {"conditions": [{"type": kind, "reason": reason} for kind, reason in reasons.items() if reason]}


@run_for_each(
    ("status", "managers", "server"),
    [
        (None, (), BufferServer.NOBODY),
        ({}, (), BufferServer.NOBODY),
        ({}, (FIELD_MANAGER,), BufferServer.NOBODY),
        (
            _status("AttributesSetSuccessfully", "BufferIsEmpty"),
            ("cluster-autoscaler",),
            BufferServer.CLUSTER_AUTOSCALER,
        ),
        (
            _status("AttributesSetSuccessfully"),
            ("cluster-autoscaler",),
            BufferServer.CLUSTER_AUTOSCALER_CONTROLLER,
        ),
        (_status("Resolved", "BufferEmpty"), ("karpenter",), BufferServer.KARPENTER),
        (_status("Resolved"), ("karpenter",), BufferServer.KARPENTER),
        (_status("Resolved", "Strange"), ("other",), BufferServer.OTHER),
        (_status("error"), ("cluster-autoscaler",), BufferServer.OTHER),
        (_status("Fine"), ("gke",), BufferServer.OTHER),
        ({"replicas": 0}, ("gke",), BufferServer.OTHER),
    ],
)
def test_the_probe_tells_who_serves(status: Any, managers: tuple[str, ...], server: BufferServer) -> None:
    found = judge(status, managers)

    assert found.server is server
    assert all(name in found.evidence for name in managers if name != FIELD_MANAGER)


OURS, FOREIGN = OWN_STRATEGY, "buffer.gke.io/standby-capacity"


@run_for_each(
    ("serve", "server", "served"),
    [
        (Serve.OFF, BufferServer.NOBODY, ()),
        (Serve.OWN, BufferServer.NOBODY, (OURS,)),
        (Serve.UNSERVED, BufferServer.NOBODY, (OURS, ACTIVE_CAPACITY)),
        (Serve.UNSERVED, BufferServer.CLUSTER_AUTOSCALER, (OURS,)),
        (Serve.UNSERVED, BufferServer.CLUSTER_AUTOSCALER_CONTROLLER, (OURS,)),
        (Serve.OWN, BufferServer.CLUSTER_AUTOSCALER, (OURS,)),
        (Serve.UNSERVED, BufferServer.KARPENTER, ()),
        (Serve.OWN, BufferServer.KARPENTER, ()),
        (Serve.UNSERVED, BufferServer.OTHER, ()),
        (Serve.UNSERVED, BufferServer.UNKNOWN_YET, ()),
        (Serve.UNSERVED, BufferServer.NO_CRD, ()),
        (Serve.UNSERVED, BufferServer.UNUSABLE_CRD, ()),
    ],
)
def test_what_nobody_else_serves_is_ours(serve: Serve, server: BufferServer, served: tuple[str, ...]) -> None:
    assert tuple(strategy for strategy in (OURS, ACTIVE_CAPACITY, FOREIGN) if serves(serve, server, strategy)) == served


def test_a_rival_is_who_has_written_the_status_since() -> None:
    own = buffer()
    own.metadata.managed_fields = [
        ManagedFields(manager=name, operation="Update", subresource=part, time=datetime.fromtimestamp(at, UTC))
        for name, part, at in (
            (FIELD_MANAGER, "status", 100),
            ("cluster-autoscaler", "status", 90),
            ("kubectl", None, 200),
        )
    ]

    own.status = {"provisioningStrategy": OWN_STRATEGY}
    assert rivals(own, 80) == ("cluster-autoscaler",)
    assert rivals(own, 90) == (), "our own write of that second came last"
    own.status = {"provisioningStrategy": ACTIVE_CAPACITY}
    assert rivals(own, 90) == ("cluster-autoscaler",), "its write of that second came last"
    assert rivals(own, 91) == ()
