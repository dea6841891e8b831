"""How long a command waits: by a clock that the tests move, and by real threads that never end."""

import threading
from collections.abc import Iterator

import pytest

from slack.kube.deadline import LEAST_BYTES, Deadline
from slack.kube.errors import Unreachable


class Clock:
    """Moves by a second each time it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def never() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_what_comes_in_time_is_returned_and_what_fails_is_raised() -> None:
    deadline = Deadline("it", print)
    assert deadline.wait("GET /", lambda: 7) == 7
    with pytest.raises(ValueError, match="own"):
        deadline.wait("GET /", lambda: int("own"))


def test_who_never_answers_is_given_up_and_the_person_is_told_once_for_whom_he_waits(never: threading.Event) -> None:
    said: list[str] = []
    deadline = Deadline("the API server at https://x", said.append, first_answer_seconds=9, clock=Clock())
    with pytest.raises(Unreachable, match="GET /version: no whole answer within 9 s") as caught:
        deadline.wait("GET /version", never.wait)
    assert caught.value.timed_out
    assert said == ["waiting for the API server at https://x"]


def test_all_requests_before_the_first_answer_share_one_deadline(never: threading.Event) -> None:
    clock = Clock()
    deadline = Deadline("it", print, first_answer_seconds=20, clock=clock)
    for _ in range(2):
        with pytest.raises(Unreachable):
            deadline.wait("GET /", never.wait)
    assert clock.now < 20 + 10


def test_an_answer_that_makes_progress_is_never_cut_and_a_byte_a_second_is_silence() -> None:
    clock = Clock()
    deadline = Deadline("it", print, silent_seconds=10, clock=clock)
    deadline.answered()
    began = clock()
    for _ in range(200):
        deadline.progress(LEAST_BYTES)
        assert deadline.over(began) < 0
    for _ in range(20):
        deadline.progress(1)
    assert clock.now > 200
    clock.now += 10
    assert deadline.over(began) >= 0


def test_a_request_after_a_long_pause_of_our_own_has_its_time(never: threading.Event) -> None:
    clock = Clock()
    deadline = Deadline("it", print, silent_seconds=10, clock=clock)
    deadline.answered()
    clock.now += 1000
    assert deadline.wait("GET /", lambda: "planned meanwhile") == "planned meanwhile"
    with pytest.raises(Unreachable, match="no more of an answer for 10 s"):
        deadline.wait("GET /", never.wait)


def test_giving_up_ends_what_waits(never: threading.Event) -> None:
    deadline = Deadline("it", print)
    threading.Timer(0.05, deadline.give_up).start()
    with pytest.raises(Unreachable, match="given up"):
        deadline.wait("GET /", never.wait)
