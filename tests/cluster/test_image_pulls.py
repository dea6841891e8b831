"""What kubelets of all releases say of pulls, and how far a pod's start has come."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster import wire
from slack.cluster.image_pulls import ImagePull, go_seconds, image_pull
from slack.cluster.start_sketch import HALF_SECONDS, ReadySketch
from slack.cluster.start_stages import PodStart, has_started, pod_start
from tests.cases import run_for_each

AT = "2026-01-01T00:00:"


def event(message: str, reason: str = "Pulled") -> wire.Event:
    return wire.Event(metadata=wire.Metadata(name="e"), reason=reason, message=message)


@run_for_each(
    ("message", "seconds", "size"),
    [
        ('Successfully pulled image "r/a:1" in 1.2s', 1.2, 0),  # up to 1.25
        ('Successfully pulled image "r/a:1" in 345ms (1m2.5s including waiting)', 62.5, 0),  # 1.26 to 1.29
        ('Successfully pulled image "r/a:1" in 38s (38s including waiting). Image size: 6100 bytes.', 38.0, 6100),
        ('Successfully pulled image "r/a:1" in 1h0m3s (1h0m3s including waiting). Image size: 7 bytes.', 3603.0, 7),
    ],
)
def test_a_pull_is_read_as_each_release_writes_it(message: str, seconds: float, size: int) -> None:
    assert image_pull(event(message)) == ImagePull("r/a:1", seconds, size, present=False)


@run_for_each("end", ["", " and can be accessed by the pod"])
def test_an_image_that_was_there_took_no_time(end: str) -> None:
    found = image_pull(event(f'Container image "r/a:1" already present on machine{end}'))
    assert found == ImagePull("r/a:1", 0.0, 0, present=True)


@run_for_each("message", ["", "Pulling image", 'Successfully pulled image "a" in soon', "x" * 5000])
def test_other_events_say_nothing_of_pulls(message: str) -> None:
    assert image_pull(event(message)) is None
    assert image_pull(event('Successfully pulled image "r/a:1" in 1.2s', reason="Started")) is None


@given(st.text(max_size=200))
def test_whatever_an_event_says_it_is_read_or_passed_over(message: str) -> None:
    found = image_pull(event(message))
    assert found is None or found.seconds >= 0
    seconds = go_seconds(message)
    assert seconds is None or seconds >= 0


def status(containers: list[bool | None], **conditions: str) -> wire.PodStatus:
    said = [{"type": name, "status": "True", "lastTransitionTime": at} for name, at in conditions.items()]
    raw = msgspec.Raw(msgspec.json.encode(said))
    return wire.PodStatus(
        container_statuses=[wire.ContainerStatus(started=one) for one in containers], conditions_json=raw
    )


def test_a_pod_has_started_when_all_of_its_containers_have() -> None:
    assert has_started(status([True, True]))
    assert not has_started(status([True, None]))
    assert not has_started(status([]))
    assert not has_started(None)


def test_a_start_is_said_with_its_stages() -> None:
    made = msgspec.convert({"name": "api-1", "creationTimestamp": AT + "00Z"}, type=wire.Metadata)
    ready = wire.Pod(metadata=made, status=status([True], PodScheduled=AT + "00Z", Ready=AT + "41Z"))
    pulls = [ImagePull("a", 30.0, 5_000_000_000, present=False), ImagePull("b", 8.0, 1_100_000_000, present=False)]
    assert str(pod_start(ready, pulls)) == "bound within 1 s, Ready after 41 s, of which 38 s pulled 6.1 GB"
    assert str(pod_start(ready, [])) == "bound within 1 s, Ready after 41 s"
    soon = wire.Pod(metadata=made, status=status([True], PodScheduled=AT + "00Z", Ready=AT + "00Z"))
    assert str(pod_start(soon, [])) == "bound within 1 s, Ready within 1 s"
    on_its_way = wire.Pod(metadata=made, status=status([None], PodScheduled=AT + "03Z"))
    assert str(pod_start(on_its_way, pulls)) == "bound after 3 s, not Ready yet; 38 s pulled 6.1 GB"
    assert pod_start(wire.Pod(metadata=made), []) == PodStart("api-1", None, None, 0, 0)


def add(sketch: ReadySketch, at: float, ready: float, pulled: int = 0) -> None:
    sketch.add_start(
        at,
        bound_seconds=0.1,
        image_seconds=ready if pulled else None,
        started_seconds=ready,
        ready_seconds=ready,
        pull_seconds=ready / 2 if pulled else 0.0,
        pulled_bytes=pulled,
    )


def test_a_sketch_says_how_many_pulled_what() -> None:
    sketch = ReadySketch()
    assert sketch.figures() is None
    for second in range(9):
        add(sketch, float(second), 1.0)
    add(sketch, 9.0, 40.0, 6_100_000_000)
    found = sketch.figures()
    assert found is not None
    assert (found.pods, found.pulling_pods, found.pull_seconds, found.image_seconds) == (10, 1, 20.0, 40.0)
    assert str(found).endswith("; 1 of 10 pods pulled images: 6.1 GB in all, 20 s each")


def test_a_sketch_forgets_what_is_more_than_an_hour_old() -> None:
    sketch = ReadySketch()
    add(sketch, 0.0, 500.0)
    add(sketch, HALF_SECONDS, 1.0)
    add(sketch, 2 * HALF_SECONDS, 1.0)
    found = sketch.figures()
    assert found is not None
    assert (found.pods, round(found.ready_p99_seconds)) == (2, 1)


@given(st.lists(st.floats(0.02, 7200), min_size=1, max_size=60))
def test_percentiles_are_right_within_seven_percent(values: list[float]) -> None:
    sketch = ReadySketch()
    for value in values:
        add(sketch, 1.0, value)
    found, rows = sketch.figures(), sorted(values)
    assert found is not None
    assert found.ready_p50_seconds == pytest.approx(rows[(len(rows) - 1) // 2], rel=0.07)
    assert found.ready_p99_seconds == pytest.approx(rows[-1], rel=0.07)
