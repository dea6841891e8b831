"""A refused write is tried ever less often; what is taken, and what passes by itself, counts for nothing."""

from slack.kube.errors import ApiError
from slack_operator.runtime.write_retries import LONGEST_SECONDS, WriteRetries
from tests.operator.fakes import Clock

DENIED = ApiError(403, "Forbidden", "admission webhook denied the request")


def tries(retries: WriteRetries, clock: Clock, error: ApiError, seconds: int) -> int:
    count = 0
    for _ in range(seconds):
        clock.now += 1.0
        if not retries.wait_seconds("uid"):
            count += 1
            retries.failed("uid", error)
    return count


def test_a_refused_write_is_tried_ever_less_often_and_at_once_after_one_that_is_taken() -> None:
    clock = Clock()
    retries = WriteRetries(clock)
    assert 8 <= tries(retries, clock, DENIED, 3600) <= 35
    assert retries.wait_seconds("other") == 0.0
    clock.now += LONGEST_SECONDS
    assert retries.wait_seconds("uid") == 0.0
    retries.succeeded("uid")
    retries.failed("uid", DENIED)
    assert retries.wait_seconds("uid") <= 5.0


def test_what_passes_by_itself_is_left_to_the_breaker() -> None:
    clock = Clock()
    assert tries(WriteRetries(clock), clock, ApiError(503, "ServiceUnavailable", "overloaded"), 60) == 60


def test_objects_that_are_gone_are_forgotten() -> None:
    retries = WriteRetries(Clock())
    retries.failed("uid", DENIED)
    retries.keep_only({"other"})
    assert retries._refused == {}
