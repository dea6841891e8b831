"""A policy's life, judged by the rules that Flux, Helm 4, Config Sync and kpt wait by.

The rules are those of kstatus (sigs.k8s.io/cli-utils/pkg/kstatus), written down here from its README and its generic
checks; those of `kubectl wait` are of its condition wait. Both look at nothing but the object.
"""

import copy
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest

from slack.cluster import wire
from slack.cluster.hold import Hold
from slack.kube.errors import ApiError
from slack.kube.watch import EventType
from slack.planner.policy.crd import STATUS_SCHEMA, crd
from slack_operator.placeholders.view.sinks import EventSink
from tests.operator.fakes import NAMESPACE, Json, World, daemon, policy

IN_BOTH_FORMS = pytest.mark.usefixtures("hold")
NEVER = {"metadata": {"name": "mine"}, "value": -5, "preemptionPolicy": "Never"}


class Kstatus(StrEnum):
    """What kstatus makes of an object."""

    CURRENT = "Current"
    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    TERMINATING = "Terminating"


def kstatus(item: Json) -> Kstatus:
    """The published rules, in their order: deletion, generation, Reconciling and Stalled, Ready; else all is well."""
    metadata, status = item["metadata"], item.get("status", {})
    if metadata.get("deletionTimestamp"):
        return Kstatus.TERMINATING
    observed = status.get("observedGeneration")
    if observed is not None and "generation" in metadata and observed != metadata["generation"]:
        return Kstatus.IN_PROGRESS
    for condition in status.get("conditions", []):
        if condition["type"] == "Reconciling" and condition["status"] == "True":
            return Kstatus.IN_PROGRESS
        if condition["type"] == "Stalled" and condition["status"] == "True":
            return Kstatus.FAILED
    for condition in status.get("conditions", []):
        if condition["type"] == "Ready":
            return Kstatus.CURRENT if condition["status"] == "True" else Kstatus.IN_PROGRESS
    return Kstatus.CURRENT


def kubectl_wait(item: Json, kind: str = "Ready") -> bool:
    """Whether `kubectl wait --for=condition=KIND` returns: what is of an older generation does not count."""
    status = item.get("status", {})
    for condition in status.get("conditions", []):
        if condition["type"] == kind:
            observed = condition.get("observedGeneration", status.get("observedGeneration"))
            current = observed is None or observed >= item["metadata"]["generation"]
            return bool(current and condition["status"] == "True")
    return False


class Cluster(World):
    """A world whose nodes can be full, and whose API server gives a new policy the CRD's default status."""

    full = False

    def apply_policy(self, document: Json) -> None:
        super().apply_policy({"status": copy.deepcopy(STATUS_SCHEMA["default"]), **document})

    def _new_placeholder(self, name: str, item: Json) -> None:
        before = set(self.placeholders())
        super()._new_placeholder(name, item)
        if self.full:
            (new,) = set(self.placeholders()) - before
            pod = self.placeholders()[new]
            pod["spec"]["nodeName"] = None
            pod["metadata"]["creationTimestamp"] = datetime.fromtimestamp(self.wall.now, UTC).isoformat()
            refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            pod["status"] = {"phase": "Pending", "conditions": [refused]}

    def item(self, name: str = "web") -> Json:
        """The policy as the API server serves it."""
        return self.api.items("slackpolicies")[name]

    def judged(self, name: str = "web") -> Kstatus:
        """What kstatus makes of it; `kubectl wait` must agree."""
        found = kstatus(self.item(name))
        assert kubectl_wait(self.item(name)) is (found is Kstatus.CURRENT)
        return found

    def controllers(self) -> None:
        super().controllers()
        if not self.full:  # nodes have come for what was taken
            for path in [path for path in self.api.objects if "/pods/taker-" in path]:
                del self.api.objects[path]

    def lose(self, count: int) -> None:
        """Real pods take the room of some placeholders."""
        if self.hold is Hold.UNBOUND:
            self._take_room(max(len(self.placeholders()) - count, 0))
            return
        for name in sorted(self.placeholders())[:count]:
            del self.api.objects[f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"]

    def _take_room(self, left: int) -> None:
        """Pods that no slack is kept for leave room for so many placeholders of one core."""
        nodes = {name: int(item["status"]["allocatable"]["cpu"]) for name, item in self.api.items("nodes").items()}
        for item in self.api.items("pods").values():
            if at := item["spec"].get("nodeName"):
                nodes[at] -= 1
        for name, free in nodes.items():
            kept = min(left, free)
            left -= kept
            if free > kept:
                self.api.put(
                    f"/api/v1/namespaces/kube-system/pods/taker-{name}", daemon(f"taker-{name}", name, free - kept)
                )

    def say(self, reason: str, message: str) -> None:
        """The autoscaler says something of every placeholder."""
        sink = EventSink(self.view)
        for name in self.placeholders():
            about = wire.ObjectReference(kind="Pod", name=name)
            now = datetime.fromtimestamp(self.wall.now, UTC)
            event = wire.Event(wire.Metadata(name="e"), reason, message, involved_object=about, last_timestamp=now)
            sink.apply([(EventType.ADDED, event)])


def cluster(**spec: Any) -> Cluster:
    made = Cluster()
    made.apply_policy(policy("web", **({"extraCapacity": {"minRate": 0.4}} | spec)))
    return made


def reason(w: Cluster, kind: str = "SlackSatisfied") -> tuple[str, str]:
    found = w.condition("web", kind)
    return found["status"], found["reason"]


@IN_BOTH_FORMS
def test_a_policy_is_in_progress_until_the_operator_has_looked_and_done_before_its_placeholders_are_there() -> None:
    w = cluster()
    assert w.judged() is Kstatus.IN_PROGRESS, "nobody has looked at it: absence of conditions is no good news"
    w.reconcile()
    assert (w.judged(), reason(w)) == (Kstatus.CURRENT, ("False", "Refilling"))
    w.settle()
    assert (w.judged(), reason(w)) == (Kstatus.CURRENT, ("True", "Reserved"))
    assert kubectl_wait(w.item(), "SlackSatisfied")


@IN_BOTH_FORMS
def test_nothing_that_a_cluster_does_to_slack_makes_anybody_wait() -> None:
    """Created, refilling, pending, at the autoscaler's limit, without nodes, at a ceiling: Ready never turns."""
    w = cluster(stabilization={"giveUpAfter": "5m", "shrinkDelay": "20s"})
    w.settle()
    since = w.condition("web", "Ready")["lastTransitionTime"]
    met = set()
    for number in range(120):
        if number == 3:
            w.full = True
            w.lose(2)
        if 30 <= number < 80:
            w.say("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached")
        if number == 80:
            w.full = False
            w.lose(9)
        if number == 90:
            for node in w.api.items("nodes").values():
                node["spec"] = {"unschedulable": True}
        if number == 95:
            for node in w.api.items("nodes").values():
                node["spec"] = {}
        if number == 100:
            spec = {"minRate": 0.4, "ceiling": {"cpu": "2"}}
            w.apply_policy(policy("web", 2, extraCapacity=spec, stabilization={"shrinkDelay": "20s"}))
            assert w.judged() is Kstatus.IN_PROGRESS
        w.reconcile()
        assert w.judged() is Kstatus.CURRENT, number
        met.add(reason(w))
    wanted = {"Refilling", "NoWord", "AutoscalerLimit", "NoEligibleNode", "CeilingReached"}
    assert {name for status, name in met if status == "False"} >= wanted
    assert ("True", "Reserved") in met
    assert w.condition("web", "Ready")["lastTransitionTime"] == since
    assert "Stalled" not in {condition["type"] for condition in w.status("web")["conditions"]}


def test_a_dry_run_is_accepted() -> None:
    w = cluster(dryRun=True)
    w.settle()
    assert (w.judged(), reason(w)) == (Kstatus.CURRENT, ("False", "DryRun"))


def refuse_writes(w: Cluster) -> None:
    refused = ApiError(403, "Forbidden", "no")
    w.api.refuse = lambda _verb, path: refused if "/replicasets/" in path else None
    w.apply_policy(policy("web", 2, extraCapacity={"minRate": 0.8}))


def allow_writes(w: Cluster) -> None:
    w.api.refuse = lambda _verb, _path: None


def take_class(w: Cluster) -> None:
    w.apply_policy(policy("web", 2, priorityClassName="mine"))


def give_class(w: Cluster) -> None:
    w.api.put("/apis/scheduling.k8s.io/v1/priorityclasses/mine", NEVER)


def fight(w: Cluster) -> None:
    """Somebody else scales our ReplicaSet, back again each time."""
    for _ in range(6):
        (found,) = w.api.items("replicasets").values()
        found["spec"]["replicas"] = 9
        found["metadata"]["generation"] += 1
        found["metadata"]["managedFields"] = [
            {"manager": "hpa", "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
        ]
        w.reconcile()


def leave_it(w: Cluster) -> None:
    w.settle(2, seconds=600.0)


def add_a_twin(w: Cluster) -> None:
    w.apply_policy(policy("aaa", extraCapacity={"minRate": 0.1}))


def delete_the_twin(w: Cluster) -> None:
    del w.api.objects["/apis/resource-slack.io/v1alpha1/slackpolicies/aaa"]


@pytest.mark.parametrize(
    ("breaks", "mends", "name"),
    [
        (take_class, give_class, "BadPriorityClass"),
        (refuse_writes, allow_writes, "WriteRefused"),
        (add_a_twin, delete_the_twin, "DomainConflict"),
        (fight, leave_it, "WrittenBack"),
    ],
)
def test_what_somebody_must_mend_is_waited_for_a_moment_and_then_fails(breaks: Any, mends: Any, name: str) -> None:
    w = cluster()
    w.settle()
    breaks(w)
    w.reconcile()
    assert (w.judged(), reason(w, "Ready")) == (Kstatus.IN_PROGRESS, ("False", name)), "it may come a moment later"
    w.settle(4)
    assert w.judged() is Kstatus.FAILED
    stalled = w.condition("web", "Stalled")
    assert (stalled["reason"], stalled["message"]) == (name, w.condition("web", "Ready")["message"])
    since = stalled["lastTransitionTime"]
    if breaks is not fight:  # whom something is left to is forgotten with the process
        w.restart()
    w.settle(2)
    assert (w.judged(), w.condition("web", "Stalled")["lastTransitionTime"]) == (Kstatus.FAILED, since)
    mends(w)
    w.settle(12)
    assert w.judged() is Kstatus.CURRENT
    assert w.condition("web", "Stalled") == {}


def test_a_spec_that_cannot_be_used_fails_at_once_and_its_figures_are_of_the_one_before() -> None:
    w = cluster()
    w.settle()
    w.apply_policy(policy("web", 2, extraCapacity={"minRate": "10%"}))
    w.reconcile()
    assert w.judged() is Kstatus.FAILED
    generations = {c["type"]: c["observedGeneration"] for c in w.status("web")["conditions"]}
    assert (generations["Ready"], generations["Stalled"], generations["SlackSatisfied"]) == (2, 2, 1)
    w.apply_policy(policy("web", 3, extraCapacity={"minRate": 0.4}))
    assert w.judged() is Kstatus.IN_PROGRESS
    w.reconcile()
    assert w.judged() is Kstatus.CURRENT
    assert {c["observedGeneration"] for c in w.status("web")["conditions"]} == {3}


def stay(w: Cluster, turns: int = 8) -> None:
    """Time passes and the view stays as it is."""
    for _ in range(turns):
        w.clock.now += 10
        w.wall.now += 10
        w.loop.reconcile()


def test_a_view_that_is_not_whole_says_nothing_of_a_spec_that_nobody_has_acted_upon() -> None:
    w = cluster()
    w.settle()
    w.fresh.text = "/api/v1/pods has been silent for more than 200 s"
    stay(w)
    assert (w.judged(), reason(w, "ViewStale")) == (Kstatus.CURRENT, ("True", "NotWhole"))
    w.apply_policy(policy("web", 2, extraCapacity={"minRate": 0.8}))
    w.apply_policy(policy("new"))
    w.observe()
    stay(w)
    assert (w.judged(), w.judged("new")) == (Kstatus.IN_PROGRESS, Kstatus.IN_PROGRESS)
    assert w.status("new")["observedGeneration"] == -1
    w.fresh.text = ""
    w.apply_policy(policy("new", 2, nodeSelector={"pool": "new"}))
    w.settle(2)
    assert (w.judged(), w.judged("new")) == (Kstatus.CURRENT, Kstatus.CURRENT)


def test_a_right_that_is_lost_fails_and_a_mere_outage_does_not() -> None:
    w = cluster()
    w.settle()
    w.fresh.text, w.fresh.no_right = "/api/v1/pods is not listed yet: 403 Forbidden: pods is forbidden", True
    stay(w)
    assert (w.judged(), reason(w, "Stalled")) == (Kstatus.FAILED, ("True", "NotPermitted"))
    assert "pods is forbidden" in w.condition("web", "Ready")["message"]
    w.fresh.text, w.fresh.no_right = "", False
    w.reconcile()
    assert w.judged() is Kstatus.CURRENT


def test_one_that_is_being_deleted_is_terminating() -> None:
    w = cluster()
    w.settle()
    w.item()["metadata"]["deletionTimestamp"] = "2027-01-15T08:10:00Z"
    before = list(w.api.log)
    w.settle(2)
    assert kstatus(w.item()) is Kstatus.TERMINATING
    assert [path for _, path in w.api.log[len(before) :] if path.endswith("/status")] == []


def test_the_crd_itself_gives_a_new_policy_a_status_that_nobody_takes_for_done() -> None:
    schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["status"]["default"] == {"observedGeneration": -1}
