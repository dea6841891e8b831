"""What Redis' streams look like once others than the broker have trimmed, deleted, acked or torn down in them.

The figures of a queue must be those of a model that knows what happened to each entry, whatever XINFO says.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from e2e.harness.brokers.servers import RedisServer
from slack.demand.broker import Duration, MessageCount, QueueSettings
from slack_operator.demand.brokers.opening import open_message_queue
from slack_operator.demand.brokers.redis import RedisBroker

QUEUE = "act.media.thumbnail.256"
GROUP = "pool"
WAIT = QueueSettings(name=QUEUE, ack_wait_seconds=Duration(60.0))
Commands = list[tuple[str, int]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    reason = RedisServer.missing()
    if reason:
        pytest.skip(reason)
    with RedisServer(tmp_path_factory.mktemp("redis")) as started:
        yield started


@asynccontextmanager
async def opened(server: RedisServer) -> AsyncIterator[RedisBroker]:
    broker = await open_message_queue(server.url)
    assert isinstance(broker, RedisBroker)
    try:
        await raw(broker).flushall()
        await broker.ensure(WAIT)
        yield broker
    finally:
        await broker.close()


def on(server: RedisServer, test: Callable[[RedisBroker], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        async with opened(server) as broker:
            await test(broker)

    asyncio.run(whole())


def raw(broker: RedisBroker) -> Any:
    """Return its client, for what others do: the library's types are of two versions of its protocol at once."""
    return broker.client


async def counts(broker: RedisBroker) -> tuple[int, int]:
    lag = (await broker.lag())[QUEUE]
    return lag.backlog, lag.in_flight


async def added(broker: RedisBroker, *ids: str) -> None:
    for entry in ids:
        await raw(broker).xadd(QUEUE, {"body": b"x"}, id=entry)


async def read(broker: RedisBroker, count: int, consumer: str = "worker") -> list[str]:
    found = await raw(broker).xreadgroup(GROUP, consumer, {QUEUE: ">"}, count=count)
    return [entry.decode() for entry, _ in found[0][1]] if found else []


def test_after_a_trim_nothing_waits_once_all_is_read(server: RedisServer) -> None:
    """redis 13957: XINFO's lag says 3 then."""

    async def test(broker: RedisBroker) -> None:
        await added(broker, "1-0", "2-0", "3-0", "4-0", "5-0")
        await read(broker, 1)
        await raw(broker).xtrim(QUEUE, maxlen=1, approximate=False)
        assert await counts(broker) == (1, 0)
        assert await read(broker, 1) == ["5-0"]
        assert await counts(broker) == (0, 1)

    on(server, test)


def test_entries_in_flight_that_were_trimmed_hide_none_that_wait(server: RedisServer) -> None:
    """redis 10756: XPENDING keeps them. Ten of these, and five messages would be five that run and none that waits."""

    async def test(broker: RedisBroker) -> None:
        await added(broker, *(f"{number}-0" for number in range(1, 11)))
        await read(broker, 10)
        await raw(broker).xtrim(QUEUE, maxlen=0)
        await added(broker, *(f"{number}-0" for number in range(11, 16)))
        assert await counts(broker) == (5, 0)

    on(server, test)


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_what_is_dropped_is_in_flight_no_more(server: RedisServer, seconds: float) -> None:
    async def test(broker: RedisBroker) -> None:
        await added(broker, *(f"{number}-0" for number in range(1, 1501)))
        await read(broker, 1400)
        assert await broker.drop(QUEUE, Duration(seconds)) == 1500
        pending = await raw(broker).xpending(QUEUE, GROUP)
        assert pending["pending"] == 0
        await broker.publish(QUEUE, b"new")
        assert await counts(broker) == (1, 0)

    on(server, test)


def test_entries_in_flight_that_were_deleted_hide_none_that_wait(server: RedisServer) -> None:
    async def test(broker: RedisBroker) -> None:
        await added(broker, *(f"{number}-0" for number in range(1, 7)))
        await read(broker, 4)
        await raw(broker).xdel(QUEUE, "2-0", "3-0")
        assert await counts(broker) == (2, 2)

    on(server, test)


@pytest.mark.parametrize("how", ["XACK alone", "XGROUP DELCONSUMER"])
def test_entries_that_nobody_will_get_wait_for_nobody(server: RedisServer, how: str) -> None:
    """redis 9745: a worker that deletes its consumer as it ends leaves what it had to nobody."""

    async def test(broker: RedisBroker) -> None:
        await added(broker, *(f"{number}-0" for number in range(1, 6)))
        taken = await read(broker, 3)
        if how == "XACK alone":
            await raw(broker).xack(QUEUE, GROUP, *taken)
        else:
            await raw(broker).xgroup_delconsumer(QUEUE, GROUP, "worker")
        assert await counts(broker) == (2, 0)
        await read(broker, 2)
        assert await counts(broker) == (0, 2)

    on(server, test)


def test_a_group_that_somebody_destroyed_is_there_again(server: RedisServer) -> None:
    """keda 7447: without its group a stream tells no figures; and workers of one's own do not make one."""

    async def test(broker: RedisBroker) -> None:
        await added(broker, "1-0", "2-0")
        await read(broker, 1)
        await raw(broker).xgroup_destroy(QUEUE, GROUP)
        assert await counts(broker) == (2, 0)
        assert await read(broker, 5) == ["1-0", "2-0"]

    on(server, test)


def test_a_group_that_a_worker_made_at_the_end_of_a_stream_waits_for_what_comes_after(server: RedisServer) -> None:
    async def test(broker: RedisBroker) -> None:
        await raw(broker).delete(QUEUE)
        await added(broker, "1-0", "2-0", "3-0")
        await raw(broker).xgroup_create(QUEUE, GROUP, "$", mkstream=True)
        assert await counts(broker) == (0, 0)
        await added(broker, "4-0")
        assert await counts(broker) == (1, 0)
        assert await read(broker, 5) == ["4-0"]

    on(server, test)


def test_one_message_alone_waits(server: RedisServer) -> None:
    """keda 6478, 7835: a single message must start a container."""

    async def test(broker: RedisBroker) -> None:
        assert await counts(broker) == (0, 0)
        await broker.publish(QUEUE, b"x")
        assert await counts(broker) == (1, 0)

    on(server, test)


def test_what_was_published_never_falls_while_publishers_trim(server: RedisServer) -> None:
    """Rates and the age of a queue are of its totals; totals that fall are another queue's."""

    async def test(broker: RedisBroker) -> None:
        totals = []
        for number in range(1, 200):
            await raw(broker).xadd(QUEUE, {"body": b"x"}, id=f"{number}-0", maxlen=20, approximate=False)
            if number % 7 == 0:
                await read(broker, 2)
            if number % 31 == 0:
                await raw(broker).xtrim(QUEUE, maxlen=3, approximate=False)
            lag = (await broker.lag())[QUEUE]
            assert lag.published_total is not None
            totals.append(lag.published_total)
        assert totals == sorted(totals)

    on(server, test)


@dataclass
class Model:
    """What happened to each entry of a stream with one group."""

    stream: list[int] = field(default_factory=list)
    """Numbers of the entries that are there."""
    in_flight: dict[int, str] = field(default_factory=dict)
    """Whose entries that were delivered and not acked are, whether they are there or not."""
    last: int = 0
    """The newest that was delivered."""
    added: int = 0
    acked_alone: bool = False
    """Whether some were acked and not deleted, or lost with their consumer."""

    @property
    def waiting(self) -> int:
        return sum(number > self.last for number in self.stream)

    @property
    def running(self) -> int:
        return sum(number in self.in_flight for number in self.stream)


async def _do(broker: RedisBroker, model: Model, command: str, number: int) -> None:
    client = raw(broker)
    if command == "XADD":
        for _ in range(number % 4 + 1):
            model.added += 1
            model.stream.append(model.added)
            await added(broker, f"{model.added}-0")
    elif command == "XREADGROUP":
        consumer, wanted = f"w{number % 3}", number % 5 + 1
        taken = [entry for entry in model.stream if entry > model.last][:wanted]
        assert await read(broker, wanted, consumer) == [f"{entry}-0" for entry in taken]
        model.last = max([model.last, *taken])
        model.in_flight |= dict.fromkeys(taken, consumer)
    elif command in ("XACK", "XACK XDEL") and model.in_flight:
        entry = sorted(model.in_flight)[number % len(model.in_flight)]
        model.in_flight.pop(entry)
        await client.xack(QUEUE, GROUP, f"{entry}-0")
        if command == "XACK":
            model.acked_alone = True
        elif entry in model.stream:
            model.stream.remove(entry)
            await client.xdel(QUEUE, f"{entry}-0")
    elif command == "XDEL" and model.stream:
        entry = model.stream.pop(number % len(model.stream))
        await client.xdel(QUEUE, f"{entry}-0")
    elif command == "XTRIM":
        kept = number % 8
        model.stream = model.stream[len(model.stream) - min(kept, len(model.stream)) :]
        await client.xtrim(QUEUE, maxlen=kept, approximate=False)
    elif command == "DELCONSUMER":
        gone = f"w{number % 3}"
        model.acked_alone = model.acked_alone or gone in model.in_flight.values()
        model.in_flight = {entry: consumer for entry, consumer in model.in_flight.items() if consumer != gone}
        await client.xgroup_delconsumer(QUEUE, GROUP, gone)


USUAL = ("XADD", "XADD", "XREADGROUP", "XREADGROUP", "XACK XDEL", "XDEL", "XTRIM")
ANY = (*USUAL, "XACK", "DELCONSUMER")


def commands(names: tuple[str, ...]) -> st.SearchStrategy[Commands]:
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 40)), max_size=40)


LIMITS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@LIMITS
@given(commands(USUAL))
def test_the_figures_are_those_of_a_model_whatever_is_trimmed_and_deleted(server: RedisServer, done: Commands) -> None:
    async def test(broker: RedisBroker) -> None:
        model = Model()
        for command, number in done:
            await _do(broker, model, command, number)
            assert await counts(broker) == (model.waiting, model.running), (command, number)

    on(server, test)


@LIMITS
@given(commands(ANY))
def test_what_waits_is_never_missed_and_all_is_exact_once_nothing_is_in_flight(
    server: RedisServer, done: Commands
) -> None:
    """Entries that nobody will get may count as waiting while an older one is in flight, and not for longer, unless
    entries that nobody had read were taken away too."""

    async def test(broker: RedisBroker) -> None:
        model = Model()
        trimmed_unread = False
        for command, number in done:
            unread = model.waiting
            await _do(broker, model, command, number)
            trimmed_unread = trimmed_unread or (command in ("XDEL", "XTRIM") and model.waiting < unread)
            backlog, in_flight = await counts(broker)
            assert in_flight == model.running
            assert backlog >= model.waiting, (command, number)
            assert backlog == model.waiting or model.acked_alone
        for entry in sorted(model.in_flight):
            await raw(broker).xack(QUEUE, GROUP, f"{entry}-0")
            await raw(broker).xdel(QUEUE, f"{entry}-0")
        backlog, in_flight = await counts(broker)
        assert in_flight == 0
        assert backlog == model.waiting or trimmed_unread

    on(server, test)


def test_a_message_that_a_pull_gets_is_counted_once_whatever_was_left_behind(server: RedisServer) -> None:
    async def test(broker: RedisBroker) -> None:
        await added(broker, *(f"{number}-0" for number in range(1, 9)))
        await read(broker, 4, "gone")
        await raw(broker).xdel(QUEUE, "1-0", "2-0")
        found = await broker.pull(QUEUE, MessageCount(10), Duration(1.0))
        assert [message.id for message in found] == ["5-0", "6-0", "7-0", "8-0"]
        assert await counts(broker) == (0, 6)
        for message in found:
            await broker.ack(message)
        assert await counts(broker) == (0, 2)

    on(server, test)


def test_an_installation_finds_the_queues_that_it_made_and_no_others(server: RedisServer) -> None:
    """An earlier leader made them; another installation uses the same server."""
    gone, kept, foreign = (f"act.media.{name}.256" for name in ("gone", "kept", "foreign"))

    async def test(broker: RedisBroker) -> None:
        other = await open_message_queue(server.url)
        later = await open_message_queue(server.url)
        try:
            assert not await broker.adopt("ours")
            assert not await other.adopt("theirs")
            for name in (gone, kept):
                await broker.ensure(QueueSettings(name=name))
            await other.ensure(QueueSettings(name=foreign))
            await broker.publish(kept, b"waits")
            await raw(broker).sadd("act:made:ours", "no queue", "act.*")
            assert set(await later.adopt("ours")) == {QUEUE, gone, kept}
            for name in (gone, kept):
                await later.forget(name)
            assert set(await later.lag()) == {QUEUE, kept, foreign}, "what holds a message stays"
            assert not await raw(broker).exists(gone)
            assert set(await later.adopt("ours")) == {QUEUE, kept}
        finally:
            await other.close()
            await later.close()

    on(server, test)


@pytest.mark.parametrize("rights", ["~act.*|~act:queues", "~act*"])
def test_a_user_without_the_right_to_the_set_makes_and_forgets_queues_all_the_same(
    server: RedisServer, rights: str
) -> None:
    """Also if something else has the name of the set."""

    async def test(broker: RedisBroker) -> None:
        await raw(broker).set("act:made:ours", "no set")
        await raw(broker).execute_command(
            "ACL", "SETUSER", "controller", "reset", "on", "nopass", "+@all", "&*", *rights.split("|")
        )
        user = await open_message_queue(server.url)
        assert isinstance(user, RedisBroker)
        try:
            await raw(user).execute_command("AUTH", "controller", "any")
            assert not await user.adopt("ours")
            await user.ensure(QueueSettings(name="act.media.other.256"))
            assert "act.media.other.256" in await user.lag()
            await user.forget("act.media.other.256")
            assert not await raw(broker).exists("act.media.other.256")
        finally:
            await user.close()

    on(server, test)
