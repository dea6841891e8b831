"""What the proxy can be told, and what it refuses with the flag's name."""

import pytest

from slack.process.settings import InvalidSettings, load
from slack_operator.demand.proxy.settings import DemandProxySettings, RunMode
from tests.cases import run_for_each

GIVEN: dict[str, object] = {"broker_url": "nats://127.0.0.1:4222", "queues": "act.media.thumb.256"}


def test_broker_and_queue_are_enough() -> None:
    found = load(DemandProxySettings, GIVEN, {"POD_NAME": "thumb-x7-1"})
    assert (found.queues, found.mode, found.container_id) == (("act.media.thumb.256",), RunMode.SIDECAR, "thumb-x7-1")
    assert (found.slots, found.idle_timeout, found.messages) == (1, 60.0, 0)


@run_for_each(
    ("flags", "said"),
    [
        ({"broker_url": None}, "--broker-url: needed"),
        ({"queues": None}, "--queues: needed"),
        ({"queues": "act.media.thumb.256,"}, "--queues: should be queues such as"),
        ({"queues": "media"}, "--queues: should be queues such as"),
        ({"mode": "process"}, "--command: needed with --mode process"),
        ({"mode": "none"}, "--mode: should be 'sidecar', 'process' or 'wait'"),
        ({"protocol": "grpc"}, "--protocol: must be lines or http"),
        ({"slots": "0"}, "--slots: must be a whole number from 1"),
        ({"slots": "many"}, "--slots: must be a whole number from 1"),
        ({"ack_wait": "10ms"}, "--ack-wait: must be at least 0.5s"),
        ({"target": "http://example.com:80/"}, "--target: should be of this machine"),
        ({"target": "http://127.0.0.1/"}, "--target: should be of this machine"),
        ({"target": "http://127.0.0.1:80/ HTTP/1.1"}, "--target: should have no spaces"),
        ({"target": "http://127.0.0.1:80/\r\nX: y"}, "--target: should be of this machine"),
    ],
)
def test_what_is_no_good_is_refused_by_flag(flags: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidSettings) as refused:
        load(DemandProxySettings, {**GIVEN, **flags}, {})
    assert said in str(refused.value)
