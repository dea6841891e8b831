"""How queues lie in JetStream: names that can be subjects, streams that do not overlap, dead letters in none."""

import pytest

from slack.demand.broker import BrokerRefused, Duration, QueueSettings
from slack_operator.demand.brokers.nats_layout import (
    check_prefix,
    check_queue,
    consumer_config,
    consumer_name,
    stream_config,
    stream_name,
)


def test_a_prefix_has_its_stream_and_a_queue_its_consumer() -> None:
    assert (stream_name("act."), stream_name("act.media.")) == ("ACT_all", "ACT_media")
    assert consumer_name("act.media.thumb-nail.256") == "act_media_thumb-nail_256"


def test_dead_letters_are_in_no_queues_stream() -> None:
    assert stream_config("act.", 1)["subjects"] == ["act.*.*", "act.*.*.*"]
    assert stream_config("act.media.", 1)["subjects"] == ["act.media.*", "act.media.*.*"]


def test_a_stream_has_its_own_number_of_consumers_and_keeps_what_is_not_acked() -> None:
    config = stream_config("act.", 3)
    assert config["max_consumers"] > 1000
    assert (config["retention"], config["storage"], config["num_replicas"]) == ("workqueue", "file", 3)
    assert config["duplicate_window"] == 120 * 10**9


def test_the_server_itself_never_gives_a_message_up() -> None:
    config = consumer_config(QueueSettings(name="act.media.thumb.256", ack_wait_seconds=Duration(1.5), max_deliver=5))
    assert (config["ack_wait"], config["max_deliver"]) == (1_500_000_000, -1)
    assert config["inactive_threshold"] == 3600 * 10**9


@pytest.mark.parametrize(
    "queue", ["act.media", "act.dead", "act.a.b.c.d", "act.>.b.1", "act.a b.c.1", "act..b.1", "x.a.b.1"]
)
def test_what_cannot_be_a_queue_is_refused(queue: str) -> None:
    with pytest.raises(BrokerRefused):
        check_queue(queue, ("act.",))


def test_a_queue_of_another_prefix_is_refused_with_the_prefixes() -> None:
    assert check_queue("act.media.thumb.256", ("act.web.", "act.media.")) == "act.media."
    with pytest.raises(BrokerRefused, match=r"must begin with act\.web\. or act\.shop\."):
        check_queue("act.media.thumb.256", ("act.web.", "act.shop."))


@pytest.mark.parametrize("prefix", ["", ".", "act", "act.*.", "other.", "act.a.b.", "act.media"])
def test_what_cannot_be_a_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(BrokerRefused, match=r"write act\. or act\.NAMESPACE\."):
        check_prefix(prefix)
