"""What the page shows: the figures of the plan, the nodes of the snapshot, a history that does not grow."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from slack.capacity_buffers.probing import BufferServer, ServerFinding
from slack.cluster.wire import ResourceQuota
from slack.planner.explain_text import lines
from slack_operator.capacity_buffers.buffer_serving import ServingReport
from slack_operator.placeholders.reconciliation import Reconciliation
from slack_operator.web import explaining
from slack_operator.web.documents import PageDocument
from slack_operator.web.history import MAX_POLICIES, MAX_STEPS, Figures, StepHistory
from slack_operator.web.nodes import EMPTY, READY, SCHEDULABLE, nodes_of, same_nodes
from slack_operator.web.page_state import About, PageState, pod_of
from slack_operator.web.state import MAX_BUFFERS, MAX_POOLS, state_of
from tests.cluster.build import activation_pool
from tests.operator.fakes import World, policy

NOW = 1_800_000_100.0
ABOUT = About("op-1_abc", "resource-slack", "1.2.3", 10.0, lambda: "op-2_def")


def watched(world: World) -> PageState:
    """A board that the world's loop tells of its turns, as `app` wires it."""
    board = PageState(ABOUT)
    world.on_reconciled = board.show
    return board


def state(board: PageState, buffers: ServingReport | None = None) -> PageDocument:
    version, reconciliation, figures = board.last()
    about, port = board.about, 8081
    return state_of(version, reconciliation, figures, about, now=NOW, nodes_version=1, port=port, buffers=buffers)


def test_without_a_policy_the_page_has_none_to_show() -> None:
    world = World()
    board = watched(world)
    world.settle()
    assert (state(board).policies, state(board).at is not None) == ([], True)


def settled(**spec: Any) -> tuple[World, PageState]:
    world = World()
    world.apply_policy(policy("web", **({"extraCapacity": {"minRate": 0.4}} | spec)))
    board = watched(world)
    world.settle()
    return world, board


def test_a_policy_has_the_figures_and_conditions_of_its_status() -> None:
    world, board = settled()
    (view,) = state(board).policies
    status = world.status("web")
    assert (view.name, view.ready, view.rate, view.nodes) == ("web", True, 0.4, 3)
    assert view.buffered == "", "it counts no CapacityBuffers"
    amounts = {amount.resource: (amount.desired, amount.reserved) for amount in view.amounts}
    assert amounts == {"cpu": (4000, 4000), "memory": (4 << 30, 4 << 30)}
    assert (view.bound, view.pending, view.displaced, view.burst) == (4, 0, {}, status["burst"])
    shown = {c.type: (c.status, c.reason, c.message, c.since) for c in view.conditions}
    there = {c["type"]: (c["status"], c["reason"], c["message"], c["lastTransitionTime"]) for c in status["conditions"]}
    assert shown == there
    assert {(condition.level, condition.remedy) for condition in view.conditions} == {("good", None)}
    (shape,) = view.shapes
    assert shape.requests == {"cpu": "1", "memory": "1Gi"}
    assert view.why == "it is 40% of the 10 cpu and 10Gi memory that 10 pods request"
    assert (shape.count, shape.bound, shape.workloads) == (4, 4, ["shop/deploy/api"])


def test_before_the_first_look_the_state_says_so() -> None:
    empty = state(PageState(ABOUT))
    assert (empty.at, empty.policies, empty.nodes) == (None, [], 0)
    assert empty.stale == "the first look at the cluster is not through yet"


def test_a_displaced_placeholder_is_named_with_its_time_and_node() -> None:
    world, board = settled()
    name, gone = min(world.placeholders().items())
    del world.api.objects[f"/api/v1/namespaces/resource-slack/pods/{name}"]
    world.reconcile()
    shown = state(board)
    (displaced,) = shown.displaced
    assert (displaced.number, displaced.pod, displaced.policy, displaced.cause) == (1, name, "web", "Unseen")
    assert displaced.node == gone["spec"]["nodeName"]
    assert displaced.at == world.wall.now
    assert shown.policies[0].displaced == {"Unseen": 1}
    assert (shown.policies[0].ready, shown.policies[0].satisfied) == (True, False)


def test_a_policy_whose_spec_cannot_be_used_is_shown_with_what_is_wrong() -> None:
    world = World()
    world.apply_policy(policy("bad", extraCapacity={"minRate": -1}))
    board = watched(world)
    world.settle()
    (view,) = state(board).policies
    assert (view.name, view.planned, view.ready) == ("bad", False, False)
    assert "spec.extraCapacity.minRate" in view.conditions[0].message


def test_refused_writes_show_as_the_condition_of_the_status() -> None:
    world, board = settled()
    from slack.kube.errors import ApiError

    world.api.refuse = lambda verb, path: (
        ApiError(403, "Forbidden", "no") if verb == "apply" and "replicasets" in path else None
    )
    world.apply_policy(policy("web", generation=2, extraCapacity={"minRate": 0.8}))
    world.settle(2)
    (view,) = state(board).policies
    assert {c.type: c.reason for c in view.conditions}["Ready"] == "WriteRefused"
    assert not view.ready


def test_a_stale_view_keeps_the_last_figures_and_says_why() -> None:
    world, board = settled()
    before = state(board)
    world.fresh.text = "/api/v1/pods is not listed yet"
    world.reconcile()
    shown = state(board)
    assert shown.stale == "/api/v1/pods is not listed yet"
    assert (shown.policies, shown.at) == (before.policies, before.at)
    assert shown.seen is not None
    assert before.seen is not None
    assert shown.seen > before.seen


def test_a_standby_shows_nodes_and_who_leads() -> None:
    world = World()
    world.leading = False
    board = watched(world)
    world.reconcile()
    shown = state(board)
    assert (shown.leading, shown.leader, shown.identity, shown.nodes) == (False, "op-2", "op-1", 3)
    assert shown.policies == []
    assert (shown.namespace, shown.port) == ("resource-slack", 8081)
    assert board.timeline().at == []


def test_a_standby_does_not_tell_as_displaced_what_the_leader_took_away() -> None:
    world, board = settled()
    world.leading = False
    del world.api.objects[f"/api/v1/namespaces/resource-slack/pods/{min(world.placeholders())}"]
    world.reconcile()
    figures = board.last()[2]
    assert figures is not None
    assert figures.observation is not None
    assert figures.observation.displacements
    assert state(board).displaced == []


def test_the_state_has_the_time_at_which_it_was_made() -> None:
    _, board = settled()
    shown = state(board)
    assert shown.now == NOW
    assert shown.at is not None
    assert shown.at < NOW


@pytest.mark.parametrize(
    ("nodes", "pods", "why"),
    [
        (0, 0, "the cluster has no node"),
        (3, 0, "the policy's nodes run no pod with requests"),
        (3, 3, ""),
    ],
)
def test_a_cluster_without_nodes_or_pods_has_nothing_to_keep_room_for(nodes: int, pods: int, why: str) -> None:
    world = World(nodes=nodes, pods=pods, built_in=True)
    board = watched(world)
    world.settle()
    (view,) = state(board).policies
    assert (view.built_in, view.idle) == (True, why)


def test_a_policy_that_has_none_of_the_nodes_is_no_idle_one() -> None:
    _, board = settled(nodeSelector={"pool": "none-such"})
    (view,) = state(board).policies
    assert (view.ready, view.satisfied, view.idle) == (True, False, "")
    _, board = settled(extraCapacity={"minRate": 0})
    assert [view.idle for view in state(board).policies] == [""]


def test_nodes_are_the_columns_of_the_snapshot() -> None:
    _, board = settled()
    figures = board.last()[2]
    assert figures is not None
    assert figures.observation is not None
    shown = nodes_of(figures.observation.snapshot, figures.policy_of_node, 7, divided=True)
    assert (shown.version, shown.names, shown.policies, shown.policy) == (7, ["n0", "n1", "n2"], ["web"], [0, 0, 0])
    assert shown.flags == [READY | SCHEDULABLE] * 3
    assert not any(flags & EMPTY for flags in shown.flags)
    cpu, memory = shown.resources
    assert (cpu.resource, cpu.allocatable, cpu.pods) == ("cpu", [8000] * 3, [4000, 3000, 3000])
    assert sum(cpu.slack) == 4000
    assert [1000 * count for count in shown.placeholders] == cpu.slack
    assert memory.allocatable == [32 << 30] * 3
    assert shown.pods == [p + s for p, s in zip([4, 3, 3], shown.placeholders, strict=True)]


def test_unbound_placeholders_are_shown_where_their_capacity_is_kept() -> None:
    world, board = settled(hold="Unbound")
    for _ in range(2):
        world.observe()
        world.unbound.write_due()
        world.settle(1)
    figures = board.last()[2]
    assert figures is not None
    assert figures.observation is not None
    shown = nodes_of(figures.observation.snapshot, figures.policy_of_node, 7, divided=True)
    assert sum(shown.unbound) == len(world.placeholders()) > 0
    assert shown.unbound == shown.placeholders
    (view,) = state(board).policies
    assert (view.unbound, view.bound, view.pending) == (True, len(world.placeholders()), 0)
    assert all(shape.unbound for shape in view.shapes)
    (other,) = state(settled()[1]).policies
    assert not other.unbound


def test_nodes_whose_placeholders_are_unbound_now_look_otherwise() -> None:
    _, board = settled()
    figures = board.last()[2]
    assert figures is not None
    assert figures.observation is not None
    bound = figures.observation.snapshot
    unbound = replace(bound, placeholders=tuple(replace(pod, unbound=True) for pod in bound.placeholders))
    assert not same_nodes(bound, unbound)


def test_nodes_that_look_as_before_are_known_to() -> None:
    world, board = settled()
    before = board.last()[2]
    world.reconcile()
    after = board.last()[2]
    world.api.put("/api/v1/namespaces/shop/pods/late-abc-1", _pod_on("n1"))
    world.reconcile()
    later = board.last()[2]
    looks = [
        reconciliation.observation
        for reconciliation in (before, after, later)
        if reconciliation is not None and reconciliation.observation is not None
    ]
    assert [same_nodes(looks[0].snapshot, observation.snapshot) for observation in looks] == [True, True, False]


def _pod_on(node: str) -> dict[str, object]:
    from tests.operator.fakes import pod

    return pod("late-abc-1", node)


def none(_: str) -> tuple[ResourceQuota, ...]:
    """Give no quota of any namespace."""
    return ()


def test_explain_promises_nothing_where_quotas_are_not_read_or_admit_no_pod() -> None:
    _, board = settled()
    reconciliation = board.last()[2]
    assert reconciliation is not None
    asked = explaining.question("shop", "deploy/api")
    unread = explaining.answer(reconciliation, *asked)
    assert not unread.ready
    assert "whether ResourceQuotas of its namespace admit a further pod: they cannot be read here" in unread.text
    full = msgspec.json.decode(
        b'{"metadata": {"name": "q", "namespace": "shop"}, "status": {"hard": {"pods": "10"}, "used": {"pods": "10"}}}',
        type=ResourceQuota,
    )
    found = explaining.answer(reconciliation, *asked, lambda namespace: {"shop": [full]}[namespace])
    assert not found.ready
    assert "  but ResourceQuota shop/q admits no further pod: it has 0 pods left" in found.text


def test_explain_says_what_the_command_says() -> None:
    from types import MappingProxyType

    from slack.planner.explain import explain, target
    from slack.planner.model.result import Plan

    _, board = settled()
    reconciliation = board.last()[2]
    assert reconciliation is not None
    assert reconciliation.observation is not None
    found = explaining.answer(reconciliation, *explaining.question("shop", "deploy/api"), none)
    direct = explain(
        reconciliation.observation.snapshot,
        Plan(reconciliation.items, MappingProxyType({})),
        [planned.policy for planned in reconciliation.planned_policies],
        target("deploy", "api", "shop"),
        priorities={"resource-slack": -10},
    )
    assert found == explaining.ExplanationAnswer(found=True, ready=True, text="\n".join(lines(direct)))
    assert found.text.startswith(
        "shop/deploy/api: 10 pods, 1 cpu, 1Gi memory each\n  policy web keeps capacity for it:"
    )
    missing = explaining.answer(reconciliation, *explaining.question("shop", "deploy/ap"))
    assert not missing.found
    assert "did you mean deploy/api?" in missing.text


@pytest.mark.parametrize(
    ("namespace", "workload", "words"),
    [
        ("", "deploy/api", "namespace: write"),
        ("shop\n", "deploy/", "workload: write KIND/NAME"),
        ("shop", "", "workload: write KIND/NAME"),
        ("shop", "a/b/c", "workload: write KIND/NAME"),
        ("shop", "<b>/x", "workload: write KIND/NAME"),
        ("shop", "x" * 254, "workload: write KIND/NAME"),
    ],
)
def test_a_bad_question_is_told_its_field(namespace: str, workload: str, words: str) -> None:
    with pytest.raises(explaining.InvalidQuestion, match=words):
        explaining.question(namespace, workload)


def test_a_standby_cannot_explain() -> None:
    assert "ask the leader" in explaining.answer(Reconciliation(0.0, 0.0, leading=False), "deploy", "api", "shop").text


def figures(reserved: int, pending: int, desired: int = 4000) -> Figures:
    return Figures(desired, reserved, 0, 0, pending)


def test_the_history_keeps_the_worst_of_a_step() -> None:
    history = StepHistory()
    history.add_sample(100.0, {"web": figures(4000, 0)})
    history.add_sample(101.0, {"web": figures(2000, 2)})
    history.add_sample(104.0, {"web": figures(4000, 0, desired=5000)})
    history.add_sample(105.0, {"web": figures(4000, 0)})
    shown = history.timeline()
    assert shown.at == [100.0, 105.0]
    assert shown.policies == {"web": [figures(2000, 2, desired=5000), figures(4000, 0)]}


def test_the_history_is_bounded_in_steps_and_policies() -> None:
    history = StepHistory()
    for number in range(MAX_STEPS + 50):
        history.add_sample(number * 10.0, {f"p{index:03d}": figures(number, 0) for index in range(MAX_POLICIES + 5)})
    shown = history.timeline()
    assert (len(shown.at), shown.at[0], len(shown.policies)) == (MAX_STEPS, 500.0, MAX_POLICIES)
    assert all(len(column) == MAX_STEPS for column in shown.policies.values())


def test_a_policy_that_came_late_or_left_has_gaps() -> None:
    history = StepHistory()
    history.add_sample(0.0, {"a": figures(1, 0)})
    history.add_sample(10.0, {"b": figures(2, 0)})
    assert history.timeline().policies == {"a": [figures(1, 0), None], "b": [None, figures(2, 0)]}


def test_pools_are_shown_with_what_they_announce_and_why_less_is_kept() -> None:
    world, board = settled(extraCapacity={"minRate": 0, "ceiling": {"cpu": "2"}}, cover={"mode": "None"})
    assert state(board).pools == []
    path = "/apis/resource-slack.io/v1alpha1/namespaces/media/activationpools/"
    world.api.put(path + "thumbnail", activation_pool("thumbnail", cpu="1", slack_pods=3))
    world.api.put(path + "calm", activation_pool("calm", cpu="1", slack_pods=0))
    world.settle()
    first, second = state(board).pools
    assert (first.name, first.announced, first.most) == ("media/thumbnail", 3, 20)
    assert first.lacking == "spec.extraCapacity.ceiling (cpu) leaves room for 2 of the 3 pods that it announces"
    assert first.observed is not None
    assert (second.name, second.announced, second.lacking) == ("media/calm", 0, "")


def test_buffers_that_lack_most_are_shown_first_and_the_others_counted() -> None:
    _, board = settled()
    rows = [
        {
            "name": f"shop/cb{number:02}",
            "asked": 5,
            "replicas": 4,
            "fitting": 1 if number == 30 else 4,
            "reason": "RequiresNewCapacity" if number == 30 else "FitsExistingCapacity",
            "message": "text",
            "limits": ["quotas: few"],
        }
        for number in range(MAX_BUFFERS + 3)
    ]
    report = ServingReport(ServerFinding(BufferServer.NOBODY, "no status"), buffers=tuple(rows))

    shown = state(board, buffers=report)
    assert (len(shown.buffers), shown.more_buffers) == (MAX_BUFFERS, 3)
    assert (shown.buffers[0].name, shown.buffers[1].name) == ("shop/cb30", "shop/cb00")
    assert (shown.buffers[0].fitting, shown.buffers[0].limits) == (1, ["quotas: few"])
    assert shown.buffer_server == "CapacityBuffers here are served by nobody else: no status"
    without = state(board)
    assert (without.buffers, without.buffer_server) == ([], "")


def test_of_very_many_pools_those_that_announce_most_are_shown_and_the_others_counted() -> None:
    world, board = settled()
    for number in range(MAX_POOLS + 7):
        name = f"pool-{number}"
        path = f"/apis/resource-slack.io/v1alpha1/namespaces/media/activationpools/{name}"
        world.api.put(path, activation_pool(name, cpu="10m", slack_pods=number % 3))
    world.settle()
    shown = state(board)
    assert (len(shown.pools), shown.more_pools) == (MAX_POOLS, 7)
    assert [pool.announced for pool in shown.pools] == sorted((pool.announced for pool in shown.pools), reverse=True)


def test_the_pod_of_a_lease_holder() -> None:
    assert pod_of("resource-slack-6d5f_1a2b") == "resource-slack-6d5f"
    assert pod_of("") == ""


def test_the_document_is_json_with_camel_case_names() -> None:
    import msgspec

    _, board = settled()
    document = json.loads(msgspec.json.encode(state(board)))
    assert {"operatorVersion", "nodesVersion", "intervalSeconds"} <= document.keys()
    assert {"builtIn", "dryRun", "moreShapes"} <= document["policies"][0].keys()


def test_a_policy_with_an_objective_says_why_it_keeps_this_much_here_too() -> None:
    world, board = settled(extraCapacity={"floor": {"cpu": "2"}}, objective={"instantStart": 0.9})
    (view,) = state(board).policies
    assert view.objective == 0.9, "the floor holds until a pod has come"
    assert view.why == world.status("web")["objective"]["why"]
    reconciliation = board.last()[1]
    assert reconciliation is not None
    found = explaining.answer(reconciliation, "deploy", "api", "shop", none)
    assert f"why this much: {view.why}" in found.text
