"""Nodes that unbound placeholders let go: a release is written, taken back, and refusals are reported.

Whatever does not depend on how nodes are released is tested with both ways.
"""

from typing import Any

import msgspec
import pytest

from slack.cluster import wire
from slack.cluster.hold import ReleaseNodes
from slack.cluster.labels import KARPENTER_NODE_POOL, LABEL_PLACEHOLDER, LABEL_POLICY, LABEL_RELEASE, LABEL_SHAPE
from slack.kube.errors import ApiError
from slack.kube.object_names import ObjectName
from slack.kube.watch import EventType
from slack.planner.objects.marker import marker_pod
from slack.planner.release import DRIFT_SECONDS, REPLACED_SECONDS, Claim, ReleaseReason, parse_mark
from slack_operator.placeholders.act.releasing import held_nodes
from slack_operator.placeholders.view.autoscalers import CLUSTER_AUTOSCALER, KARPENTER, Autoscaler
from slack_operator.placeholders.view.node_claims import NodeClaims, read_claim
from tests.operator.fakes import NAMESPACE, Json, World, node, policy

SLACK: dict[str, Any] = {
    "hold": "Unbound",
    "extraCapacity": {"minRate": 0.5},
    "stabilization": {"shrinkDelay": "0s"},
}


CONTESTS = {ReleaseNodes.LABEL: "writes its label", ReleaseNodes.MARKER_POD: "deletes its marker pod"}
MARKERS = "/api/v1/namespaces/resource-slack/pods"


LABEL_IS_THOROUGH = pytest.mark.parametrize(
    "way",
    [pytest.param(ReleaseNodes.LABEL, marks=pytest.mark.thorough), ReleaseNodes.MARKER_POD],
    ids=["label", "marker"],
    indirect=True,
)
"""`make test` looks at the marker pod's way alone."""


@pytest.fixture(params=[ReleaseNodes.LABEL, ReleaseNodes.MARKER_POD], ids=["label", "marker"])
def way(request: pytest.FixtureRequest) -> ReleaseNodes:
    return ReleaseNodes(request.param)


class _Karpenter(World):
    def __init__(self, way: ReleaseNodes = ReleaseNodes.LABEL, nodes: int = 3, pods: int = 9) -> None:
        self.release_nodes = way
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
            self.releasing.write_due()
            self.unbound.write_due()

    def released(self) -> dict[str, str]:
        """Return the values of released nodes, by either way."""
        return self.labels() | {
            item["spec"]["nodeName"]: item["metadata"]["labels"][LABEL_RELEASE] for item in self.markers().values()
        }

    def labels(self) -> dict[str, str]:
        found = {name: item["metadata"]["labels"].get(LABEL_RELEASE, "") for name, item in self.nodes().items()}
        return {name: value for name, value in found.items() if value}

    def markers(self) -> dict[str, Json]:
        pods = self.api.items("pods")
        return {name: item for name, item in pods.items() if LABEL_RELEASE in item["metadata"]["labels"]}

    def set_label(self, name: str, value: str) -> None:
        labels = self.nodes()[name]["metadata"]["labels"]
        labels[LABEL_RELEASE] = value
        if not value:
            del labels[LABEL_RELEASE]
        self.api._bump(self.nodes()[name])

    def set_release(self, name: str, value: str) -> None:
        """Let somebody else write, or undo, the release of a node."""
        if self.release_nodes is ReleaseNodes.MARKER_POD:
            if not value:
                self.api.objects.pop(f"{MARKERS}/slack-release-{name}", None)
            elif f"{MARKERS}/slack-release-{name}" not in self.api.objects:
                node = self.nodes()[name]["metadata"]
                again = marker_pod(name, node["uid"], value, namespace=NAMESPACE, priority_class_name="resource-slack")
                self.api.put(f"{MARKERS}/slack-release-{name}", again)
            return
        self.set_label(name, value)

    def tries(self) -> int:
        """Return how many writes of releases there were, refused ones among them."""
        return sum(
            path.startswith(("/api/v1/nodes/", f"{MARKERS}/slack-release-")) or (verb, path) == ("create", MARKERS)
            for verb, path in self.api.log
        )

    def refuse(self, text: str, times: int = 1_000) -> None:
        """Refuse the next writes of releases."""
        left = [times]

        def refused(verb: str, path: str) -> ApiError | None:
            if not (path.startswith("/api/v1/nodes/") or (verb, path) == ("create", MARKERS)) or left[0] <= 0:
                return None
            left[0] -= 1
            return ApiError(403, "Forbidden", text)

        self.api.refuse = refused

    def nodes(self) -> dict[str, Json]:
        return self.api.items("nodes")


def test_a_drifted_node_is_released_once_and_its_capacity_counts_until_it_goes(way: ReleaseNodes) -> None:
    world = _Karpenter(way)
    world.turns()
    assert world.released() == {}
    world.drift("n1")
    world.turns(1)
    (name, value), *others = world.released().items()
    assert (name, others) == ("n1", [])
    mark = parse_mark(value)
    assert mark is not None
    assert mark.why is ReleaseReason.DRIFTED
    writes = len(world.api.log)
    world.turns(3)
    assert len(world.api.log) == writes
    assert world.condition("web", "SlackSatisfied")["status"] == "True"
    assert world.condition("web", "ReleaseBlocked") == {}


def test_a_released_node_is_filled_last_so_that_a_new_one_takes_its_placeholders(way: ReleaseNodes) -> None:
    world = _Karpenter(way)
    world.turns()
    world.drift("n1")
    world.turns(1)
    world.api.put("/api/v1/nodes/n9", node("n9", **{KARPENTER_NODE_POOL: "general"}))
    world.turns(1)
    snapshot = world.view.observe(world.wall.now).snapshot
    assert "n1" not in {snapshot.nodes.names[pod.node] for pod in snapshot.placeholders}


def test_a_new_process_goes_on_with_what_it_finds(way: ReleaseNodes) -> None:
    world = _Karpenter(way)
    world.turns()
    world.drift("n1")
    world.turns(1)
    before = world.released()
    world.restart()
    world.turns(3)
    assert world.released() == before
    world.claims = {name: Claim(name, 0.0) for name in world.claims or ()}
    world.turns(1)
    assert world.released() == {}


def test_a_node_that_stays_gets_its_placeholders_back_and_the_policy_says_so(way: ReleaseNodes) -> None:
    world = _Karpenter(way)
    world.turns()
    world.drift("n1")
    world.turns(1)
    world.turns(2, seconds=REPLACED_SECONDS)
    assert world.released() == {}
    found = world.condition("web", "ReleaseBlocked")
    assert (found["status"], found["reason"]) == ("True", "NodeStays")
    assert "node n1: its NodeClaim has drifted" in found["message"]


def _is_fought_over(world: _Karpenter, value: str) -> None:
    """Play 25 minutes of somebody who writes the release of n1 at each turn; the writes to it must become few."""
    before = world.tries()
    for _ in range(150):
        world.turns(1)
        world.set_release("n1", value)
    assert 5 <= world.tries() - before <= 7
    found = world.condition("web", "ReleaseBlocked")
    assert found["reason"] == "WrittenBack"
    assert f"node n1: somebody else {CONTESTS[world.release_nodes]}" in found["message"]


@LABEL_IS_THOROUGH
def test_a_release_that_somebody_undoes_each_time_is_left_off_for_a_while_and_other_nodes_are_released(
    way: ReleaseNodes,
) -> None:
    world = _Karpenter(way)
    world.turns()
    world.drift("n1")
    _is_fought_over(world, "")
    world.drift("n2")
    world.turns(2)
    assert list(world.released()) == ["n2"]


@LABEL_IS_THOROUGH
def test_a_release_that_somebody_puts_back_each_time_is_left_there_for_a_while(way: ReleaseNodes) -> None:
    world = _Karpenter(way)
    world.turns()
    world.drift("n1")
    world.turns(1)
    value = world.released()["n1"]
    world.claims = {name: Claim(name, 0.0) for name in world.claims or ()}
    _is_fought_over(world, value)


def test_a_node_that_is_released_and_taken_back_by_turns_is_no_contest(way: ReleaseNodes) -> None:
    world = _Karpenter(way)
    world.turns()
    for _ in range(12):
        world.drift("n1")
        world.turns(2)
        assert list(world.released()) == ["n1"]
        world.claims = {name: Claim(name, 0.0) for name in world.claims or ()}
        world.turns(2)
        assert world.released() == {}


def test_without_the_right_nothing_is_written_again_soon_and_the_condition_names_what_waits(way: ReleaseNodes) -> None:
    world = _Karpenter(way)
    world.turns()
    world.refuse("may not write it")
    world.drift("n1")
    world.turns(3)
    assert world.tries() == 1
    found = world.condition("web", "ReleaseBlocked")
    assert found["reason"] == "ReleaseNotPermitted"
    assert "node n1" in found["message"]
    assert "may not write it" in found["message"]
    world.api.refuse = lambda _verb, _path: None
    world.turns(1, seconds=700.0)
    world.turns(1)
    assert list(world.released()) == ["n1"]
    assert world.condition("web", "ReleaseBlocked") == {}


def test_a_node_whose_release_is_refused_keeps_no_other_from_being_released(way: ReleaseNodes) -> None:
    world = _Karpenter(way)
    world.turns()
    world.refuse("admission webhook denied the request", times=1)
    world.drift("n0")
    world.wall.now += 1.0
    world.drift("n1")
    world.turns(3)
    assert world.tries() == 2
    assert list(world.released()) == ["n1"]
    found = world.condition("web", "ReleaseBlocked")
    assert found["reason"] == "ReleaseNotPermitted"
    assert "node n0" in found["message"]
    assert "admission webhook denied the request" in found["message"]


def test_three_refused_nodes_in_a_row_are_all_refused(way: ReleaseNodes) -> None:
    world = _Karpenter(way, nodes=6, pods=18)
    world.turns()
    world.refuse("may not write it")
    for number in range(6):
        world.drift(f"n{number}")
    world.turns(12)
    assert world.tries() == 3
    assert "may not write it" in world.condition("web", "ReleaseBlocked")["message"]


def test_switched_off_it_writes_nothing_and_says_what_waits() -> None:
    world = _Karpenter()
    world.release_nodes = ReleaseNodes.OFF
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


def test_a_standby_writes_nothing(way: ReleaseNodes) -> None:
    world = _Karpenter(way)
    world.turns()
    world.drift("n1")
    world.reconcile()
    world.leading = False
    world.releasing.write_due()
    assert world.released() == {}


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
def test_a_release_ends_with_the_policy_also_if_the_operator_died_in_between(way: ReleaseNodes, crashed: bool) -> None:
    world = _Karpenter(way)
    world.turns()
    world.drift("n1")
    world.turns(1)
    assert set(world.released()) == {"n1"}
    del world.api.objects["/apis/resource-slack.io/v1alpha1/slackpolicies/web"]
    if crashed:
        world.restart()
    world.turns(3)
    assert world.released() == {}


def test_a_bound_policy_s_nodes_are_left_alone(way: ReleaseNodes) -> None:
    world = _Karpenter(way)
    world.apply_policy(policy("web", generation=2, **(SLACK | {"hold": "Bound"})))
    world.turns(3)
    world.drift("n1")
    world.turns(3)
    assert world.released() == {}


def _with_markers() -> _Karpenter:
    """Return a world in which n1 has drifted and has a marker pod."""
    world = _Karpenter(ReleaseNodes.MARKER_POD)
    world.turns()
    world.drift("n1")
    world.turns(1)
    assert list(world.markers()) == ["slack-release-n1"]
    return world


def test_a_marker_pod_belongs_to_its_node_and_needs_no_scheduler() -> None:
    world = _with_markers()
    pod = world.markers()["slack-release-n1"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "controller": True}
    assert pod["metadata"]["ownerReferences"] == [owner | {"uid": world.nodes()["n1"]["metadata"]["uid"]}]
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert pod["spec"]["priorityClassName"] == "resource-slack"
    assert pod["spec"]["activeDeadlineSeconds"] == 6 * 3600
    assert pod["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/daemonset-pod"] == "true"
    assert not pod["metadata"]["labels"].keys() & {LABEL_POLICY, LABEL_SHAPE, LABEL_PLACEHOLDER}
    assert not world.labels()
    every = {path for path in world.api.objects if path.startswith("/apis/apps/v1")}
    (replica_set,) = [world.api.objects[path] for path in every]
    (term,) = replica_set["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    (expression,) = term["labelSelector"]["matchExpressions"]
    assert pod["metadata"]["labels"].keys() >= {expression["key"]}
    assert (expression["operator"], term["topologyKey"]) == ("Exists", "kubernetes.io/hostname")


def test_placeholders_avoid_marker_pods_only_where_these_release_nodes() -> None:
    templates = []
    for way in ReleaseNodes:
        world = _Karpenter(way)
        world.turns()
        templates += [item["spec"]["template"]["spec"]["affinity"] for item in world.api.items("replicasets").values()]
    label, marker, off = templates
    assert label == off
    assert "podAntiAffinity" not in label
    assert marker["nodeAffinity"] == label["nodeAffinity"]  # a person may release a node by the label


def test_on_cluster_autoscaler_there_are_no_marker_pods_and_templates_stay_as_they_are() -> None:
    by_label = _Karpenter()
    by_label.turns()
    world = _Karpenter(ReleaseNodes.MARKER_POD)
    world.autoscaler = Autoscaler(CLUSTER_AUTOSCALER, "its status")
    world.turns()
    world.drift("n1")
    world.turns(3)
    assert world.markers() == {}
    assert world.status("web")["hold"]["releaseNodes"] == "Off"
    assert world.replicas() == by_label.replicas()
    assert world.condition("web", "ReleaseBlocked") == {}
    world.autoscaler, world.recognition_lasts = None, False  # it restarts, and so does the operator
    before = set(world.replicas())
    world.restart()
    world.turns(3)
    assert set(world.replicas()) == before
    world.autoscaler = Autoscaler(KARPENTER, "a NodePool")
    world.turns(20)
    assert list(world.markers()) == ["slack-release-n1"]
    assert world.status("web")["hold"]["releaseNodes"] == "MarkerPod"
    assert not before & {name for name, count in world.replicas().items() if count}


def test_a_marker_is_no_demand_and_does_not_keep_a_spare_node() -> None:
    world = _with_markers()
    with_marker = world.view.observe(world.wall.now).snapshot
    kinds = with_marker.kinds.workloads
    assert {workload.namespace for workload in kinds} == {"shop"}
    marks = world.view.node_marks()
    (held, *_), _ = held_nodes(with_marker, marks, {"n1"})
    assert (held.name, held.pods) == ("n1", 3)


def test_a_marker_gets_what_admission_policies_demand_of_every_pod() -> None:
    world = _Karpenter(ReleaseNodes.MARKER_POD)
    extras = {"labels": {"team": "platform"}, "limits": "Requests", "imagePullSecrets": [{"name": "corp"}]}
    world.apply_policy(policy("web", generation=2, **SLACK, placeholders=extras))
    world.turns()
    world.drift("n1")
    world.turns(1)
    (pod,) = world.markers().values()
    assert pod["metadata"]["labels"]["team"] == "platform"
    assert pod["spec"]["imagePullSecrets"] == [{"name": "corp"}]
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1m", "memory": "16Mi"}
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize("way", [ReleaseNodes.LABEL, ReleaseNodes.OFF])
def test_markers_of_an_earlier_setting_are_deleted_and_placeholders_exchanged(way: ReleaseNodes) -> None:
    world = _with_markers()
    before = set(world.replicas())
    world.release_nodes = way
    world.restart()
    world.turns(20)
    assert world.markers() == {}
    assert set(world.labels()) == ({"n1"} if way is ReleaseNodes.LABEL else set())
    alive = {name for name, count in world.replicas().items() if count}
    assert alive
    assert not alive & before
    assert world.condition("web", "SlackSatisfied")["status"] == "True"


def test_a_label_of_an_earlier_setting_is_named_as_nobody_else_takes_it_away() -> None:
    world = _Karpenter()
    world.turns()
    world.drift("n1")
    world.turns(1)
    world.release_nodes = ReleaseNodes.MARKER_POD
    world.restart()
    world.claims = {name: Claim(name, 0.0) for name in world.claims or ()}
    tries = world.tries()
    world.turns(3)
    assert world.tries() == tries
    found = world.condition("web", "ReleaseBlocked")
    assert found["reason"] == "ReleaseNotPermitted"
    assert "kubectl label node n1 resource-slack.io/release-" in found["message"]
    world.set_label("n1", "")
    world.turns(1)
    assert world.condition("web", "ReleaseBlocked") == {}


def test_a_marker_that_its_kubelet_refuses_is_deleted_reported_and_not_made_again_soon() -> None:
    world = _with_markers()
    pod = world.markers()["slack-release-n1"]
    pod["status"] = {"phase": "Failed", "reason": "OutOfpods", "message": "Node didn't have enough resource: pods"}
    world.api._bump(pod)
    world.turns(3)
    assert world.markers() == {}
    assert [verb for verb, path in world.api.log if path == MARKERS] == ["create"]
    found = world.condition("web", "ReleaseBlocked")
    assert found["reason"] == "ReleaseNotPermitted"
    assert "node n1: its NodeClaim has drifted" in found["message"]
    assert "its marker pod has failed: OutOfpods: Node didn't have enough resource: pods" in found["message"]
    world.turns(2, seconds=700.0)
    assert list(world.markers()) == ["slack-release-n1"]


def test_a_marker_whose_node_has_gone_is_deleted() -> None:
    world = _with_markers()
    del world.api.objects["/api/v1/nodes/n1"]
    world.turns(2)
    assert world.markers() == {}


def test_a_standby_deletes_no_marker() -> None:
    world = _with_markers()
    world.leading = False
    world.release_nodes = ReleaseNodes.LABEL
    world.restart()
    world.reconcile()
    world.releasing.write_due()
    assert list(world.markers()) == ["slack-release-n1"]


def test_another_pod_with_the_marker_s_name_is_reported_and_left_alone() -> None:
    world = _Karpenter(ReleaseNodes.MARKER_POD)
    world.turns()
    other = {"metadata": {"name": "slack-release-n1", "namespace": NAMESPACE, "labels": {}}, "spec": {}, "status": {}}
    world.api.put(f"{MARKERS}/slack-release-n1", other)
    world.drift("n1")
    world.turns(6)
    assert world.markers() == {}
    assert "is there already" in world.condition("web", "ReleaseBlocked")["message"]
    assert world.tries() <= 3
    assert f"{MARKERS}/slack-release-n1" in world.api.objects


def test_placeholders_of_the_way_before_hold_their_capacity_until_the_new_ones_are_told() -> None:
    world = _Karpenter()
    world.turns()
    asked = len(world.placeholders())
    world.release_nodes = ReleaseNodes.MARKER_POD
    world.restart()
    least, most = asked, asked
    for _ in range(40):
        world.turns(1)
        told = sum(bool(pod["status"].get("conditions")) for pod in world.placeholders().values())
        least, most = min(least, told), max(most, told)
    assert least >= asked - 2  # a step, until the thread has told of those that take its place
    assert most <= asked
    alive = [item for item in world.api.items("replicasets").values() if item["spec"]["replicas"]]
    assert alive
    assert all("podAntiAffinity" in item["spec"]["template"]["spec"]["affinity"] for item in alive)


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
