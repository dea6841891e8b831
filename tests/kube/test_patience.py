"""How long a command waits: by a clock that the tests move, and by real threads that never end."""

import threading
from collections.abc import Iterator

import pytest

from slack.kube.errors import Unreachable
from slack.kube.patience import LEAST_BYTES, Patience


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
    patience = Patience("it", print)
    assert patience.wait("GET /", lambda: 7) == 7
    with pytest.raises(ValueError, match="own"):
        patience.wait("GET /", lambda: int("own"))


def test_who_never_answers_is_given_up_and_the_person_is_told_once_for_whom_he_waits(never: threading.Event) -> None:
    said: list[str] = []
    patience = Patience("the API server at https://x", said.append, first_answer_seconds=9, clock=Clock())
    with pytest.raises(Unreachable, match="GET /version: no whole answer within 9 s") as caught:
        patience.wait("GET /version", never.wait)
    assert caught.value.timed_out
    assert said == ["waiting for the API server at https://x"]


def test_all_requests_before_the_first_answer_share_one_deadline(never: threading.Event) -> None:
    clock = Clock()
    patience = Patience("it", print, first_answer_seconds=20, clock=clock)
    for _ in range(2):
        with pytest.raises(Unreachable):
            patience.wait("GET /", never.wait)
    assert clock.now < 20 + 10


def test_an_answer_that_makes_progress_is_never_cut_and_a_byte_a_second_is_silence() -> None:
    clock = Clock()
    patience = Patience("it", print, silent_seconds=10, clock=clock)
    patience.answered()
    began = clock()
    for _ in range(200):
        patience.progress(LEAST_BYTES)
        assert patience.over(began) < 0
    for _ in range(20):
        patience.progress(1)
    assert clock.now > 200
    clock.now += 10
    assert patience.over(began) >= 0


def test_a_request_after_a_long_pause_of_our_own_has_its_time(never: threading.Event) -> None:
    clock = Clock()
    patience = Patience("it", print, silent_seconds=10, clock=clock)
    patience.answered()
    clock.now += 1000
    assert patience.wait("GET /", lambda: "planned meanwhile") == "planned meanwhile"
    with pytest.raises(Unreachable, match="no more of an answer for 10 s"):
        patience.wait("GET /", never.wait)


def test_giving_up_ends_what_waits(never: threading.Event) -> None:
    patience = Patience("it", print)
    threading.Timer(0.05, patience.give_up).start()
    with pytest.raises(Unreachable, match="given up"):
        patience.wait("GET /", never.wait)
