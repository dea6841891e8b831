"""What counts as a whole and fresh view."""

from typing import Any

import pytest

from slack.kube.sink import ReflectorCounters
from slack_operator.runtime.watches import Watches


class Watch:
    """What of a reflector is asked here."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.synced = True
        self.forbidden = False
        self.absent = False
        self.age = 0.0
        self.last_error: str | None = None
        self.counters = ReflectorCounters(watchlists=1, watches=2)
        self.calls: list[object] = []

    def last_heard_age(self, now: float) -> float:
        return now + self.age

    def start(self) -> None:
        self.calls.append("start")

    def stop(self, timeout: float) -> None:
        self.calls.append(timeout)


def watches(required: Any, helpful: Any = ()) -> Watches:
    return Watches(required, helpful, clock=lambda: 0.0)


def test_one_required_watch_that_is_not_whole_or_silent_makes_the_view_stale_and_a_helpful_one_does_not() -> None:
    pods, nodes, events = Watch("/api/v1/pods"), Watch("/api/v1/nodes"), Watch("/api/v1/events")
    all_of_them = watches([pods, nodes], [events])
    events.synced = False
    assert not all_of_them.stale()
    nodes.synced, nodes.last_error = False, "refused"
    assert all_of_them.stale() == "/api/v1/nodes is not listed yet: refused"
    nodes.synced, nodes.last_error = True, None
    pods.age = 200.0
    assert not all_of_them.stale()
    pods.age = 201.0
    assert all_of_them.stale() == "/api/v1/pods has been silent for more than 200 s"


def test_what_is_needed_unless_forbidden_is_waited_for_and_done_without_where_the_right_is_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An operator of a newer version with an older ClusterRole would otherwise never begin."""
    pods, namespaces = Watch("/api/v1/pods"), Watch("/api/v1/namespaces")
    both = Watches([pods], unless_forbidden=[namespaces], clock=lambda: 0.0)  # type: ignore[list-item]
    namespaces.synced, namespaces.last_error = False, "connection reset"
    assert both.stale() == "/api/v1/namespaces is not listed yet: connection reset"
    namespaces.forbidden, namespaces.last_error = True, "403 Forbidden"
    assert [both.stale() for _ in range(3)] == [None, None, None]
    assert caplog.messages == ["/api/v1/namespaces may not be watched, and is done without: 403 Forbidden"]
    assert not both.forbidden()
    namespaces.forbidden, namespaces.synced, namespaces.last_error = False, True, None
    assert both.stale() is None
    both.start()
    assert namespaces.calls == ["start"]


def test_a_kind_that_the_server_does_not_know_holds_nobody_up_and_is_waited_for_once_it_is_there() -> None:
    """Helm leaves CRDs as they are in an upgrade: a newer operator meets a server without the newer kind."""
    pods, pools = Watch("/api/v1/pods"), Watch("/pools")
    both = Watches([pods], unless_forbidden=[pools], clock=lambda: 0.0)  # type: ignore[list-item]
    pools.synced, pools.absent = False, True
    assert both.stale() is None
    assert not both.forbidden()
    pools.absent = False
    assert both.stale() == "/pools is not listed yet"


def test_restarts_are_streams_beyond_the_first_by_path() -> None:
    ours, everywhere, unused = Watch("/sets"), Watch("/sets"), Watch("/events")
    unused.counters = ReflectorCounters()
    assert watches([ours, everywhere], [unused]).restarts() == {"/sets": 4, "/events": 0}


def test_all_streams_end_before_any_thread_is_waited_for() -> None:
    watch = Watch("/api/v1/pods")
    both = watches([watch], [watch])
    both.start()
    both.stop()
    assert watch.calls == ["start", "start", 0.0, 0.0, 2.0, 2.0]
