"""Kafka as a source of lag, and no more: its partitions are its parallelism, and a rebalance takes seconds.

A queue's topic is named as the source of the design has it, `{namespace}-{action}-{memory}MB`; its workers consume by
themselves, as the group that the URL names (`kafka://HOST:9092?group=NAME`). Two reads for all topics: the group's
committed offsets, and the ends of the partitions. A topic that cannot be read is that queue's problem alone. What is in
flight Kafka does not know: committed late, it waits.
"""

import asyncio
import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka import KafkaAdminClient, OffsetSpec, TopicPartition
from kafka import errors as kafka_errors

from slack.demand.broker import PREFIX, BrokerRefused, BrokerUnreachable, QueueLag, QueueSettings
from slack.demand.subjects import InvalidSubject, Subject, kafka_topic
from slack_operator.demand.brokers.broker_url import BrokerUrl
from slack_operator.demand.brokers.credentials import NONE, BrokerCredentials

ANSWER_MILLIS: Final = 2000
NO_TOPIC: Final = kafka_errors.UnknownTopicOrPartitionError.errno
"""A topic that nobody has made yet."""
_USABLE: Final = (kafka_errors.NoError.errno, kafka_errors.ReplicaNotAvailableError.errno)
"""A partition without one of its replicas still has a leader, which answers."""
_OF_ALL_TOPICS: Final = (
    kafka_errors.CoordinatorLoadInProgressError,
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.GroupAuthorizationFailedError,
    kafka_errors.InvalidGroupIdError,
    kafka_errors.NotCoordinatorError,
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedVersionError,
)
"""Errors of the group or of the connection: no single topic is to blame."""
MOST_READS: Final = 48
"""Groups of topics that are read at one read of the lag: one, unless topics have errors."""


def topic(queue: str) -> str:
    """Return a queue's topic.

    Raises:
        BrokerRefused: it is no queue of ours.
    """
    try:
        subject = Subject.parse(queue)
    except InvalidSubject:
        raise BrokerRefused(f"queue {queue!r}: write act.NAMESPACE.ACTION.MEMORY") from None
    return kafka_topic(subject.namespace, subject.action, subject.memory_mib)


async def open_broker(url: BrokerUrl, credentials: BrokerCredentials, name: str) -> "KafkaLag":
    """Return the servers of the URL, which are connected to at the first read.

    Raises:
        BrokerRefused: the URL names no group, or the credentials are no good.
    """
    return KafkaLag(url.addresses, credentials=credentials, group=url.one("group", ""), name=name)


class KafkaLag:
    """`slack.demand.broker.LagSource` on Kafka. Connects at the first read."""

    def __init__(
        self, servers: Sequence[str], *, credentials: BrokerCredentials = NONE, group: str, name: str = "resource-slack"
    ) -> None:
        if not group:
            raise BrokerRefused("broker URL: kafka:// needs ?group=NAME: the consumer group of the workers")
        self.address = f"kafka://{','.join(servers)}"
        self._group = group
        self._options: dict[str, Any] = {
            "bootstrap_servers": list(servers),
            "client_id": name,
            "request_timeout_ms": ANSWER_MILLIS,
            "bootstrap_timeout_ms": ANSWER_MILLIS,
        }
        self._credentials = credentials
        _sasl(credentials)  # what cannot be used is refused at once
        self._client: Any = None
        self._one_at_a_time = threading.Lock()
        self._topics: dict[str, str] = {}

    async def ensure(self, queue: QueueSettings) -> None:
        """Remember the queue: its topic is its owner's to make.

        A topic has one queue, the last one. The controller wants one queue of a topic at a time; the one before is of
        a pool that has another memory since.
        """
        self._topics[topic(queue.name)] = queue.name

    async def forget(self, queue: str) -> None:
        """Keep nothing about the queue: its topic is its owner's."""
        self._topics = {name: found for name, found in self._topics.items() if found != queue}

    async def lag(self, prefix: str = PREFIX) -> Mapping[str, QueueLag]:
        """Return the counters of all queues with the prefix that were ensured and have a topic."""
        wanted = {name: queue for name, queue in self._topics.items() if queue.startswith(prefix)}
        try:
            return await asyncio.to_thread(self._read, wanted)
        except (kafka_errors.SaslAuthenticationFailedError, kafka_errors.AuthorizationError) as error:
            await self._drop_client()
            raise BrokerRefused(f"{self.address}: {type(error).__name__}: see the credentials file") from None
        except (kafka_errors.KafkaError, OSError) as error:
            await self._drop_client()
            raise BrokerUnreachable(f"{self.address}: {type(error).__name__}") from None

    def _read(self, wanted: Mapping[str, str]) -> dict[str, QueueLag]:
        with self._one_at_a_time:
            if self._client is None:
                self._client = KafkaAdminClient(**self._options, **_sasl(self._credentials.fresh()))
            partitions: dict[str, list[TopicPartition]] = {}
            problems: dict[str, str] = {}
            for found in self._client.describe_topics(list(wanted)):
                name = found["name"]
                if name not in wanted or found["error_code"] == NO_TOPIC:
                    continue
                problem = _topic_problem(found)
                if problem is None:
                    partitions[name] = [TopicPartition(name, part["partition_index"]) for part in found["partitions"]]
                else:
                    problems[name] = problem
            lags = self._lags(partitions, problems)
        lags |= {name: QueueLag(backlog=0, in_flight=0, problem=problem) for name, problem in problems.items()}
        return {wanted[name]: lag for name, lag in lags.items()}

    def _lags(self, partitions: Mapping[str, list[TopicPartition]], problems: dict[str, str]) -> dict[str, QueueLag]:
        """Read the counters of all topics in as few requests as the errors of single topics allow.

        The library raises an error for the whole request if one partition has an error. The topics are then halved
        until the topic with the error is alone. Topics that are not read when the requests are used up have a problem.
        """
        lags: dict[str, QueueLag] = {}
        open_halves = [list(partitions)] if partitions else []
        for _ in range(MOST_READS):
            if not open_halves:
                break
            topics = open_halves.pop(0)
            try:
                lags |= self._lags_together({name: partitions[name] for name in topics})
            except _OF_ALL_TOPICS:
                raise
            except kafka_errors.BrokerResponseError as error:
                middle = len(topics) // 2
                if middle:
                    open_halves += [topics[:middle], topics[middle:]]
                else:
                    problems[topics[0]] = f"topic {topics[0]!r}: {type(error).__name__}"
        for name in (name for topics in open_halves for name in topics):
            problems[name] = f"topic {name!r}: not read, because too many other topics have errors"
        return lags

    def _lags_together(self, partitions: Mapping[str, list[TopicPartition]]) -> dict[str, QueueLag]:
        every = [part for own in partitions.values() for part in own]
        committed = self._client.list_group_offsets({self._group: every}).get(self._group, {})
        ends = self._client.list_partition_offsets(dict.fromkeys(every, OffsetSpec.LATEST))
        behind = [part for part in every if _offset(committed.get(part)) < _offset(ends.get(part))]
        # What the retention has taken away waits for nobody, whether or not the group ever read the partition.
        begins = self._client.list_partition_offsets(dict.fromkeys(behind, OffsetSpec.EARLIEST)) if behind else {}
        lags: dict[str, QueueLag] = {}
        for name, own in partitions.items():
            published = sum(_offset(ends.get(part)) for part in own)
            # A group may be ahead of a topic that was made anew: that hides no messages of other partitions.
            delivered = sum(
                min(max(_offset(committed.get(part)), _offset(begins.get(part))), _offset(ends.get(part)))
                for part in own
            )
            lags[name] = QueueLag(
                backlog=published - delivered,
                in_flight=0,
                delivered_total=delivered,
                published_total=published,
            )
        return lags

    async def close(self) -> None:
        """End the connection."""
        await self._drop_client()

    async def _drop_client(self) -> None:
        """End the client: the next read makes another, with credentials that are read again."""
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(kafka_errors.KafkaError, OSError):
                await asyncio.to_thread(client.close)


def _sasl(credentials: BrokerCredentials) -> dict[str, Any]:
    """Return the options that log in.

    Raises:
        BrokerRefused: the credentials are not of a kind that Kafka knows.
    """
    if credentials.user is not None:
        return {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": credentials.user,
            "sasl_plain_password": credentials.secret,
        }
    if credentials.secret is not None or credentials.creds_file is not None:
        raise BrokerRefused("credentials file: for Kafka write user:password")
    return {}


def _topic_problem(found: Mapping[str, Any]) -> str | None:
    """Return why a topic cannot be read; None if each of its partitions has a leader."""
    name, number = found["name"], found["error_code"]
    if number:
        return f"topic {name!r}: {kafka_errors.for_code(number).__name__}"
    if not found["partitions"]:
        return f"topic {name!r}: it has no partitions"
    for part in found["partitions"]:
        if part["leader_id"] < 0 or part["error_code"] not in _USABLE:
            return f"topic {name!r}: partition {part['partition_index']} has no leader"
    return None


def _offset(found: Any) -> int:
    return -1 if found is None else int(found.offset)
