"""How queues lie in JetStream: one stream a prefix, in it a durable consumer a queue. Pure.

- Retention is that of a work queue: a message that is acked is gone, so that a subject's count is what waits and what
  is in flight. The stream's subjects have three or four words, so that `act.dead` is in no queue's stream.
- The server's default allows 1,000 consumers a stream: the stream has its own number.
- The consumer's own `max_deliver` is without an end: a message that had reached it would lie in the stream for ever,
  and be counted. Who pulls moves it to `act.dead` instead (`slack_operator.demand.brokers.nats`).
"""

import re
from typing import Any, Final

from slack.demand.broker import DEAD_LETTERS, PREFIX, BrokerRefused, QueueSettings

NANOS: Final = 1_000_000_000
DEAD_STREAM: Final = "ACT_DEAD"
REPORTS: Final = "actreport."
"""Before a queue's name: the subject of its containers' reports. Outside of `act.`, so in no stream."""
MOST_CONSUMERS: Final = 100_000
DEDUPE_SECONDS: Final = 120
INACTIVE_SECONDS: Final = 3600
"""A consumer that nobody has pulled from for so long is gone; its messages stay, and `ensure` makes it again."""
DEAD_AGE_SECONDS: Final = 7 * 24 * 3600
_DEAD_MESSAGES: Final = 100_000
_WAITING_PULLS: Final = 16_384
_WORD: Final = re.compile(r"[A-Za-z0-9_-]+")
_NAME: Final = "act.NAMESPACE.ACTION.MEMORY, each word of letters, digits, - and _"


def check_prefix(prefix: str) -> str:
    """Return the prefix of a stream's queues.

    Raises:
        BrokerRefused: it is none.
    """
    words = prefix.split(".")
    if words[-1] or words[0] != "act" or len(words) > 3 or not all(map(_WORD.fullmatch, words[:-1])):
        raise BrokerRefused(f"prefix {prefix!r}: write act. or act.NAMESPACE.")
    return prefix


def check_queue(queue: str, prefixes: tuple[str, ...]) -> str:
    """Return the prefix that a queue has.

    Raises:
        BrokerRefused: it has none, or its name cannot be a subject of ours.
    """
    words = queue.split(".")
    if not 3 <= len(words) <= 4 or not all(map(_WORD.fullmatch, words)):
        raise BrokerRefused(f"queue {queue!r}: write {_NAME}")
    for prefix in prefixes:
        if queue.startswith(prefix):
            return prefix
    raise BrokerRefused(f"queue {queue!r}: must begin with {' or '.join(prefixes)}")


def stream_name(prefix: str) -> str:
    """Return the name of a prefix's stream: `ACT_all` for all queues, `ACT_media` for those of a namespace."""
    return "ACT_" + (prefix.removeprefix(PREFIX).rstrip(".") or "all")


def consumer_name(queue: str) -> str:
    """Return the name of a queue's consumer, which may have no dot; `_` is in no word that Kubernetes allows."""
    return queue.replace(".", "_")


def stream_config(prefix: str, replicas: int) -> dict[str, Any]:
    """Return the configuration of a prefix's stream, as JetStream's API takes it."""
    words = prefix.count(".")
    return {
        "name": stream_name(prefix),
        "subjects": [prefix + ".".join(["*"] * (count - words)) for count in (3, 4)],
        "retention": "workqueue",
        "storage": "file",
        "max_consumers": MOST_CONSUMERS,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "duplicate_window": DEDUPE_SECONDS * NANOS,
        "num_replicas": replicas,
        "allow_direct": True,
    }


def dead_stream_config(replicas: int) -> dict[str, Any]:
    """Return the configuration of the stream of dead letters: a week's, and not without an end."""
    return {
        "name": DEAD_STREAM,
        "subjects": [DEAD_LETTERS],
        "retention": "limits",
        "storage": "file",
        "discard": "old",
        "max_msgs": _DEAD_MESSAGES,
        "max_bytes": -1,
        "max_age": DEAD_AGE_SECONDS * NANOS,
        "duplicate_window": DEDUPE_SECONDS * NANOS,
        "num_replicas": replicas,
    }


def consumer_config(queue: QueueSettings) -> dict[str, Any]:
    """Return the configuration of a queue's consumer."""
    return {
        "durable_name": consumer_name(queue.name),
        "filter_subject": queue.name,
        "ack_policy": "explicit",
        "ack_wait": int(queue.ack_wait_seconds * NANOS),
        "max_deliver": -1,
        "max_ack_pending": -1,
        "max_waiting": _WAITING_PULLS,
        "inactive_threshold": INACTIVE_SECONDS * NANOS,
    }
