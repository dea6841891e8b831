"""Writes that keep on failing are paused, each kind for itself, and are tried again when their pause is over."""

from __future__ import annotations

import random
import threading

import pytest

from slack.kube.apply import Writer
from slack.kube.breaker import (
    FAILURES,
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    LONGEST_RETRY_AFTER_SECONDS,
    MOST_CIRCUITS,
    Circuit,
    CircuitBreaker,
    WritesPaused,
    circuit_of,
)
from slack.kube.connection import Connection
from slack.kube.errors import ApiError, Unreachable
from slack.kube.retry import retrying
from tests.kube.fake_api import FakeApi, Reply

PODS = circuit_of("patch", "/api/v1/namespaces/a/pods/b")
SETS = circuit_of("patch", "/apis/apps/v1/namespaces/a/replicasets/b")
WEBHOOK = ApiError(500, "InternalError", "failed calling webhook")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker(clock=clock, rng=random.Random(1))


def paused(breaker: CircuitBreaker, circuit: Circuit) -> bool:
    try:
        breaker.check(circuit)
    except WritesPaused:
        return True
    return False


@pytest.mark.parametrize(
    ("path", "circuit"),
    [
        ("/api/v1/namespaces/a/pods/b", Circuit("patch", "/api/v1/namespaces/a/pods")),
        ("/api/v1/namespaces/a/pods/b/status", Circuit("patch", "/api/v1/namespaces/a/pods", "status")),
        ("/api/v1/namespaces/a", Circuit("patch", "/api/v1/namespaces")),
        ("/apis/apps/v1/namespaces/a/replicasets/b", Circuit("patch", "/apis/apps/v1/namespaces/a/replicasets")),
        ("/apis/g/v1/slackpolicies/b/scale", Circuit("patch", "/apis/g/v1/slackpolicies", "scale")),
    ],
)
def test_a_circuit_is_a_verb_on_a_collection(path: str, circuit: Circuit) -> None:
    assert circuit_of("patch", path) == circuit


def test_a_few_failures_in_a_row_pause_their_kind_and_no_other(breaker: CircuitBreaker, clock: Clock) -> None:
    for _ in range(FAILURES):
        assert not paused(breaker, PODS)
        breaker.failed(PODS, WEBHOOK)
    with pytest.raises(WritesPaused, match="patch of pods fails and is retried with growing pauses: failed calling"):
        breaker.check(PODS)
    assert not paused(breaker, SETS)
    clock.now += FIRST_PAUSE_SECONDS
    assert not paused(breaker, PODS)


def test_pauses_grow_to_a_bound_and_one_success_ends_them(breaker: CircuitBreaker, clock: Clock) -> None:
    tries = 0
    for clock.now in range(3600):
        if not paused(breaker, PODS):
            tries += 1
            breaker.failed(PODS, WEBHOOK)
    assert 3600 / LONGEST_PAUSE_SECONDS < tries < 3600 / LONGEST_PAUSE_SECONDS * 2.5
    clock.now += LONGEST_PAUSE_SECONDS
    breaker.succeeded(PODS)
    breaker.failed(PODS, WEBHOOK)
    assert not paused(breaker, PODS)


def test_a_refusal_that_would_stay_the_same_is_no_failure(breaker: CircuitBreaker) -> None:
    for _ in range(FAILURES * 2):
        breaker.failed(PODS, ApiError(403, "Forbidden", "exceeded quota"))
    assert breaker.check(PODS)


def test_after_a_failure_the_next_write_is_tried_once(breaker: CircuitBreaker) -> None:
    assert breaker.check(PODS)
    breaker.failed(PODS, Unreachable("no answer"))
    assert not breaker.check(PODS)


def test_a_throttling_server_pauses_every_write_for_as_long_as_it_asks(breaker: CircuitBreaker, clock: Clock) -> None:
    breaker.failed(PODS, ApiError(429, "TooManyRequests", "too many requests", retry_after_seconds=40.0))
    assert paused(breaker, PODS)
    assert paused(breaker, SETS)
    clock.now += 39.0
    assert paused(breaker, SETS)
    clock.now += 6.0
    assert not paused(breaker, SETS)


def test_a_refused_eviction_is_the_budget_of_its_pod_and_pauses_no_other_write(breaker: CircuitBreaker) -> None:
    eviction = circuit_of("create", "/api/v1/namespaces/a/pods/b/eviction")
    breaker.failed(eviction, ApiError(429, "TooManyRequests", "would violate the disruption budget"))
    assert not paused(breaker, PODS)


def test_a_retry_after_of_days_is_not_believed(breaker: CircuitBreaker, clock: Clock) -> None:
    breaker.failed(PODS, ApiError(503, "Unavailable", "a proxy", retry_after_seconds=999_999.0))
    assert paused(breaker, PODS)
    clock.now += LONGEST_RETRY_AFTER_SECONDS * 1.2
    assert not paused(breaker, PODS)


@pytest.mark.parametrize("namespaces", [MOST_CIRCUITS * 2, MOST_CIRCUITS * 20])
def test_what_is_remembered_is_bounded(breaker: CircuitBreaker, namespaces: int) -> None:
    for number in range(namespaces):
        breaker.failed(circuit_of("patch", f"/api/v1/namespaces/n{number}/pods/b"), WEBHOOK)
    assert len(breaker._failing) == MOST_CIRCUITS


def test_a_writer_sends_nothing_while_its_writes_are_paused_but_reads(api: FakeApi, connection: Connection) -> None:
    once = retrying(threading.Event(), deadline_seconds=0.0)
    writer = Writer(connection, threading.Event(), retry=once)
    api.script("patch", *[Reply.status(500) for _ in range(FAILURES)])
    for _ in range(FAILURES):
        with pytest.raises(ApiError):
            writer.merge_patch("/api/v1/namespaces/n/configmaps/a", {})
    for _ in range(10):
        with pytest.raises(WritesPaused):
            writer.merge_patch("/api/v1/namespaces/n/configmaps/a", {})
    assert api.count("patch") == FAILURES
    with pytest.raises(ApiError, match="404"):
        writer.get("/api/v1/namespaces/n/configmaps/a")


def test_a_command_that_cleans_up_is_never_paused(api: FakeApi, connection: Connection) -> None:
    once = retrying(threading.Event(), deadline_seconds=0.0)
    writer = Writer(connection, threading.Event(), retry=once, pauses=False)
    api.script("patch", *[Reply.status(500) for _ in range(FAILURES * 2)])
    for _ in range(FAILURES * 2):
        with pytest.raises(ApiError, match="500"):
            writer.merge_patch("/api/v1/namespaces/n/configmaps/a", {})
    assert api.count("patch") == FAILURES * 2
