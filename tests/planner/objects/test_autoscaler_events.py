"""What Events say of placeholders, and which of them still count."""

from datetime import UTC, datetime

from slack.cluster import wire
from slack.cluster.labels import CREATION_BLOCK, SUSPENDED_PRIORITY_CLASS
from slack.planner.model.result import Answer
from slack.planner.objects.autoscaler_events import AutoscalerEvents, autoscaler_event
from tests.cases import run_for_each

NOW = 1_800_000_000.0


def event(reason: str, message: str = "", *, source: str = "", kind: str = "Pod", name: str = "rs-x1") -> wire.Event:
    return wire.Event(
        metadata=wire.Metadata(name="e"),
        reason=reason,
        message=message,
        involved_object=wire.ObjectReference(kind=kind, name=name),
        source=wire.EventSource(component=source),
        last_timestamp=datetime.fromtimestamp(NOW, UTC),
    )


@run_for_each(
    ("heard", "answer"),
    [
        (event("TriggeredScaleUp", source="cluster-autoscaler"), Answer.TRIGGERED),
        (event("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 Insufficient cpu"), Answer.REFUSED),
        (event("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached"), Answer.LIMIT),
        (event("NotTriggerScaleUp", "max total nodes in cluster reached"), Answer.LIMIT),
        (event("MaxNodesTotalReached"), Answer.LIMIT),
        (event("Nominated", "Pod should schedule on: nodeclaim/a", source="karpenter"), Answer.TRIGGERED),
        (event("FailedScheduling", "no instance type", source="karpenter"), Answer.REFUSED),
        (event("FailedScheduling", "would exceed limits for nodepool", source="karpenter"), Answer.LIMIT),
        (event("FailedScheduling", "0/3 nodes are available", source="default-scheduler"), None),
        (event("Nominated", source="somebody"), None),
        (event("FailedCreate", "pods is forbidden: exceeded quota: q", kind="ReplicaSet", name="rs"), Answer.QUOTA),
        (event("FailedCreate", "admission webhook said no", kind="ReplicaSet", name="rs"), None),
        (event("Scheduled"), None),
        (event("TriggeredScaleUp", name=""), None),
    ],
)
def test_events_about_placeholders_are_read(heard: wire.Event, answer: Answer | None) -> None:
    found = autoscaler_event(heard, NOW)
    assert (found.answer if found else None) == answer
    assert found is None or found.replica_set == "rs"


def test_the_latest_word_counts_whatever_the_order_and_old_ones_are_forgotten() -> None:
    events = AutoscalerEvents()
    assert events.observe(event("TriggeredScaleUp"), NOW)
    older = event("NotTriggerScaleUp")
    older.last_timestamp = datetime.fromtimestamp(NOW - 60, UTC)
    earlier = event("TriggeredScaleUp")
    earlier.last_timestamp = datetime.fromtimestamp(NOW - 60, UTC)
    assert not events.observe(earlier, NOW)
    assert not events.observe(event("TriggeredScaleUp"), NOW)
    assert [w.answer for w in events.about(["rs"], NOW)] == [Answer.TRIGGERED]
    assert events.observe(older, NOW)
    assert [w.answer for w in events.about(["rs"], NOW)] == [Answer.REFUSED, Answer.TRIGGERED]
    assert events.about(["rs"], NOW + 3600) == ()
    events.observe(event("TriggeredScaleUp"), NOW)
    assert events.about(["another"], NOW) == ()


@run_for_each("own", [SUSPENDED_PRIORITY_CLASS, CREATION_BLOCK])
def test_what_the_operator_stopped_itself_is_no_refusal_and_hides_none(own: str) -> None:
    events = AutoscalerEvents()
    real = event("FailedCreate", "admission webhook said no", kind="ReplicaSet", name="rs")
    stopped = event("FailedCreate", f"pods is forbidden: exceeded quota: {own}", kind="ReplicaSet", name="rs")
    assert not events.observe(stopped, NOW)
    assert events.refusals(["rs"], NOW) == {}
    events.observe(real, NOW)
    events.observe(stopped, NOW)
    assert events.refusals(["rs"], NOW) == {"rs": "admission webhook said no"}
