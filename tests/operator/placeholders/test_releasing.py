"""Nodes that unbound placeholders let go: the label is written, taken away, and refusals are reported."""

from typing import Any

import msgspec
import pytest

from slack.cluster import wire
from slack.cluster.labels import KARPENTER_NODE_POOL, LABEL_RELEASE
from slack.kube.errors import ApiError
from slack.kube.object_names import ObjectName
from slack.kube.watch import EventType
from slack.planner.release import DRIFT_SECONDS, REPLACED_SECONDS, Claim, Why, parse_mark
from slack_operator.placeholders.node_claims import NodeClaims, read_claim
from tests.operator.fakes import Json, World, node, policy

SLACK: dict[str, Any] = {
    "hold": "Unbound",
    "extraCapacity": {"minRate": 0.5},
    "stabilization": {"shrinkDelay": "0s"},
}


class _Karpenter(World):
    def __init__(self, nodes: int = 3, pods: int = 9) -> None:
        super().__init__(nodes, pods)
        for number in range(nodes):
            self.api.put(f"/api/v1/nodes/n{number}", node(f"n{number}", **{KARPENTER_NODE_POOL: "general"}))
        self.claims = {f"n{number}": Claim(f"n{number}", 0.0) for number in range(nodes)}
        self.apply_policy(policy("web", **SLACK))

    def drift(self, name: str) -> None:
        assert self.claims is not None
        self.claims = {**self.claims, name: Claim(name, 0.0, drifted_since=self.wall.now - DRIFT_SECONDS)}

    def turns(self, count: int = 4, seconds: float = 10.0) -> None:
        for _ in range(count):
            self.reconcile(seconds=seconds)
            self.releasing.turn()
            self.unbound.turn()

    def labels(self) -> dict[str, str]:
        found = {name: item["metadata"]["labels"].get(LABEL_RELEASE, "") for name, item in self.nodes().items()}
        return {name: value for name, value in found.items() if value}

    def nodes(self) -> dict[str, Json]:
        return self.api.items("nodes")


def test_a_drifted_node_is_labelled_once_and_its_capacity_counts_until_it_goes() -> None:
    world = _Karpenter()
    world.turns()
    assert world.labels() == {}
    world.drift("n1")
    world.turns(1)
    (name, value), *others = world.labels().items()
    assert (name, others) == ("n1", [])
    mark = parse_mark(value)
    assert mark is not None
    assert mark.why is Why.DRIFTED
    writes = len(world.api.log)
    world.turns(3)
    assert len(world.api.log) == writes
    assert world.condition("web", "SlackSatisfied")["status"] == "True"
    assert world.condition("web", "ReleaseBlocked") == {}


def test_a_released_node_is_filled_last_so_that_a_new_one_takes_its_placeholders() -> None:
    world = _Karpenter()
    world.turns()
    world.drift("n1")
    world.turns(1)
    world.api.put("/api/v1/nodes/n9", node("n9", **{KARPENTER_NODE_POOL: "general"}))
    world.turns(1)
    snapshot = world.view.observe(world.wall.now).snapshot
    assert "n1" not in {snapshot.nodes.names[pod.node] for pod in snapshot.placeholders}


def test_a_new_process_goes_on_with_what_it_finds() -> None:
    world = _Karpenter()
    world.turns()
    world.drift("n1")
    world.turns(1)
    before = world.labels()
    world.restart()
    world.turns(3)
    assert world.labels() == before
    world.claims = {name: Claim(name, 0.0) for name in world.claims or ()}
    world.turns(1)
    assert world.labels() == {}


def test_a_node_that_stays_gets_its_placeholders_back_and_the_policy_says_so() -> None:
    world = _Karpenter()
    world.turns()
    world.drift("n1")
    world.turns(1)
    world.turns(2, seconds=REPLACED_SECONDS)
    assert world.labels() == {}
    found = world.condition("web", "ReleaseBlocked")
    assert (found["status"], found["reason"]) == ("True", "NodeStays")
    assert "node n1: its NodeClaim has drifted" in found["message"]


def _is_fought_over(world: _Karpenter, value: str) -> None:
    """Play 25 minutes of somebody who writes the label of n1 at each turn; the writes to it must become few."""
    writes = 0
    for _ in range(150):
        before = len(world.api.log)
        world.turns(1)
        writes += sum(path == "/api/v1/nodes/n1" for _, path in world.api.log[before:])
        labels = world.nodes()["n1"]["metadata"]["labels"]
        labels[LABEL_RELEASE] = value
        if not value:
            del labels[LABEL_RELEASE]
        world.api._bump(world.nodes()["n1"])
    assert 5 <= writes <= 7
    found = world.condition("web", "ReleaseBlocked")
    assert found["reason"] == "WrittenBack"
    assert "node n1: somebody else writes its label" in found["message"]


def test_a_label_that_somebody_removes_each_time_is_left_off_for_a_while_and_other_nodes_are_released() -> None:
    world = _Karpenter()
    world.turns()
    world.drift("n1")
    _is_fought_over(world, "")
    world.drift("n2")
    world.turns(2)
    assert list(world.labels()) == ["n2"]


def test_a_label_that_somebody_puts_back_each_time_is_left_there_for_a_while() -> None:
    world = _Karpenter()
    world.turns()
    world.drift("n1")
    world.turns(1)
    value = world.labels()["n1"]
    world.claims = {name: Claim(name, 0.0) for name in world.claims or ()}
    _is_fought_over(world, value)


def test_a_label_that_is_released_and_taken_back_by_turns_is_no_contest() -> None:
    world = _Karpenter()
    world.turns()
    for _ in range(12):
        world.drift("n1")
        world.turns(2)
        assert list(world.labels()) == ["n1"]
        world.claims = {name: Claim(name, 0.0) for name in world.claims or ()}
        world.turns(2)
        assert world.labels() == {}


def test_without_the_right_nothing_is_written_again_soon_and_the_condition_names_what_waits() -> None:
    world = _Karpenter()
    world.turns()
    world.api.refuse = lambda verb, path: (
        ApiError(403, "Forbidden", "cannot patch resource nodes") if "/nodes/" in path else None
    )
    world.drift("n1")
    world.turns(3)
    assert [path for _, path in world.api.log].count("/api/v1/nodes/n1") == 1
    found = world.condition("web", "ReleaseBlocked")
    assert found["reason"] == "ReleaseNotPermitted"
    assert "node n1" in found["message"]
    assert "cannot patch resource nodes" in found["message"]
    world.api.refuse = lambda _verb, _path: None
    world.turns(1, seconds=700.0)
    world.turns(1)
    assert list(world.labels()) == ["n1"]
    assert world.condition("web", "ReleaseBlocked") == {}


def test_a_node_whose_label_is_refused_keeps_no_other_from_being_released() -> None:
    world = _Karpenter()
    world.turns()
    world.api.refuse = lambda verb, path: (
        ApiError(403, "Forbidden", "admission webhook denied the request") if path.endswith("/nodes/n0") else None
    )
    world.drift("n0")
    world.wall.now += 1.0
    world.drift("n1")
    world.turns(3)
    assert [path for _, path in world.api.log].count("/api/v1/nodes/n0") == 1
    assert list(world.labels()) == ["n1"]
    found = world.condition("web", "ReleaseBlocked")
    assert found["reason"] == "ReleaseNotPermitted"
    assert "node n0" in found["message"]
    assert "admission webhook denied the request" in found["message"]


def test_three_refused_nodes_in_a_row_are_all_refused() -> None:
    world = _Karpenter(nodes=6, pods=18)
    world.turns()
    world.api.refuse = lambda verb, path: (
        ApiError(403, "Forbidden", "cannot patch resource nodes") if "/nodes/" in path else None
    )
    for number in range(6):
        world.drift(f"n{number}")
    world.turns(12)
    assert len([path for _, path in world.api.log if path.startswith("/api/v1/nodes/")]) == 3
    assert "cannot patch resource nodes" in world.condition("web", "ReleaseBlocked")["message"]


def test_switched_off_it_writes_nothing_and_says_what_waits() -> None:
    world = _Karpenter()
    world.releases_nodes = False
    world.restart()
    world.turns()
    world.drift("n1")
    world.turns(2)
    assert world.labels() == {}
    assert "operator.releaseNodes" in world.condition("web", "ReleaseBlocked")["message"]


def test_claims_that_may_not_be_watched_are_reported_on_karpenter_s_nodes_only() -> None:
    world = _Karpenter()
    world.claims, world.claims_refused = None, True
    world.turns(2)
    assert "nodeclaims.karpenter.sh" in world.condition("web", "ReleaseBlocked")["message"]
    other = World()
    other.claims_refused = True
    other.apply_policy(policy("web", **SLACK))
    other.settle(2)
    assert other.condition("web", "ReleaseBlocked") == {}


def test_a_standby_writes_nothing() -> None:
    world = _Karpenter()
    world.turns()
    world.drift("n1")
    world.reconcile()
    world.leading = False
    world.releasing.turn()
    assert world.labels() == {}


def test_our_label_goes_where_no_unbound_placeholder_may_be_and_a_person_s_stays() -> None:
    world = _Karpenter()
    world.turns()
    world.drift("n1")
    world.turns(1)
    world.nodes()["n2"]["metadata"]["labels"][LABEL_RELEASE] = "by-hand"
    world.apply_policy(policy("web", generation=2, **(SLACK | {"hold": "Bound"})))
    world.turns(2)
    assert world.labels() == {"n2": "by-hand"}


@pytest.mark.parametrize("crashed", [False, True])
def test_our_label_goes_with_the_policy_also_if_the_operator_died_in_between(crashed: bool) -> None:
    world = _Karpenter()
    world.turns()
    world.drift("n1")
    world.turns(1)
    assert set(world.labels()) == {"n1"}
    del world.api.objects["/apis/resource-slack.io/v1alpha1/slackpolicies/web"]
    if crashed:
        world.restart()
    world.turns(3)
    assert world.labels() == {}


def test_a_bound_policy_s_nodes_are_left_alone() -> None:
    world = _Karpenter()
    world.apply_policy(policy("web", generation=2, **(SLACK | {"hold": "Bound"})))
    world.turns(3)
    world.drift("n1")
    world.turns(3)
    assert world.labels() == {}


def claim_of(**document: Any) -> wire.NodeClaim:
    metadata = {"name": "general-x", "creationTimestamp": "2027-01-15T07:00:00Z"} | document.pop("metadata", {})
    status = {"nodeName": "n1"} | document.pop("status", {})
    raw = msgspec.json.encode({"metadata": metadata, "status": status, **document})
    return msgspec.json.decode(raw, type=wire.NodeClaim)


CREATED = 1_799_996_400.0  # 2027-01-15T07:00:00Z


def test_a_claim_is_read() -> None:
    plain = read_claim(claim_of(spec={"expireAfter": "Never"}))
    assert plain == Claim("n1", CREATED)
    condition = {"type": "Drifted", "status": "True", "lastTransitionTime": "2027-01-15T07:01:00Z"}
    full = read_claim(claim_of(spec={"expireAfter": "720h"}, status={"nodeName": "n1", "conditions": [condition]}))
    assert full == Claim("n1", CREATED, drifted_since=CREATED + 60, expires_at=CREATED + 720 * 3600)
    going = read_claim(claim_of(metadata={"deletionTimestamp": "2027-01-15T08:00:00Z"}))
    assert going == Claim("n1", CREATED, leaving=True)
    assert read_claim(claim_of(status={"nodeName": None})) is None


@pytest.mark.parametrize("text", ["", "soon", "-5m", None])
def test_an_expiry_that_cannot_be_read_is_none(text: str | None) -> None:
    claim = read_claim(claim_of(spec={"expireAfter": text}))
    assert claim is not None
    assert claim.expires_at is None


def test_claims_are_known_from_the_first_whole_list_on() -> None:
    claims = NodeClaims()
    assert claims.by_node() is None
    claims.begin()
    claims.apply([(EventType.ADDED, claim_of())])
    assert claims.by_node() is None
    claims.end()
    assert list(claims.by_node() or {}) == ["n1"]
    claims.begin()
    claims.keep(ObjectName(name="general-x"))
    claims.end()
    assert list(claims.by_node() or {}) == ["n1"]
    claims.apply([(EventType.DELETED, claim_of())])
    assert claims.by_node() == {}
    claims.apply([(EventType.ADDED, claim_of())])
    claims.begin()
    claims.end()
    assert claims.by_node() == {}
