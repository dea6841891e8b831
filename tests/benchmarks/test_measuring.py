"""What measures: clients that wait for their messages, and the old scheduler's routing."""

import asyncio
from collections.abc import Sequence

from benchmarks.demand.measuring.endpoint import Endpoint
from benchmarks.demand.measuring.load import Clients, at
from benchmarks.demand.measuring.old_side import OldSide
from slack.demand.broker import PulledMessage
from slack.demand.model import Creation, Ending, PoolContainer
from slack_operator.demand.proxy.loopback import LoopbackRunner
from slack_operator.demand.proxy.runner import DONE
from tests.operator.demand.memory_broker import MemoryBroker


class Recorded:
    """Containers that are only written down."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.gone: list[str] = []

    def seen(self) -> Sequence[PoolContainer]:
        return ()

    def create(self, creations: Sequence[Creation]) -> None:
        self.made += [f"{creation.node_hint} {creation.key.action}" for creation in creations]

    def end(self, endings: Sequence[Ending]) -> None:
        self.gone += [ending.key.action for ending in endings]


def test_the_old_rules_choose_a_container_for_each_message() -> None:
    async def whole() -> None:
        broker, containers = MemoryBroker(), Recorded()
        side = OldSide(broker, containers, namespace="b", nodes=1, slots=2, ack_wait_seconds=1, seed=1)
        await side.publish(0, b"1")
        side.ended(b"1")
        await side.publish(0, b"2")  # its container is free
        assert containers.made == ["node-0 a0"]
        await side.publish(1, b"3")
        side.ended(b"2")
        await side.publish(2, b"4")  # no room: in place of the one that is free for longest
        assert (containers.made, containers.gone) == (["node-0 a0", "node-0 a1", "node-0 a2"], ["a0"])
        await side.publish(3, b"5")  # none is free: it waits
        assert side.started == 3
        side.ended(b"3")
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert containers.made[-1] == "node-0 a3"
        assert containers.gone == ["a0", "a1"]
        await side.stop()

    asyncio.run(whole())


def test_clients_wait_for_their_message_and_the_first_seconds_do_not_count() -> None:
    class Instant:
        started = 7

        def __init__(self, clients: Clients) -> None:
            self._clients = clients

        async def start(self) -> None: ...

        async def publish(self, action: int, body: bytes) -> None:
            assert 0 <= action < 3
            loop = asyncio.get_running_loop()
            loop.call_later(0.002, self._clients.began, body)
            loop.call_later(0.004, self._clients.ended, body)

        def ended(self, body: bytes) -> None: ...

        async def stop(self) -> None: ...

    clients = Clients(3, 2, seed=1)
    told: list[int] = []
    found = asyncio.run(clients.run(Instant(clients), 0.5, 0.25, lambda _, messages: told.append(messages)))
    assert 4 <= found.p50_ms < 100
    assert 2 <= found.start_p50_ms < found.p50_ms
    assert found.containers == 7
    assert found.per_second == found.messages / 0.25
    assert told[0] == 0


def test_the_endpoint_runs_a_message_for_its_time_and_tells() -> None:
    async def whole() -> None:
        told: list[tuple[str, bytes]] = []
        endpoint = Endpoint(0.01, lambda body: told.append(("began", body)), lambda body: told.append(("ended", body)))
        await endpoint.start()
        runner = LoopbackRunner(endpoint.url)
        await runner.start()
        for body in (b"1", b""):
            assert await runner.run(PulledMessage(queue="act.a.b.1", id="1", body=body)) == DONE
        assert told == [("began", b"1"), ("ended", b"1"), ("began", b""), ("ended", b"")]
        await runner.close()
        endpoint.close()
        await asyncio.sleep(0.02)

    asyncio.run(whole())


def test_a_share_of_nothing_is_nothing() -> None:
    assert at([], 0.99) == 0.0
    assert at([1.0, 2.0, 3.0], 0.99) == 3.0
