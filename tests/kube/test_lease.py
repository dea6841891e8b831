from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.kube.connection import Connection
from slack.kube.errors import ApiError, Unreachable
from slack.kube.lease import Elector, HolderSeen, LeaseTimes, Listeners, deployment_of
from tests.cases import run_for_each
from tests.examples import examples
from tests.kube.fake_api import FakeApi, eventually

LONGEST_DEPLOYMENT = 52
"""The chart cuts names there."""
KEY = ("coordination.k8s.io/v1", "leases", "n", "resource-slack")


class Clock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def elector(connection: Connection, identity: str, clock: Callable[[], float], **options: Any) -> Elector:
    return Elector(connection, namespace="n", name="resource-slack", identity=identity, clock=clock, **options)


def spec(api: FakeApi) -> dict[str, Any]:
    return cast("dict[str, Any]", api.objects[KEY]["spec"])


def test_the_first_candidate_creates_the_lease_and_leads(api: FakeApi, connection: Connection) -> None:
    a = elector(connection, "a", Clock())
    assert not a.is_leader
    a.acquire_or_renew()
    assert a.is_leader
    assert (spec(api)["holderIdentity"], spec(api)["leaseDurationSeconds"], spec(api)["leaseTransitions"]) == (
        "a",
        15,
        0,
    )
    assert spec(api)["renewTime"].endswith("Z")


def test_a_second_candidate_waits_while_the_first_renews(api: FakeApi, connection: Connection) -> None:
    clock = Clock()
    a, b = elector(connection, "a", clock), elector(connection, "b", clock)
    for _ in range(20):
        a.acquire_or_renew()
        b.acquire_or_renew()
        assert (a.is_leader, b.is_leader) == (True, False)
        clock.now += 2
    assert b.holder == "a"


def test_a_lease_that_is_not_renewed_is_taken_after_its_duration(api: FakeApi, connection: Connection) -> None:
    clock = Clock()
    a, b = elector(connection, "a", clock), elector(connection, "b", clock)
    a.acquire_or_renew()
    b.acquire_or_renew()
    clock.now += 14.9
    b.acquire_or_renew()
    assert not b.is_leader
    clock.now += 0.2
    b.acquire_or_renew()
    assert b.is_leader
    assert not a.is_leader
    assert (spec(api)["holderIdentity"], spec(api)["leaseTransitions"], b.transitions) == ("b", 1, 1)


def test_a_standby_knows_for_how_long_nobody_has_led(api: FakeApi, connection: Connection) -> None:
    clock = Clock()
    a, b = elector(connection, "a", clock), elector(connection, "b", clock)
    assert b.vacant_seconds is None, "it has not looked yet"
    a.acquire_or_renew()
    b.acquire_or_renew()
    clock.now += 14.9
    assert b.vacant_seconds is None, "it may still be renewed in time"
    clock.now += 600.0
    assert b.vacant_seconds == pytest.approx(614.9)
    b.acquire_or_renew()
    assert b.vacant_seconds is None


def test_the_holders_own_duration_counts(api: FakeApi, connection: Connection) -> None:
    clock = Clock()
    a = elector(connection, "a", clock, times=LeaseTimes(60, 40, 5))
    b = elector(connection, "b", clock)
    a.acquire_or_renew()
    b.acquire_or_renew()
    clock.now += 30
    b.acquire_or_renew()
    assert not b.is_leader


def test_without_the_api_the_leader_steps_down_before_anybody_can_take_the_lease(
    api: FakeApi, connection: Connection
) -> None:
    clock = Clock()
    lost: list[bool] = []
    a: Elector = elector(connection, "a", clock, listeners=Listeners(lost=lambda: lost.append(a.is_leader)))
    b = elector(connection, "b", clock)
    a.acquire_or_renew()
    b.acquire_or_renew()
    began = clock.now
    api.stop()
    while a.is_leader:
        a.acquire_or_renew()
        clock.now += 0.5
    assert clock.now - began <= 10.0
    a.acquire_or_renew()
    assert lost == [False], "told once, and is_leader was false already"
    assert a.last_error
    api.start()
    clock.now = began + 10.1
    b.acquire_or_renew()
    assert not b.is_leader


def test_is_leader_turns_false_while_the_thread_is_stuck(api: FakeApi, connection: Connection) -> None:
    clock = Clock()
    a = elector(connection, "a", clock)
    a.acquire_or_renew()
    clock.now += 10.0
    assert not a.is_leader


def test_who_finds_another_holder_stops_at_once(api: FakeApi, connection: Connection) -> None:
    clock, lost = Clock(), []
    a = elector(connection, "a", clock, listeners=Listeners(lost=lambda: lost.append(1)))
    a.acquire_or_renew()
    api.put("/apis/coordination.k8s.io/v1/namespaces/n/leases/resource-slack", spec={"holderIdentity": "thief"})
    a.acquire_or_renew()
    assert (a.is_leader, lost, a.holder) == (False, [1], "thief")


def test_a_machine_that_slept_is_no_leader_when_it_wakes_up(api: FakeApi, connection: Connection) -> None:
    clock, lost, started = Clock(), [], []
    a = elector(connection, "a", clock, listeners=Listeners(lambda: started.append(1), lambda: lost.append(1)))
    a.acquire_or_renew()
    clock.now += 3600
    assert not a.is_leader
    a.acquire_or_renew()
    assert (lost, started) == ([1], [1, 1]), "lost once, and won again as nobody had taken it"


def test_wall_clocks_of_other_machines_play_no_part(api: FakeApi, connection: Connection) -> None:
    clock = Clock()
    a, b = elector(connection, "a", clock), elector(connection, "b", clock)
    a.acquire_or_renew()
    for stamp in ("1970-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z", None):
        path = "/apis/coordination.k8s.io/v1/namespaces/n/leases/resource-slack"
        api.put(path, spec=spec(api) | {"renewTime": stamp})
        b.acquire_or_renew()
        assert not b.is_leader
    clock.now += 15.1
    b.acquire_or_renew()
    assert b.is_leader


def test_release_lets_the_next_one_in_at_once(api: FakeApi, connection: Connection) -> None:
    clock = Clock()
    a, b = elector(connection, "a", clock), elector(connection, "b", clock)
    a.acquire_or_renew()
    b.acquire_or_renew()
    a.release()
    assert not a.is_leader
    assert spec(api)["holderIdentity"] is None
    b.acquire_or_renew()
    assert b.is_leader
    a.release()
    assert spec(api)["holderIdentity"] == "b", "what is not ours is not released"


def test_a_deleted_lease_is_made_again(api: FakeApi, connection: Connection) -> None:
    a = elector(connection, "a", Clock())
    a.acquire_or_renew()
    del api.objects[KEY]
    a.acquire_or_renew()
    assert a.is_leader
    assert spec(api)["holderIdentity"] == "a"


def test_labels_of_the_lease_are_kept(api: FakeApi, connection: Connection) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/n/leases/resource-slack"
    api.put(path, metadata={"labels": {"team": "x"}}, spec={})
    a = elector(connection, "a", Clock())
    a.acquire_or_renew()
    assert a.is_leader
    assert api.objects[KEY]["metadata"]["labels"] == {"team": "x"}


def test_threads_elect_one_and_stop_hands_over(api: FakeApi, connection: Connection) -> None:
    times = LeaseTimes(1.0, 0.6, 0.05)
    a, b = (
        Elector(connection, namespace="n", name="resource-slack", identity=name, times=times) for name in ("a", "b")
    )
    a.start()
    eventually(lambda: a.is_leader)
    b.start()
    time.sleep(0.3)
    assert not b.is_leader
    began = time.monotonic()
    a.stop()
    assert not a.is_leader
    eventually(lambda: b.is_leader)
    assert time.monotonic() - began < 0.6
    b.stop()
    assert spec(api)["holderIdentity"] is None


def test_a_callback_that_raises_does_not_end_the_elector(api: FakeApi, connection: Connection) -> None:
    calls = threading.Semaphore(0)

    def broken() -> None:
        calls.release()
        raise RuntimeError("a bug")

    a = elector(connection, "a", time.monotonic, times=LeaseTimes(1.0, 0.6, 0.02), listeners=Listeners(broken))
    a.start()
    assert calls.acquire(timeout=5)
    assert calls.acquire(timeout=5), "the elector goes on, and nobody leads without work"
    a.stop()


def test_a_leader_whose_work_does_not_begin_leads_no_more(api: FakeApi, connection: Connection) -> None:
    lost: list[str] = []

    def fails() -> None:
        raise RuntimeError("no thread for policies")

    a = elector(connection, "a", Clock(), listeners=Listeners(fails, lambda: lost.append("a")))
    a.acquire_or_renew()
    assert (a.is_leader, lost) == (False, ["a"])
    a.release()
    b = elector(connection, "b", Clock())
    b.acquire_or_renew()
    assert b.is_leader


def test_a_lease_of_a_new_name_is_held_for_its_duration_before_its_creator_leads(
    api: FakeApi, connection: Connection
) -> None:
    clock = Clock()
    a, b = (elector(connection, name, clock, settles=True) for name in "ab")
    a.acquire_or_renew()
    led_at: float | None = None
    while led_at is None and clock.now < 1060.0:
        clock.now += 2.0
        a.acquire_or_renew()
        b.acquire_or_renew()
        assert not b.is_leader
        led_at = clock.now if a.is_leader else None
    assert led_at is not None
    assert 1015.0 <= led_at <= 1018.0, "its predecessor stops at most ten seconds after it has lost its right"
    a.release()
    b.acquire_or_renew()
    assert b.is_leader, "a lease that was there is taken at once"


def test_an_empty_lease_that_an_installer_made_is_held_for_its_duration_before_its_first_holder_leads(
    api: FakeApi, connection: Connection
) -> None:
    api.put("/apis/coordination.k8s.io/v1/namespaces/n/leases/resource-slack")
    clock = Clock()
    a, b = (elector(connection, name, clock, settles=True) for name in "ab")
    led_at: float | None = None
    while led_at is None and clock.now < 1060.0:
        a.acquire_or_renew()
        b.acquire_or_renew()
        assert not b.is_leader
        led_at = clock.now if a.is_leader else None
        clock.now += 2.0
    assert led_at is not None
    assert 1015.0 <= led_at <= 1018.0, "a leader by another lease has lost its right to it, and has stopped"
    a.release()
    b.acquire_or_renew()
    assert b.is_leader, "a lease that had a holder is taken at once"


def test_another_holder_is_told_once(api: FakeApi, connection: Connection) -> None:
    held: list[str] = []
    clock = Clock()
    a, b = elector(connection, "a", clock), elector(connection, "b", clock, listeners=Listeners(held=held.append))
    for _ in range(5):
        a.acquire_or_renew()
        b.acquire_or_renew()
        clock.now += 2.0
    assert held == ["a"]


def test_times_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="must fall"):
        LeaseTimes(10, 10, 2)


class Server:
    """One lease behind a wire that delays and breaks before or after the write."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.fate = "ok"
        self.pass_time: Callable[[], None] = lambda: None

    def request(self, method: str, path: str, *, body: Any = None, **_: Any) -> bytes:
        if self.fate == "lost before":
            raise Unreachable("lost")
        if self.fate == "slow before":
            self.pass_time()
        if method == "GET":
            if self.lease is None:
                raise ApiError(404, "NotFound", "")
        elif method == "POST" and self.lease is not None:
            raise ApiError(409, "AlreadyExists", "")
        elif method == "PUT" and (
            self.lease is None or body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]
        ):
            raise ApiError(409, "Conflict", "")
        if method != "GET":
            self.version += 1
            self.lease = json.loads(json.dumps(body))
            assert self.lease is not None
            self.lease["metadata"] |= {"resourceVersion": str(self.version), "uid": "u"}
        if self.fate == "slow after":
            self.pass_time()
        if self.fate == "lost after" and method != "GET":
            raise Unreachable("lost")
        return json.dumps(self.lease).encode()


steps = st.lists(
    st.tuples(
        st.sampled_from(["acquire_or_renew", "acquire_or_renew", "acquire_or_renew", "release"]),
        st.integers(0, 2),
        st.sampled_from(["ok", "ok", "ok", "lost before", "lost after", "slow before", "slow after"]),
        st.floats(0, 12),
        st.floats(0, 30),
    ),
    max_size=40,
)


@examples(300)
@given(steps)
def test_there_are_never_two_leaders(steps: list[tuple[str, int, str, float, float]]) -> None:
    server, base = Server(), Clock(0.0)
    candidates = [
        elector(cast("Connection", server), str(i), lambda offset=i * 1e5: base.now + offset)  # type: ignore[misc]
        for i in range(3)
    ]

    def check() -> None:
        assert sum(candidate.is_leader for candidate in candidates) <= 1

    for action, who, fate, wait, delay in steps:

        def meanwhile(who: int = who, delay: float = delay) -> None:
            """While one candidate's request hangs, the next one looks, time passes, and it looks again."""
            server.fate = "ok"
            for seconds in (0.0, delay):
                base.now += seconds
                check()
                candidates[(who + 1) % 3].acquire_or_renew()
                check()

        base.now += wait
        check()
        server.fate, server.pass_time = fate, meanwhile
        getattr(candidates[who], action)()
        check()


@given(
    name=st.from_regex(rf"[a-z]([a-z0-9-]{{0,{LONGEST_DEPLOYMENT - 2}}}[a-z0-9])?", fullmatch=True),
    template_hash=st.text("bcdf24689", min_size=5, max_size=10),
)
@examples(300)
def test_the_deployment_of_a_pod_is_named_however_long_its_name_is(name: str, template_hash: str) -> None:
    """As the API server makes a name: at most 58 characters, then five random ones."""
    pod = f"{name}-{template_hash}-"[:58] + "x2x7k"
    assert deployment_of(f"{pod}_1a2b3c4d") == name


@run_for_each("length", range(40, LONGEST_DEPLOYMENT + 1))
def test_the_deployment_of_a_pod_is_named_at_every_length_near_the_cut(length: int) -> None:
    name = "r" * (length - 6) + "-slack"
    pod = f"{name}-5d8f7c9b4f-"[:58] + "x2x7k"
    assert deployment_of(pod) == name


@pytest.mark.parametrize("duration", [15, 3600, 2**31 - 1])
def test_a_holder_that_is_silent_for_a_minute_has_ended_whatever_duration_it_wrote(duration: int) -> None:
    seen = HolderSeen()
    lease: dict[str, Any] = {
        "metadata": {"uid": "u"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": duration},
    }
    assert seen.holder(lease, 0.0) == "a"
    assert seen.holder(lease, 14.0) == "a"
    assert seen.holder(lease, 61.0) is None
    lease["spec"]["renewTime"] = "later"
    assert seen.holder(lease, 62.0) == "a"
