"""Each kind of pod, seen as its events come: what an objective learns from, and for whom placeholders leave."""

from itertools import islice

import pytest

from slack.cluster.hold import UNBOUND_SCHEDULER
from slack.cluster.wire import Pod
from slack.kube.watch import EventType
from slack.planner.burst_eviction.capacity_builder import ClusterCapacityBuilder
from slack.planner.burst_eviction.choice import choose_evictions
from slack.planner.burst_eviction.pods import PodPriorities
from slack.planner.domain.membership import divide
from slack.planner.policy.spec import Policy
from slack_operator.burst_eviction.bursts import AdmissionLimits, gather_bursts
from slack_operator.burst_eviction.policy_scopes import PolicyScope, PolicyScopes
from slack_operator.learning.objectives import arrivals_of
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.placeholders.view.sinks import PodSink
from tests.cluster.build import NAMESPACE, NOW, Json, as_node, as_pod, placeholder
from tests.examples import by_profile
from tests.planner.pod_table import NODES, OTHERS, PRIORITY, combinations, expected, table
from tests.planner.scenes import policy_of

_NAMES = [item["metadata"]["name"] for item in NODES]
_SITES = PolicyScopes({"default": PolicyScope("default", "u", PRIORITY, "default-scheduler")}, PodPriorities({}))


def a_view() -> tuple[ClusterView, PodSink]:
    """Return a view of full nodes: what real pods leave, placeholders request."""
    view = ClusterView(NAMESPACE, lambda: None, wall=lambda: NOW)
    view.columns.apply_nodes([("ADDED", as_node(item)) for item in NODES])
    sink = PodSink(view)
    full = [placeholder(f"p-{name}-{i}", cpu="1", node=name) for name in _NAMES for i in range(4)]
    more = [placeholder(f"q-{name}-{i}", cpu="1", node=name) for name in _NAMES[1:] for i in range(4)]
    sink.begin()
    sink.apply([(EventType.ADDED, as_pod(item)) for item in (*OTHERS, *full, *more)])
    sink.end()
    return view, sink


def changed(item: Json, *, spec: Json | None = None, **metadata: object) -> Pod:
    """Return the pod with some fields changed."""
    return as_pod(
        {
            **item,
            "metadata": {**item["metadata"], **metadata},
            "spec": {**item["spec"], **(spec or {})},
            "status": {**item["status"], "phase": "Pending"},
        }
    )


def events(item: Json) -> list[tuple[EventType, Pod]]:
    """Return how a pod becomes what it is: made, bound where it is on a node, then as it is."""
    node = item["spec"]["nodeName"]
    found = [(EventType.ADDED, changed(item, spec={"nodeName": None}, deletionTimestamp=None))]
    if node is not None:
        found.append((EventType.MODIFIED, changed(item, deletionTimestamp=None)))
    # The watch leaves finished pods out: one that finishes is shown as deleted.
    finished = item["status"]["phase"] in ("Succeeded", "Failed")
    return [*found, (EventType.DELETED if finished else EventType.MODIFIED, as_pod(item))]


def learns_from(view: ClusterView, policy: Policy) -> bool:
    snapshot = view.columns.snapshot(NOW)
    (domain,) = divide(snapshot, [policy])
    mine = {snapshot.nodes.names[row] for row in domain.members.nonzero()[0]}
    starts = [start for start in view.instant.drain_starts() if start.node in mine]
    return arrivals_of(starts, policy, PRIORITY, frozenset())[1] > 0


def makes_way(view: ClusterView) -> bool:
    waiting = view.unplaced.pods.values()
    bursts = [own.burst for own in gather_bursts(waiting, (), _SITES, lambda *_: True, AdmissionLimits(), {})]
    asked = [burst.constraints for burst in bursts]
    room = ClusterCapacityBuilder().room(view.columns.room_copy(), asked, _SITES.priorities, NOW)
    assert not (room.free > 0)[:, 0].any(), "the nodes are full"
    return bool(choose_evictions(room, bursts, lone=0).leaving)


def test_every_combination_is_learnt_from_and_has_way_made_as_the_table_says() -> None:
    wrong, used = [], set[str]()
    for names, item in islice(combinations(), 0, None, by_profile(7, 1)):
        used |= names
        view, sink = a_view()
        sink.apply(events(item))
        if makes_way(view) != expected(names).burst:
            wrong.append((sorted(names), "burst"))
        if learns_from(view, policy_of()) != expected(names).objective:
            wrong.append((sorted(names), "objective"))
    assert not wrong, f"{len(wrong)} kinds of pods count otherwise: {wrong[:9]}"
    assert used == set(table())


@pytest.mark.thorough
def test_every_combination_is_learnt_from_beside_unbound_placeholders_as_the_page_says() -> None:
    policy = policy_of().model_copy(update={"unbound_scheduler": UNBOUND_SCHEDULER})
    for names, item in combinations():
        view, sink = a_view()
        sink.apply(events(item))
        assert learns_from(view, policy) == expected(names, unbound=True).objective, names
