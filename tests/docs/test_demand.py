"""What the page of container pools names of the protocol is what the code says and does."""

import re
from pathlib import Path

import pytest

from slack.demand.broker import DEAD_LETTERS, PulledMessage, QueueSettings
from slack.demand.broker_kind import KIND_OF_SCHEME
from slack_operator.demand.brokers import nats_layout, redis_scripts
from slack_operator.demand.proxy.loopback import LoopbackRunner
from tests.docs.pages import DOCS, ROOT, anchors, section

PAGE = DOCS / "details" / "demand.md"
QUEUE = "act.media.thumbnail.256"
_HEADER = re.compile(r"\bAct-[A-Za-z]+(?:-[A-Za-z]+)*")


def part(heading: str) -> str:
    return section(PAGE, "A pool").partition(f"\n### {heading}\n")[2].partition("\n### ")[0]


def test_the_headers_of_a_message_are_those_that_the_proxy_sends() -> None:
    head = LoopbackRunner("http://127.0.0.1:8080")._head(PulledMessage(queue=QUEUE, id="1", body=b"", age_seconds=1.0))
    sent = set(_HEADER.findall(head.decode()))
    assert sent == {"Act-Queue", "Act-Message", "Act-Attempt", "Act-Age-Ms"}
    text = PAGE.read_text()
    assert sent <= set(_HEADER.findall(section(PAGE, "A pool")))
    code = "".join(file.read_text() for file in sorted((ROOT / "operator" / "slack_operator" / "demand").rglob("*.py")))
    assert set(_HEADER.findall(text)) <= set(_HEADER.findall(code))
    assert "Message-Id" not in text.replace("Nats-Msg-Id", "")


@pytest.mark.parametrize(
    "name",
    [
        nats_layout.stream_name("act."),
        nats_layout.stream_name("act.media."),
        nats_layout.consumer_name(QUEUE),
        QUEUE,
        redis_scripts.GROUP,
        DEAD_LETTERS,
    ],
)
def test_a_worker_of_ones_own_finds_its_queue_by_the_names_of_the_page(name: str) -> None:
    assert f"`{name}`" in part("A worker of your own")


@pytest.mark.filterwarnings("ignore:.*_text is deprecated")  # the library's own import, on Python 3.11
def test_so_does_one_of_kafka() -> None:
    from slack_operator.demand.brokers.kafka import topic

    assert f"`{topic(QUEUE)}`" in part("A worker of your own")


def test_a_consumer_that_a_worker_makes_is_one_that_the_controller_takes() -> None:
    """The server refuses another `max_waiting` of a consumer that is there, and so would `ensure` be refused."""
    config = nats_layout.consumer_config(QueueSettings(name=QUEUE))
    for setting in ("max_deliver", "max_waiting"):
        assert f"`{setting}` {config[setting]}" in part("A worker of your own")
    assert (config["filter_subject"], config["ack_policy"]) == (QUEUE, "explicit")
    assert config["inactive_threshold"] == 3600 * nats_layout.NANOS


def test_dead_messages_are_where_the_page_says() -> None:
    said = part("Dead messages")
    assert f"`{nats_layout.DEAD_STREAM}`" in said
    assert said.count(f"`{DEAD_LETTERS}`") == 2
    config = nats_layout.dead_stream_config(1)
    assert (config["max_msgs"], config["max_age"]) == (100_000, 7 * 24 * 3600 * nats_layout.NANOS)
    assert redis_scripts.DEAD_LENGTH == 100_000
    fields = re.findall(r"'(\w+)', (?:KEYS|ARGV)", redis_scripts.BURY.partition("local entry = ")[2].partition("\n")[0])
    assert fields == ["queue", "message", "attempts"]
    assert all(f"`{field}`" in said for field in fields)


def test_all_that_an_address_may_say_is_on_the_page() -> None:
    brokers = section(PAGE, "Brokers")
    for scheme, kind in KIND_OF_SCHEME.items():
        for key in kind.schemes[scheme]:
            assert f"`{key}=" in brokers


@pytest.mark.parametrize(
    "file", sorted((ROOT / "charts" / "resource-slack").glob("*.yaml")), ids=lambda file: Path(file).name
)
def test_sections_that_the_chart_names_are_there(file: Path) -> None:
    for page, anchor in re.findall(r"(docs/[\w/-]+\.md)#([\w-]+)", file.read_text()):
        assert anchor in anchors(ROOT / page), f"{page}#{anchor}"
