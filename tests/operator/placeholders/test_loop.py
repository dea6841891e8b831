"""The loop against an API server in memory: what users rely on, step by step."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from slack.cluster.hold import Hold
from slack.kube.errors import ApiError, InvalidAnswer, KubeError, Unreachable
from slack.planner.policy.placeholders import Placeholders
from slack_operator.placeholders.act.actuator import TURN_SECONDS
from slack_operator.placeholders.report.status import HEARTBEAT_SECONDS
from slack_operator.runtime.leading import NotLeading
from tests.operator.fakes import NAMESPACE, Crash, Json, World, node, pod, policy

IN_BOTH_FORMS = pytest.mark.usefixtures("hold")
COST = "controller.kubernetes.io/pod-deletion-cost"


def world(**spec: Any) -> World:
    made = World()
    made.apply_policy(policy("web", **({"extraCapacity": {"minRate": 0.4}} | spec)))
    return made


@IN_BOTH_FORMS
def test_a_policy_gets_placeholders_that_it_owns() -> None:
    w = world()
    w.settle()
    (replica_set,) = w.api.items("replicasets").values()
    assert replica_set["spec"]["replicas"] == 4
    (owner,) = replica_set["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["blockOwnerDeletion"]) == ("SlackPolicy", "uid-web", False)
    assert w.condition("web", "Ready")["status"] == "True"
    assert w.status("web")["summary"] == {"state": "Reserved", "rate": "40%", "desired": "4/4Gi", "reserved": "4/4Gi"}


def assert_only_heartbeats(w: World, before: list[tuple[str, str]]) -> None:
    """Assert that ten minutes brought nothing but a status that says again that it is kept up."""
    assert w.api.log[: len(before)] == before
    assert set(w.api.log[len(before) :]) <= {("apply", "/apis/resource-slack.io/v1alpha1/slackpolicies/web/status")}
    assert len(w.api.log) - len(before) <= 1 + 600 / (0.8 * HEARTBEAT_SECONDS)  # the first may be due at once


@IN_BOTH_FORMS
def test_nothing_is_written_when_nothing_has_changed() -> None:
    w = world()
    w.settle()
    before = list(w.api.log)
    w.settle(20, seconds=30.0)
    assert_only_heartbeats(w, before)


@IN_BOTH_FORMS
def test_a_restart_writes_nothing() -> None:
    w = world()
    w.settle()
    before = list(w.api.log)
    w.restart()
    w.settle(20)
    assert w.api.log == before


@IN_BOTH_FORMS
def test_what_a_policy_gives_placeholders_is_written_once_and_the_pods_stay() -> None:
    w = world()
    w.settle()
    names, pods = set(w.replicas()), set(w.placeholders())
    extras = {"labels": {"team": "a"}, "limits": "Requests", "imagePullSecrets": [{"name": "corp"}]}
    w.apply_policy(policy("web", extraCapacity={"minRate": 0.4}, placeholders=extras))
    w.settle()
    assert (set(w.replicas()), set(w.placeholders())) == (names, pods)
    for item in w.api.items("replicasets").values():
        template = item["spec"]["template"]
        assert template["metadata"]["labels"]["team"] == "a"
        assert template["spec"]["imagePullSecrets"] == [{"name": "corp"}]
        resources = template["spec"]["containers"][0]["resources"]
        assert resources["limits"] == resources["requests"]
    before = list(w.api.log)
    w.settle(20, seconds=30.0)
    assert_only_heartbeats(w, before)


@IN_BOTH_FORMS
@pytest.mark.parametrize(
    "own",
    [pytest.param({}, marks=pytest.mark.thorough), {"labels": {"team": "b"}}],
    ids=["of the operator", "of both"],
)
def test_what_the_operator_gives_all_placeholders_is_written_once_and_the_pods_stay(own: dict[str, Any]) -> None:
    w = world(placeholders=own)
    w.settle()
    names, pods = set(w.replicas()), set(w.placeholders())
    extras = {"labels": {"team": "a", "tier": "slack"}, "limits": "Requests", "securityContext": {"runAsUser": 1000}}
    for w.extras in (Placeholders.model_validate(extras), Placeholders()):
        w.restart()
        w.settle()
        assert (set(w.replicas()), set(w.placeholders())) == (names, pods)
        for item in w.api.items("replicasets").values():
            template = item["spec"]["template"]
            (container,) = template["spec"]["containers"]
            wanted = w.extras.labels | own.get("labels", {})
            assert {
                key: text for key, text in template["metadata"]["labels"].items() if key in extras["labels"]
            } == wanted
            assert ("limits" in container["resources"]) == (w.extras.limits == "Requests")
            assert template["spec"]["securityContext"]["runAsUser"] == (w.extras.security_context.run_as_user or 65535)
        before = list(w.api.log)
        w.settle(20, seconds=30.0)
        assert_only_heartbeats(w, before)


POLICY = "/apis/resource-slack.io/v1alpha1/slackpolicies/web"


def delete_policy(w: World) -> None:
    """Without the garbage collector: what goes has been taken away by the operator."""
    del w.api.objects[POLICY]


def test_without_any_policy_no_slack_is_kept() -> None:
    w = World()
    w.settle(20)
    assert w.api.log == []


@IN_BOTH_FORMS
def test_deleting_the_last_policy_ends_slack_and_no_restart_brings_it_back() -> None:
    w = world()
    w.settle()
    delete_policy(w)
    w.settle()
    assert (w.replicas(), w.placeholders()) == ({}, {})
    before = list(w.api.log)
    w.restart()
    w.settle(20)
    assert w.api.log == before


def test_before_policies_are_listed_an_empty_list_means_nothing() -> None:
    w = world()
    w.settle()
    before, there = list(w.api.log), w.replicas()
    w.restart()
    for _ in range(20):
        w.clock.now += 10
        w.observe_cluster()
        w.loop.reconcile()
    assert (w.api.log, w.replicas()) == (before, there)


def test_what_the_built_in_policy_kept_goes_where_it_is_asked_for_no_more() -> None:
    """As after an upgrade from a version that kept it unasked."""
    w = World(built_in=True)
    w.settle()
    assert w.placeholders()
    w.built_in = False
    w.restart()
    w.settle()
    assert (w.replicas(), w.placeholders()) == ({}, {})


def test_where_the_built_in_policy_is_asked_for_it_follows_the_last_one() -> None:
    w = World(built_in=True)
    w.apply_policy(policy("web", extraCapacity={"minRate": 0.4}))
    w.settle()
    delete_policy(w)
    w.settle()
    labels = {r["metadata"]["labels"]["resource-slack.io/policy"] for r in w.api.items("replicasets").values()}
    assert labels == {"default"}


def test_the_built_in_policy_is_kept_where_it_is_asked_for_and_goes_with_its_priority_class() -> None:
    w = World(built_in=True)
    w.settle()
    (replica_set,) = w.api.items("replicasets").values()
    assert replica_set["metadata"]["labels"]["resource-slack.io/policy"] == "default"
    (owner,) = replica_set["metadata"]["ownerReferences"]
    found = w.api.items("priorityclasses")["resource-slack"]
    assert (owner["kind"], owner["uid"]) == ("PriorityClass", found["metadata"]["uid"])


def test_the_built_in_placeholders_go_when_a_policy_comes() -> None:
    w = World(built_in=True)
    w.settle()
    w.apply_policy(policy("web"))
    w.settle()
    labels = {r["metadata"]["labels"]["resource-slack.io/policy"] for r in w.api.items("replicasets").values()}
    assert labels == {"web"}


def test_a_policy_called_default_is_not_mistaken_for_the_built_in_one() -> None:
    w = World(built_in=True)
    w.settle()
    w.apply_policy(policy("default"))
    w.settle()
    (replica_set,) = w.api.items("replicasets").values()
    assert [o["kind"] for o in replica_set["metadata"]["ownerReferences"]] == ["SlackPolicy"]


def test_a_dry_run_writes_status_and_nothing_else() -> None:
    w = world(dryRun=True)
    w.settle()
    assert {verb for verb, path in w.api.log if not path.endswith("/status")} == set()
    assert w.status("web")["planned"]["cpu"] == "4"


@IN_BOTH_FORMS
def test_turning_dry_run_on_leaves_what_is_there() -> None:
    w = world()
    w.settle()
    before = set(w.placeholders())
    w.apply_policy(policy("web", generation=2, dryRun=True, extraCapacity={"minRate": 0.0}))
    w.settle()
    assert set(w.placeholders()) == before


def test_shrinking_marks_victims_first_and_lowers_when_the_watch_shows_it(hold: Hold) -> None:
    """Unbound ones are on no node that should be emptied: none is marked."""
    w = world(stabilization={"shrinkDelay": "20s"})
    w.settle()
    w.apply_policy(policy("web", generation=2, extraCapacity={"minRate": 0.1}, stabilization={"shrinkDelay": "20s"}))
    before = len(w.api.log)
    w.settle(10)
    after = [(verb, "replicasets" if "replicasets" in path else "pods") for verb, path in w.api.log[before:]]
    after = [entry for entry, (_, path) in zip(after, w.api.log[before:], strict=True) if "status" not in path]
    marks = [verb for verb, part in after if part == "pods"]
    assert after[: len(marks)] == [("patch", "pods")] * (3 if hold is Hold.BOUND else 0)
    assert ("apply", "replicasets") in after[len(marks) :]
    assert len(w.placeholders()) == 1
    assert not any(COST in p["metadata"].get("annotations", {}) for p in w.placeholders().values())


@IN_BOTH_FORMS
def test_our_own_shrinking_is_not_counted_as_displaced() -> None:
    w = world(stabilization={"shrinkDelay": "20s"})
    w.settle()
    w.apply_policy(policy("web", generation=2, extraCapacity={"minRate": 0.1}, stabilization={"shrinkDelay": "20s"}))
    w.settle(10)
    assert w.status("web")["displaced"]["total"] == 0


def test_a_placeholder_that_vanishes_is_counted_and_others_stay(hold: Hold) -> None:
    """An unbound one is on no node, so nobody can displace it."""
    w = world()
    w.settle()
    gone, *kept = sorted(w.placeholders())
    del w.api.objects[f"/api/v1/namespaces/{NAMESPACE}/pods/{gone}"]
    w.settle(10)
    assert set(kept) < set(w.placeholders())
    assert len(w.placeholders()) == 4
    assert w.status("web")["displaced"]["total"] == (hold is Hold.BOUND)


def test_the_displaced_total_goes_on_after_a_restart() -> None:
    w = world()
    w.settle()
    del w.api.objects[f"/api/v1/namespaces/{NAMESPACE}/pods/{min(w.placeholders())}"]
    w.settle(10)
    since = w.status("web")["displaced"]["since"]
    w.restart()
    w.settle()
    del w.api.objects[f"/api/v1/namespaces/{NAMESPACE}/pods/{min(w.placeholders())}"]
    w.settle(10)
    assert w.status("web")["displaced"] == {"total": 2, "since": since}


def shrinks(w: World) -> None:
    w.apply_policy(policy("web", 2, extraCapacity={"minRate": 0.1}, stabilization={"shrinkDelay": "20s"}))


def grows(w: World) -> None:
    w.apply_policy(policy("web", 2, extraCapacity={"minRate": 0.8}))


def changes_shape(w: World) -> None:
    for number in range(4):
        name = f"big-abc-{number}"
        w.api.put(f"/api/v1/namespaces/shop/pods/{name}", pod(name, f"n{number % 3}", cpu="2", memory="3Gi"))
    shrinks(w)


def is_first(w: World) -> None:
    """Nothing was there before."""


@pytest.mark.parametrize(
    "happens", [is_first, *(pytest.param(more, marks=pytest.mark.thorough) for more in (shrinks, grows, changes_shape))]
)
def test_a_crash_before_any_write_ends_in_the_same_state(happens: Callable[[World], None]) -> None:
    def ready() -> World:
        made = world()
        if happens is not is_first:
            made.settle()
        happens(made)
        return made

    calm = ready()
    start = len(calm.api.log)
    calm.settle(20)
    writes = len(calm.api.log) - start
    assert writes > 2
    for step in range(writes):
        w = ready()
        w.api.crash_at = len(w.api.log) + step
        for _ in range(40):
            try:
                w.reconcile()
            except Crash:
                w.api.crash_at = None
                w.restart()
        if happens is not changes_shape:  # which old shapes are worth keeping depends on what the planner remembers
            assert w.replicas() == calm.replicas(), step
        assert w.condition("web", "SlackSatisfied")["status"] == "True", step
        assert len(w.placeholders()) == sum(w.replicas().values()), step
        assert not any(COST in p["metadata"].get("annotations", {}) for p in w.placeholders().values()), step
        before = len(w.api.log)
        w.settle(10)
        assert w.api.log[before:] == [], step


def test_a_view_that_is_not_whole_writes_one_condition_and_nothing_else() -> None:
    w = world()
    w.settle()
    before = len(w.api.log)
    w.fresh.text = "/api/v1/pods is not listed yet"
    for name in list(w.api.items("pods")):
        w.view.placeholders.pop(name, None)
    for _ in range(10):
        w.clock.now += 10
        w.loop.reconcile()
    assert [path.rpartition("/")[2] for _, path in w.api.log[before:]] == ["status"]
    assert w.condition("web", "ViewStale")["status"] == "True"
    w.fresh.text = ""
    w.settle(2)
    assert w.condition("web", "ViewStale")["status"] == "False"


def test_a_short_gap_in_the_view_is_not_told() -> None:
    w = world()
    w.settle()
    before = list(w.api.log)
    w.fresh.text = "/api/v1/pods is not listed yet"
    w.loop.reconcile()
    w.clock.now += 5
    w.loop.reconcile()
    assert w.api.log == before


def test_a_standby_writes_nothing() -> None:
    w = world()
    w.leading = False
    w.settle(3)
    assert w.api.log == []


@IN_BOTH_FORMS
def test_writing_stops_in_the_middle_when_the_lease_is_lost() -> None:
    w = world()
    w.reconcile()
    w.observe()
    calls = itertools.count()
    w.actuator._may_write = lambda: next(calls) < 0
    w.apply_policy(policy("web", generation=2, extraCapacity={"minRate": 0.8}))
    before = list(w.api.log)
    with pytest.raises(NotLeading):
        w.reconcile()
    assert w.api.log == before


def test_one_refused_policy_does_not_stop_another() -> None:
    w = World()
    for number in range(3):
        w.api.items("nodes")[f"n{number}"]["metadata"]["labels"]["pool"] = "a" if number else "b"
    w.apply_policy(policy("a", nodeSelector={"pool": "a"}))
    w.apply_policy(policy("b", nodeSelector={"pool": "b"}))
    refused = ApiError(403, "Forbidden", "no")
    w.api.refuse = lambda verb, path: refused if "slack-a-" in path else None
    w.settle()
    assert {r["metadata"]["labels"]["resource-slack.io/policy"] for r in w.api.items("replicasets").values()} == {"b"}
    assert w.condition("a", "Ready")["reason"] == "WriteRefused"


def three_policies() -> World:
    w = World()
    for number, name in enumerate("abc"):
        w.api.items("nodes")[f"n{number}"]["metadata"]["labels"]["pool"] = name
        w.apply_policy(policy(name, nodeSelector={"pool": name}))
    return w


def test_a_slow_api_server_starves_no_policy() -> None:
    w = three_policies()

    def slow(_verb: str, _path: str) -> None:
        w.clock.now += TURN_SECONDS

    w.api.refuse = slow
    for _ in range(3):
        w.reconcile()  # one write each, the first of which is the PriorityClass
        assert w.wake.due_in() < w.wake.interval_seconds  # the next turn goes on, and does not wait for the interval
    w.reconcile()
    assert {r["metadata"]["labels"]["resource-slack.io/policy"] for r in w.api.items("replicasets").values()} == {
        "a",
        "b",
        "c",
    }


def test_the_status_of_no_policy_waits_for_ever_for_a_slow_api_server() -> None:
    w = three_policies()

    def slow(_verb: str, path: str) -> None:
        w.clock.now += TURN_SECONDS if path.endswith("/status") else 0.0

    w.api.refuse = slow
    for _ in range(4):
        w.reconcile()
        w.loop.publish_held()
    assert all(w.condition(name, "Ready") for name in "abc")


def test_a_failing_webhook_is_named_in_the_status_and_slack_returns_when_it_is_back() -> None:
    w = world()
    webhook = ApiError(500, "InternalError", 'failed calling webhook "validate.kyverno.svc-fail": connection refused')
    w.api.refuse = lambda verb, path: webhook if "/replicasets/" in path else None
    w.settle(20, seconds=30.0)
    ready = w.condition("web", "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "WriteRefused")
    assert "validate.kyverno.svc-fail" in ready["message"]
    tries = [path for _, path in w.api.log if "/replicasets/" in path]
    assert len(tries) <= 20  # of sixty turns
    statuses = [path for _, path in w.api.log if path.endswith("/status")]
    assert len(statuses) <= 6  # a message that changes with each turn would be a write a turn
    w.api.refuse = lambda *_: None
    w.settle(8)
    assert (w.condition("web", "Ready")["status"], sum(w.replicas().values())) == ("True", 4)


def test_a_bad_spec_names_the_field_and_leaves_what_is_there() -> None:
    w = world()
    w.settle()
    before = w.replicas()
    w.apply_policy(policy("web", generation=2, extraCapacity={"minRate": "10%"}))
    w.settle()
    ready = w.condition("web", "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "InvalidSpec")
    assert "spec.extraCapacity.minRate" in ready["message"]
    assert w.status("web")["observedGeneration"] == 2
    assert w.replicas() == before


def test_a_policy_that_never_was_good_gets_a_status_and_no_built_in_policy_beside_it() -> None:
    w = World()
    w.apply_policy(policy("web", extraCapacity={"minRate": -1}))
    w.settle()
    assert w.condition("web", "Ready")["reason"] == "InvalidSpec"
    assert w.replicas() == {}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "there is no PriorityClass mine"),
        ({"value": -5, "preemptionPolicy": "PreemptLowerPriority"}, "preemptionPolicy: Never"),
        ({"value": -5, "preemptionPolicy": "Never", "globalDefault": True}, "global default"),
        ({"value": 100, "preemptionPolicy": "Never"}, "value 100"),
        ({"value": -1000, "preemptionPolicy": "Never"}, "value -1000"),
    ],
)
def test_a_priority_class_that_will_not_do_is_named_and_nothing_is_placed(found: Any, words: str) -> None:
    w = world(priorityClassName="mine")
    if found is not None:
        w.api.put("/apis/scheduling.k8s.io/v1/priorityclasses/mine", {"metadata": {"name": "mine"}, **found})
    w.settle()
    assert w.replicas() == {}
    ready = w.condition("web", "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "BadPriorityClass")
    assert words in ready["message"]


@IN_BOTH_FORMS
def test_a_policy_orphaned_by_its_deletion_loses_its_placeholders() -> None:
    w = world()
    w.settle()
    (replica_set,) = w.api.items("replicasets").values()
    replica_set["metadata"]["ownerReferences"] = []  # kubectl delete --cascade=orphan
    del w.api.objects["/apis/resource-slack.io/v1alpha1/slackpolicies/web"]
    w.apply_policy(policy("other"))
    w.settle()
    labels = {r["metadata"]["labels"]["resource-slack.io/policy"] for r in w.api.items("replicasets").values()}
    assert labels == {"other"}


@IN_BOTH_FORMS
def test_a_replica_set_whose_shape_cannot_be_read_is_made_anew() -> None:
    w = world()
    w.settle()
    (replica_set,) = w.api.items("replicasets").values()
    replica_set["metadata"]["annotations"]["resource-slack.io/spec"] = "{"
    replica_set["metadata"]["name"] += "x"
    path = next(path for path in w.api.objects if "/replicasets/" in path)
    w.api.objects[path + "x"] = w.api.objects.pop(path)
    w.settle()
    assert list(w.replicas().values()) == [4]


def test_a_hanging_preemptor_is_freed_once_and_told_about() -> None:
    w = world()
    w.settle()
    late = "/api/v1/namespaces/shop/pods/late-abc-1"
    w.api.put(late, pod("late-abc-1"))
    name, victim = next((name, item) for name, item in w.placeholders().items() if item["spec"]["nodeName"] == "n1")
    displaced = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    victim["status"]["conditions"] = [displaced]
    unschedulable = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    w.api.objects[late]["status"] |= {"nominatedNodeName": "n1", "conditions": unschedulable}
    w.observe()
    del w.api.objects[f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"]
    w.observe()
    w.clock.now += 14.9
    w.loop.rescue()
    assert w.api.objects[late]["status"]["nominatedNodeName"] == "n1"
    w.clock.now += 0.2
    w.loop.rescue()
    assert "nominatedNodeName" not in w.api.objects[late]["status"]
    w.loop.rescue()
    assert [write for write in w.api.writes if write == "patch status"] == ["patch status"]
    w.settle(1)
    assert w.condition("web", "PreemptionStuck")["status"] == "True"
    assert ("late-abc-1", "PreemptionRescued") in {(name, reason) for name, reason, _ in w.recorder.lines}
    w.settle(70)
    assert w.condition("web", "PreemptionStuck")["status"] == "False"


def test_events_tell_when_a_condition_turns_and_not_of_a_refill() -> None:
    w = world()
    w.settle(20)
    assert [line for line in w.recorder.lines if "Ready" in line[2] or "SlackSatisfied" in line[2]] == []
    w.apply_policy(policy("web", generation=2, extraCapacity={"minRate": "10%"}))
    w.settle(10)
    w.apply_policy(policy("web", generation=3, extraCapacity={"minRate": 0.4}))
    w.settle(10)
    told = [(reason, text.partition(":")[0]) for _, reason, text in w.recorder.lines]
    assert told == [("InvalidSpec", "Ready is False"), ("Accepted", "Ready is True")]


@pytest.mark.parametrize(
    "failure",
    [Unreachable("PATCH: timed out", timed_out=True), InvalidAnswer("PATCH: a login page")],
)
def test_a_status_without_an_answer_costs_neither_other_statuses_nor_the_turn(failure: KubeError) -> None:
    w = World()
    for name in ("a", "b", "c"):
        w.apply_policy(policy(name, extraCapacity={"minRate": 0.1}))
    turns: list[int] = []
    w.on_reconciled = lambda _: turns.append(1)

    def fail(_verb: str, path: str) -> ApiError | None:
        if path.endswith("/a/status"):
            raise failure
        return None

    w.api.refuse = fail
    w.settle(6)
    assert len(turns) == 6
    assert (bool(w.status("a")), bool(w.status("b")), bool(w.status("c"))) == (False, True, True)
    w.api.refuse = lambda *_: None
    w.settle(6, seconds=30.0)
    assert w.status("a")


@pytest.mark.parametrize("failure", [Unreachable("POST: reset"), InvalidAnswer("POST: a login page")])
def test_a_priority_class_without_an_answer_costs_no_turn(failure: KubeError) -> None:
    w = world()

    def fail(_verb: str, path: str) -> ApiError | None:
        if "priorityclasses" in path:
            raise failure
        return None

    w.api.refuse = fail
    w.settle(2)
    assert w.status("web")


@pytest.mark.parametrize(
    "rules",
    [
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["9" * 5000]}]}
                        ]
                    }
                }
            }
        },
        {"tolerations": [{"key": "cores", "operator": "Gt", "value": "9" * 5000}]},
    ],
    ids=["affinity", "toleration"],
)
def test_a_number_that_nobody_reads_in_one_pod_stops_no_plan(rules: Json) -> None:
    world = World(nodes=3, pods=9)
    world.apply_policy(policy("web", extraCapacity={"minRate": 0.5}))
    tainted = node("n0", cores="5")
    if "tolerations" in rules:
        tainted["spec"] = {"taints": [{"key": "cores", "value": "5", "effect": "NoSchedule"}]}
    world.api.put("/api/v1/nodes/n0", tainted)
    hostile = pod("hostile")
    hostile["spec"] |= rules
    world.api.put("/api/v1/namespaces/shop/pods/hostile", hostile)
    world.settle(2)
    assert world.placeholders()
