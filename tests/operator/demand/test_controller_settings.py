"""What the controller of demand can be told, and what is said of what it cannot."""

import pytest

from slack.process.settings import InvalidSettings, load
from slack_operator.demand.controller_settings import DemandControllerSettings

NEEDED = {"broker_url": "nats://nats.media:4222", "proxy_image": "proxy:1"}


def loaded(**flags: object) -> DemandControllerSettings:
    return load(DemandControllerSettings, NEEDED | flags, {})


def problems(**flags: object) -> str:
    with pytest.raises(InvalidSettings) as found:
        loaded(**flags)
    return str(found.value)


def test_a_tick_may_have_milliseconds() -> None:
    assert loaded(tick="300ms").tick == 0.3
    assert loaded(interval="1s500ms").interval == 1.5
    assert "--tick: must be at least 0.1s" in problems(tick="50ms")


def test_namespaces_come_with_commas() -> None:
    assert loaded(namespaces="media,shop,media").namespaces == ("media", "shop")
    assert loaded().namespaces == ()
    assert "--namespaces: 'A' is no Kubernetes name" in problems(namespaces="media,A")


def test_a_broker_is_needed_and_its_address_has_no_password() -> None:
    with pytest.raises(InvalidSettings, match="--broker-url: needed"):
        load(DemandControllerSettings, {"proxy_image": "a"}, {})
    told = problems(broker_url="nats://me:hidden@nats:4222")
    assert "--broker-credentials-file" in told
    assert "hidden" not in told
    assert "--broker-credentials-file" in problems(broker_url="nats://one:4222,me:hidden@two:4222")
    for url in ("amqp://rabbit", "nats://one:4222,two:port", "nats://one,", "nats://", "nats"):
        assert "should be the address of a broker" in problems(broker_url=url)
    for url in ("nats://one:4222,two:4222,three:4222?replicas=3", "tls://[fd00::1]:4222", "redis://redis?db=3"):
        assert loaded(broker_url=url).broker_url == url


@pytest.mark.parametrize("text", ["G6", "G1, G2", "some"])
def test_guards_are_named(text: str) -> None:
    assert loaded(guards="G1,G3").guards == "G1,G3"
    assert "--guards: should be all, none" in problems(guards=text)


def test_tokens_are_not_sent_in_the_clear() -> None:
    account = {"throttle_account": "media/publisher"}
    assert "--throttle-listen: needed" in problems(**account)
    assert "--tls-cert-file: needed" in problems(throttle_listen="0.0.0.0:8082", **account)
    assert loaded(throttle_listen="127.0.0.1:0", **account).throttle_listen == "127.0.0.1:0"
    assert "should be NAMESPACE/NAME" in problems(throttle_listen="127.0.0.1:0", throttle_account="publisher")
