"""The pool reporter's turn: quotas are counted by namespace, and all pools are looked at once."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from benchmarks.demand.reporting import POOLS_A_NAMESPACE, UnsentWrites, books, turn
from slack.demand.model import AdmissionVerdict, PoolSettings, Refusal
from slack.demand.tick import TickResult
from slack.kube.events import EventRecorder
from slack_operator.demand.loop import TickReport
from slack_operator.demand.pool_registry import DesiredPools, PoolRegistry
from slack_operator.demand.pool_reporter import PoolReporter
from slack_operator.demand.tick_state import TickState

POOLS = 300


class Statuses(UnsentWrites):
    """Keeps what was written, by path."""

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[str, Mapping[str, Any]] = {}

    def apply(self, path: str, manifest: Mapping[str, Any], *, force: bool = False) -> dict[str, Any]:
        self.written[path] = manifest["status"]
        return {}


class CountedReads(tuple[PoolSettings, ...]):
    """Pools that count how often they are read from the beginning."""

    reads = 0

    def __iter__(self) -> Iterator[PoolSettings]:
        CountedReads.reads += 1
        return super().__iter__()


class CountedBooks(PoolRegistry):
    """Books whose pools count their reads."""

    def now(self) -> DesiredPools:
        book = super().now()
        return replace(book, wanted=replace(book.wanted, pools=CountedReads(book.wanted.pools)))


def reporter(kept: PoolRegistry, shown: TickReport, writer: UnsentWrites) -> PoolReporter:
    board = TickState()
    board.turn = shown
    return PoolReporter(
        books=kept,
        board=board,
        writer=writer,
        recorder=EventRecorder(writer, component="test"),
        may_write=lambda: True,
    )


def test_work_does_not_grow_by_pools_times_quotas() -> None:
    kept = books(POOLS, CountedBooks)
    shown = turn(tuple(kept.wanted().pools))
    CountedReads.reads = 0
    reporter(kept, shown, UnsentWrites()).write_due()
    assert CountedReads.reads == 1, f"there are {POOLS // POOLS_A_NAMESPACE} quotas"


def test_a_quotas_status_counts_what_is_of_its_namespace() -> None:
    kept, writer = books(2 * POOLS_A_NAMESPACE), Statuses()
    shown = turn(kept.wanted().pools)
    refused = AdmissionVerdict(reject=True, reason=Refusal.QUEUE_FULL)
    first = [pool.key for pool in kept.wanted().pools if pool.key.namespace == "n0"][:2]
    reporter(kept, replace(shown, result=TickResult(verdicts=dict.fromkeys(first, refused))), writer).write_due()
    quotas = {path.split("/namespaces/")[1][:2]: status for path, status in writer.written.items() if "quota" in path}
    assert {name: (found["pools"], found["throttled"]) for name, found in quotas.items()} == {
        "n0": (3, 2),
        "n1": (3, 0),
    }
    assert [found["used"]["containers"] for found in quotas.values()] == [3, 3]
