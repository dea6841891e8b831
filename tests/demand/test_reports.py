"""What a container says of itself is bounded, and what cannot be read is told with the field."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.demand.broker import MAX_REPORT_BYTES
from slack.demand.reports import ContainerReport, InvalidReport, decode_report, encode_report


def test_a_report_comes_back_as_it_was_sent() -> None:
    report = ContainerReport(container="pod-1", slots=4, busy=1, runs=3, run_ms=12.5, last_run_ms=(4.0, 4.5, 4.0))
    assert decode_report(encode_report(report)) == report


def test_what_is_as_usual_is_left_out() -> None:
    assert encode_report(ContainerReport(container="pod-1")) == b'{"container":"pod-1"}'


def test_a_newer_proxy_may_say_more() -> None:
    assert decode_report(b'{"container":"pod-1","busy":1,"temperature":40}').busy == 1


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b'{"container":"pod-1","busy":-1}', "$.busy"),
        (b'{"container":"","busy":1}', "$.container"),
        (b'{"container":"pod-1","slots":1000000}', "$.slots"),
        (b'{"container":"pod-1","runMs":1e300}', "$.runMs"),
        (b'{"container":"pod-1","lastRunMs":[1,1,1,1,1,1,1,1,1,1,1]}', "$.lastRunMs"),
        (b'{"busy":1}', "container"),
        (b"x" * (MAX_REPORT_BYTES + 1), "longer than 4096 bytes"),
        (b"\xff\xfe", "invalid"),
        (b'{"container":' + b"[" * 4000, "$.container"),
    ],
)
def test_a_forged_report_is_refused_with_what_is_wrong_in_it(body: bytes, named: str) -> None:
    with pytest.raises(InvalidReport) as refused:
        decode_report(body)
    assert named.lower() in str(refused.value).lower()


@given(st.binary(max_size=200))
def test_garbage_is_a_bad_report_and_nothing_worse(body: bytes) -> None:
    with contextlib.suppress(InvalidReport):
        assert decode_report(body).container
