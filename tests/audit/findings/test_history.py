"""What an agent remembers: windows as long as their names, in a bounded number of bytes, through all that happens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from slack.audit.findings.history import FORGET_SECONDS, MARKS, WINDOWS, History
from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, CgroupTarget, Sample, Sampled
from slack.audit.findings.window import Window, WindowState
from tests.examples import examples

API = CgroupTarget(CgroupLevel.CONTAINER, "/kubepods/pod1/api", pod_uid="1", container_id="api")
CART = CgroupTarget(CgroupLevel.CONTAINER, "/kubepods/pod2/cart", pod_uid="2", container_id="cart")
NODE = CgroupTarget(CgroupLevel.NODE, "/")


def at(seconds: float, target: CgroupTarget = API, **others: int | None) -> Sample:
    """A container at a limit of 0.2 cores: ten periods a second, every second one throttled for 60 ms."""
    sample = Sample(
        target=target,
        at_seconds=seconds,
        quota_us=20_000,
        period_us=100_000,
        periods=int(seconds * 10),
        throttled=int(seconds * 5),
        throttled_ns=int(seconds * 300_000_000),
        usage_ns=int(seconds * 200_000_000),
    )
    return changed(sample, **others)


def sampled(*samples: Sample) -> Sampled:
    return Sampled(samples, {"": CgroupNodeFacts(4)})


def only(history: History, window: str) -> Window:
    (found,) = history.windows(window).windows
    return found


def through(history: History, *seconds: float) -> History:
    for moment in seconds:
        history.add_result(sampled(at(moment)))
    return history


def test_each_window_goes_back_as_far_as_its_name_says_once_there_is_so_much() -> None:
    history = through(History(), *range(0, 7200, 10))
    for name, length in WINDOWS.items():
        window = only(history, name)
        assert length * (1 - 1 / MARKS) - 10 <= window.seconds <= length + 0.5
        assert window.periods == pytest.approx(window.seconds * 10)
        assert window.throttled_ns / window.periods == pytest.approx(30_000_000)
        assert window.state is WindowState.MEASURED


def test_a_young_history_gives_what_there_is_and_says_how_long_that_was() -> None:
    history = through(History(), 0, 10, 20)
    assert {only(history, name).seconds for name in WINDOWS} == {20.0}


def test_one_sample_makes_no_window() -> None:
    assert History().windows("5m").windows == ()
    assert only(through(History(), 10), "5m").state is WindowState.APPEARED


def test_bytes_of_a_cgroup_are_bounded_however_often_it_is_sampled_and_however_long() -> None:
    every_ten, every_one = History(), History()
    through(every_ten, *range(0, 20_000, 10))
    through(every_one, *range(0, 8000))
    assert every_ten.size_bytes() <= every_one.size_bytes() <= len(WINDOWS) * (MARKS + 6) * 80


def test_a_reset_is_told_once_and_later_windows_begin_after_it() -> None:
    history = through(History(), *range(0, 300, 10))
    history.add_result(sampled(at(300, periods=5, throttled=1, throttled_ns=1, usage_ns=1)))
    assert {only(history, name).state for name in WINDOWS} == {WindowState.RESET}
    for moment in range(10, 130, 10):
        history.add_result(sampled(changed(at(moment), at_seconds=300.0 + moment)))
    window = only(history, "5m")
    assert window.state is WindowState.MEASURED
    assert window.seconds == 120.0
    # higher than before the reset by now: the old samples must not be what it is compared with
    assert window.periods == 1200 - 5


def test_a_cgroup_that_goes_is_told_as_gone_for_a_minute_and_then_forgotten() -> None:
    history = History()
    for moment in range(0, 100, 10):
        history.add_result(sampled(at(moment), at(moment, CART)))
    history.add_result(sampled(at(100)))
    assert [window.state for window in history.windows("5m").windows] == [WindowState.MEASURED, WindowState.GONE]
    for moment in range(110, 110 + int(FORGET_SECONDS), 10):
        history.add_result(sampled(at(moment)))
    assert [window.target for window in history.windows("5m").windows] == [API]
    assert len(history) == 1


def test_a_file_that_could_not_be_read_once_costs_one_sample_and_not_the_history() -> None:
    history = through(History(), *range(0, 100, 10))
    history.add_result(sampled())
    assert only(history, "5m").state is WindowState.GONE
    through(history, 110)
    assert only(history, "5m").seconds == 110.0


def test_a_clock_that_stands_or_goes_back_adds_nothing() -> None:
    history = through(History(), 0, 10, 20)
    size = history.size_bytes()
    through(history, 20, 5)
    assert history.size_bytes() == size
    through(history, 30)
    assert only(history, "1m").seconds == 30.0


def test_a_changed_limit_is_seen_as_long_as_the_window_mixes_both() -> None:
    history = through(History(), *range(0, 60, 10))
    for moment in range(60, 200, 10):
        history.add_result(sampled(at(moment, quota_us=50_000)))
    assert only(history, "5m").quota_changed
    assert not only(history, "1m").quota_changed
    assert only(history, "5m").quota_us == 50_000


def test_what_was_not_known_stays_unknown() -> None:
    history = History()
    for moment in (0, 20):
        history.add_result(
            sampled(at(moment, usage_ns=None, quota_us=None, inherited_ns=None, burst_us=None, bursts=None))
        )
    window = only(history, "1m")
    assert (window.usage_ns, window.quota_us, window.inherited_ns, window.bursts) == (None, None, None, None)
    assert window.state is WindowState.NO_LIMIT


def test_pressure_is_remembered_beside_the_rest() -> None:
    history = History()
    for moment in range(0, 60, 10):
        history.add_result(sampled(at(moment, waiting_ns=moment * 10**9, stalled_ns=moment * 10**8)))
    window = only(history, "1m")
    assert (window.waiting_ns, window.stalled_ns) == (50 * 10**9, 5 * 10**9)


def test_the_use_of_the_node_is_that_of_the_root() -> None:
    history = History()
    for moment in range(0, 60, 10):
        history.add_result(sampled(at(moment, NODE, usage_ns=moment * 1_500_000_000)))
    assert history.use_cores(NODE, "5m") == pytest.approx(1.5)
    assert history.use_cores(API, "5m") is None


_COUNTERS = st.integers(0, 2**80)


@examples(200)
@given(
    st.lists(
        st.tuples(
            st.floats(-1e6, 1e9),
            st.booleans(),
            _COUNTERS,
            _COUNTERS,
            _COUNTERS,
            st.none() | _COUNTERS,
            st.none() | st.integers(1, 2**63),
        ),
        max_size=30,
    )
)
def test_no_counters_whatever_end_it(steps: list[tuple[float, bool, int, int, int, int | None, int | None]]) -> None:
    history = History()
    for seconds, present, periods, throttled, throttled_ns, usage_ns, quota_us in steps:
        sample = Sample(API, seconds, quota_us, 100_000, periods, throttled, throttled_ns, usage_ns)
        history.add_result(sampled(sample) if present else sampled())
        for name in WINDOWS:
            for window in history.windows(name).windows:
                assert window.periods >= 0
                assert window.throttled >= 0
                assert window.throttled_ns >= 0
