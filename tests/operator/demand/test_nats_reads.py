"""What a NATS server's answers come to: pulls that are open, and the lag of queues read in turn."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from slack.demand.broker import BrokerUnreachable
from slack_operator.demand.brokers.nats_connection import CONSUMER_NOT_FOUND, STREAM_NOT_FOUND, ApiRefused
from slack_operator.demand.brokers.nats_lag import PAGE, READS, SILENT_SECONDS, LagReader
from slack_operator.demand.brokers.nats_pulls import Pulls, wait_for
from slack_operator.demand.brokers.report_buffer import ReportBuffer

QUEUE = "act.media.thumbnail.256"


def told(subject: str, *, reply: str = "", headers: dict[str, str] | None = None, data: bytes = b"") -> Msg:
    return Msg(_client=Client(), subject=subject, reply=reply, data=data, headers=headers)


def stored(queue: str = QUEUE, data: bytes = b"x", headers: dict[str, str] | None = None) -> Msg:
    return told(queue, reply="$JS.ACK.s.c.1.1.1.1.0", data=data, headers=headers)


def test_a_message_goes_to_the_oldest_open_pull_of_its_queue() -> None:
    async def whole() -> None:
        pulls = Pulls()
        (_, other), (_, first), (_, second) = pulls.begin("act.a.b.1", 1), pulls.begin(QUEUE, 1), pulls.begin(QUEUE, 1)
        for data in (b"1", b"2"):
            await pulls.on_message(stored(data=data))
        assert [message.data for message in first.messages + second.messages] == [b"1", b"2"]
        assert not other.messages

    asyncio.run(whole())


def test_what_comes_for_nobody_is_held_for_the_next_pull() -> None:
    async def whole() -> None:
        pulls = Pulls()
        word, pull = pulls.begin(QUEUE, 1)
        await pulls.on_message(stored(data=b"came"))
        assert pull.is_full
        pulls.end(word, cancelled=True)
        await pulls.on_message(stored(data=b"comes late"))
        assert [message.data for message in pulls.held(QUEUE, 1)] == [b"came"]
        assert [message.data for message in pulls.all_held()] == [b"comes late"]
        assert not pulls.held(QUEUE, 1)

    asyncio.run(whole())


@pytest.mark.parametrize(
    ("headers", "ended", "missing"),
    [
        ({"Status": "100", "Description": "Idle Heartbeat"}, False, False),
        ({"Status": "404", "Description": "No Messages"}, True, False),
        ({"Status": "408", "Description": "Request Timeout"}, True, False),
        ({"Status": "409", "Description": "Consumer Deleted"}, True, True),
        ({"Status": "409", "Description": "Exceeded MaxWaiting"}, True, False),
        ({"Status": "503"}, True, True),
    ],
)
def test_how_a_pull_ended_is_told_by_its_status(headers: dict[str, str], ended: bool, missing: bool) -> None:
    async def whole() -> None:
        pulls = Pulls()
        word, pull = pulls.begin(QUEUE, 1)
        await pulls.on_message(told(f"_INBOX.abc.{word}", headers=headers))
        await pulls.on_message(told("_INBOX.abc.99", headers=headers))
        assert (pull.ended, pull.missing) == (ended, missing)
        await wait_for(pull, 0.0)

    asyncio.run(whole())


def test_a_publisher_cannot_end_a_pull_by_a_header() -> None:
    async def whole() -> None:
        pulls = Pulls()
        _, pull = pulls.begin(QUEUE, 1)
        await pulls.on_message(stored(data=b"", headers={"Status": "404"}))
        assert pull.is_full
        assert not pull.ended

    asyncio.run(whole())


def test_all_pulls_end_with_the_connection() -> None:
    async def whole() -> None:
        pulls = Pulls()
        _, pull = pulls.begin(QUEUE, 1)
        waiting = asyncio.create_task(wait_for(pull, 60.0))
        await asyncio.sleep(0)
        pulls.fail_all()
        await asyncio.wait_for(waiting, 1.0)
        assert pull.ended

    asyncio.run(whole())


class Server:
    """A JetStream as far as its counters go; it counts what it is asked."""

    def __init__(self, consumers: Mapping[str, dict[str, Any]], counts: Mapping[str, int]) -> None:
        self.consumers = dict(consumers)
        self.counts = dict(counts)
        self.asked: list[str] = []

        self.empty = False
        """It came back without its files."""

    async def api(self, subject: str, body: Any, kind: Any) -> Any:
        self.asked.append(subject)
        if self.empty:
            raise ApiRefused("stream not found", STREAM_NOT_FOUND)
        words = subject.split(".")
        answer: dict[str, Any]
        if subject.startswith("STREAM.INFO"):
            answer = {"total": len(self.counts), "state": {"subjects": self.counts if not body["offset"] else None}}
        elif subject.startswith("CONSUMER.LIST"):
            page = sorted(self.consumers)[body["offset"] : body["offset"] + PAGE]
            answer = {"total": len(self.consumers), "consumers": [self.consumers[name] for name in page]}
        else:
            queue = words[-1].replace("_", ".")
            if queue not in self.consumers:
                raise ApiRefused("no consumer", CONSUMER_NOT_FOUND)
            answer = self.consumers[queue]
        return msgspec.json.decode(msgspec.json.encode(answer), type=kind)


def consumer(queue: str, delivered: int = 0, ack_pending: int = 0, pending: int = 0) -> dict[str, Any]:
    return {
        "config": {"filter_subject": queue},
        "delivered": {"consumer_seq": delivered},
        "num_ack_pending": ack_pending,
        "num_pending": pending,
    }


def reader(server: Server) -> LagReader:
    return LagReader(server, ("act.",))  # type: ignore[arg-type]  # as far as its counters go


def test_two_reads_tell_all_queues_of_a_few() -> None:
    queues = [f"act.media.q{number}.256" for number in range(200)]
    server = Server({queue: consumer(queue, 7, 2, 3) for queue in queues}, dict.fromkeys(queues[:50], 5))
    lags = asyncio.run(reader(server).read())
    assert len(server.asked) == 2
    busy, idle = lags[queues[0]], lags[queues[199]]
    assert (busy.backlog, busy.in_flight, busy.delivered_total, busy.published_total) == (3, 2, 7, 10)
    assert (idle.backlog, idle.in_flight) == (0, 0)  # it was acked between the two reads


def test_of_many_queues_a_bounded_number_is_asked_for_one_by_one_and_all_in_turn() -> None:
    queues = [f"act.media.q{number:04}.256" for number in range(1000)]
    server = Server({queue: consumer(queue, 9, 4, 1) for queue in queues}, dict.fromkeys(queues, 5))

    async def whole() -> None:
        lag = reader(server)
        first = await lag.read()
        assert len(server.asked) == 2 + READS
        assert first[queues[999]].delivered_total is None
        assert first[queues[999]].backlog == 5  # not read yet: all of it waits
        for _ in range(3):
            last = await lag.read()
        assert {found.in_flight for found in last.values()} == {4}

    asyncio.run(whole())


def test_what_was_in_flight_is_never_more_than_what_is_there_and_does_not_come_back() -> None:
    queues = [f"act.media.q{number:04}.256" for number in range(2 * PAGE + 2 * READS)]
    server = Server({queue: consumer(queue, 9, 4, 1) for queue in queues}, {})

    async def whole() -> None:
        lag = reader(server)
        for _ in range(3):
            await lag.read()
        queue = queues[0]
        server.counts = dict.fromkeys(queues, 1)
        assert (await lag.read())[queue].in_flight <= 1
        server.counts = dict.fromkeys(queues, 9)
        server.consumers[queue] = consumer(queue, 12, 2, 7)
        for _ in range(4):
            found = (await lag.read())[queue]
        assert (found.backlog, found.in_flight, found.delivered_total) == (7, 2, 12)

    asyncio.run(whole())


def test_a_queue_without_a_consumer_waits_whole_and_a_prefix_tells_its_own() -> None:
    server = Server({}, {"act.web.mail.128": 3, QUEUE: 2})

    async def whole() -> None:
        lag = reader(server)
        lag.know("act.media.idle.64")
        found = await lag.read("act.media.")
        assert {queue: (value.backlog, value.in_flight) for queue, value in found.items()} == {
            QUEUE: (2, 0),
            "act.media.idle.64": (0, 0),
        }
        lag.forget("act.media.idle.64")
        assert "act.media.idle.64" not in await lag.read()

    asyncio.run(whole())


def test_names_that_somebody_has_only_published_to_are_forgotten_once_they_are_empty() -> None:
    names = [f"act.media.thumbnail.junk{number}" for number in range(500)]
    server = Server({QUEUE: consumer(QUEUE)}, dict.fromkeys(names, 1))

    async def whole() -> None:
        lag = reader(server)
        lag.know("act.media.idle.64")
        assert len(await lag.read()) == 502
        server.counts = {names[0]: 1}
        assert set(await lag.read("act.web.")) == set()
        assert set(await lag.read()) == {QUEUE, "act.media.idle.64", names[0]}

    asyncio.run(whole())


def test_of_a_server_that_came_back_empty_no_queue_is_told_of_until_it_is_made_again() -> None:
    server = Server({QUEUE: consumer(QUEUE, 7, 2, 3)}, {QUEUE: 5})

    async def whole() -> None:
        lag = reader(server)
        assert set(await lag.read()) == {QUEUE}
        server.empty = True
        assert not await lag.read()
        server.empty, server.consumers, server.counts = False, {}, {}
        assert not await lag.read()
        lag.know(QUEUE)
        assert set(await lag.read()) == {QUEUE}

    asyncio.run(whole())


def test_reports_that_nobody_reads_push_out_the_oldest_and_long_ones_are_dropped() -> None:
    async def whole() -> None:
        buffer = ReportBuffer(most=3)
        for number in range(5):
            buffer.put(QUEUE, f"{number}".encode())
        buffer.put(QUEUE, b"x" * 5000)
        buffer.close()
        assert [report.body async for report in buffer] == [b"2", b"3", b"4"]
        assert buffer.dropped == 3

    asyncio.run(whole())


class HalfSilent(Server):
    """A server with a stream a namespace; that of `a` has lost its quorum, and answers nothing."""

    silent = "ACT_a"

    async def api(self, subject: str, body: Any, kind: Any) -> Any:
        stream = subject.split(".")[2]
        if stream == self.silent:
            self.asked.append(subject)
            raise BrokerUnreachable("nats: timeout")
        return await Server(
            {name: found for name, found in self.consumers.items() if stream == f"ACT_{name.split('.')[1]}"},
            {name: count for name, count in self.counts.items() if stream == f"ACT_{name.split('.')[1]}"},
        ).api(subject, body, kind)


def test_a_stream_that_does_not_answer_is_that_stream_s_failure_alone() -> None:
    clock, ours, theirs = [0.0], "act.a.work.64", "act.b.work.64"
    server = HalfSilent({ours: consumer(ours, 1, 0, 5), theirs: consumer(theirs, 1, 0, 5)}, {ours: 5, theirs: 5})
    lag = LagReader(server, ("act.a.", "act.b."), lambda: clock[0])  # type: ignore[arg-type]  # its counters

    async def whole() -> None:
        lag.know(ours)
        lags = await lag.read()
        assert (lags[theirs].backlog, lags[theirs].problem) == (5, None)
        assert lags[ours].problem == "nats: timeout"
        asked = len(server.asked)
        await lag.read()
        assert len(server.asked) == asked, "it is not asked at each read"
        server.silent, clock[0] = "", SILENT_SECONDS
        lags = await lag.read()
        assert (lags[ours].backlog, lags[ours].problem) == (5, None)
        alone = LagReader(server, ("act.a.",), lambda: clock[0])  # type: ignore[arg-type]  # its counters
        server.silent = "ACT_a"
        with pytest.raises(BrokerUnreachable):
            await alone.read()
        server.silent = ""
        assert (await alone.read())[ours].backlog == 5, "where nothing answers the server is asked at each read"

    asyncio.run(whole())


class Refusing(Server):
    """A server whose streams have a leader, except one; consumers of `broken` have lost theirs."""

    def __init__(self, consumers: Mapping[str, dict[str, Any]], counts: Mapping[str, int], broken: str) -> None:
        super().__init__(consumers, counts)
        self.broken = broken

    async def api(self, subject: str, body: Any, kind: Any) -> Any:
        if self.broken in subject:
            raise ApiRefused("JetStream system temporarily unavailable", 10008)
        return await super().api(subject, body, kind)


def test_a_stream_that_is_refused_is_that_stream_s_failure_alone() -> None:
    ours, theirs = "act.a.work.64", "act.b.work.64"
    server = Refusing({theirs: consumer(theirs, 1, 0, 5)}, {theirs: 5}, "ACT_a")
    lag = LagReader(server, ("act.a.", "act.b."))  # type: ignore[arg-type]  # its counters

    async def whole() -> None:
        lag.know(ours)
        lags = await lag.read()
        assert (lags[theirs].backlog, lags[theirs].problem) == (5, None)
        assert lags[ours].problem == "JetStream system temporarily unavailable"
        alone = LagReader(server, ("act.a.",))  # type: ignore[arg-type]  # its counters
        with pytest.raises(BrokerUnreachable, match="temporarily unavailable"):
            await alone.read()

    asyncio.run(whole())


def test_a_consumer_that_is_refused_stops_no_other_queue() -> None:
    queues = [f"act.media.work-{number}.64" for number in range(PAGE + 2)]
    server = Refusing({name: consumer(name, 1, 1, 4) for name in queues}, dict.fromkeys(queues, 5), "CONSUMER.INFO")
    lag = LagReader(server, ("act.",))  # type: ignore[arg-type]  # its counters
    lags = asyncio.run(lag.read())
    assert len(lags) == PAGE + 2
    assert sum(found.in_flight == 1 for found in lags.values()) == PAGE, "those of the page are exact"
    assert all(found.backlog + found.in_flight == 5 for found in lags.values())


def test_consumers_of_pools_that_are_gone_are_forgotten_once_the_server_has_none() -> None:
    queues = [f"act.media.pr-{number}.256" for number in range(100)]
    server = Server({queue: consumer(queue) for queue in queues}, {})

    async def whole() -> None:
        lag = reader(server)
        lag.know(queues[0])
        assert len(await lag.read()) == 100
        server.consumers = {queues[0]: consumer(queues[0])}  # the others were not pulled from for an hour
        for _ in range(3):
            lags = await lag.read()
        assert list(lags) == [queues[0]]
        lag.forget(queues[0])
        server.consumers = {}
        for _ in range(3):
            lags = await lag.read()
        assert not lags
        assert not lag._known

    asyncio.run(whole())
