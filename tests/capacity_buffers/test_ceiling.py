"""The bound on all buffers together: how it is read, and who gets how much of it."""

from typing import Any

import pytest

from slack.capacity_buffers.ceiling import (
    NO_CEILING,
    BufferCeiling,
    CeilingLedger,
    ChunkPrices,
    InvalidCeiling,
    chunk_prices,
    parse_ceiling,
)
from slack.cluster.labels import INSTANCE_TYPE
from slack.cluster.node_prices import NO_PRICES, parse_prices
from tests.cases import run_for_each
from tests.cluster.build import node
from tests.planner.scenes import snapshot_of

CHUNK = {"cpu": 500, "memory": (1 << 30) * 1000}


@run_for_each(
    ("document", "ceiling"),
    [
        ({}, NO_CEILING),
        ({"cpu": "200"}, BufferCeiling(cpu=200_000)),
        ({"cpu": 1.5}, BufferCeiling(cpu=1500)),
        ('{"memory": "1Ki"}', BufferCeiling(memory=1_024_000)),
        ({"cpu": "", "perHour": "2.5"}, BufferCeiling(per_hour=2.5)),
        ({"cpu": "0", "namespaceShare": 0.25}, BufferCeiling(cpu=0, namespace_share=0.25)),
    ],
)
def test_a_ceiling_is_read(document: Any, ceiling: BufferCeiling) -> None:
    assert parse_ceiling(document) == ceiling


@run_for_each(
    ("document", "complaint"),
    [
        ("cpu=2", "expected JSON such as"),
        ([], "expected a mapping such as"),
        ({"cores": 2}, "cores: unknown field"),
        ({"cpu": "two"}, "cpu: expected a quantity such as 200"),
        ({"cpu": True}, "cpu: expected a quantity"),
        ({"memory": "-1Gi"}, "memory: expected a quantity from 0"),
        ({"perHour": "much"}, "perHour: expected a number"),
        ({"cpu": 1, "namespaceShare": 25}, "namespaceShare: expected a number from 0 to 1"),
        ({"namespaceShare": 0.5}, "namespaceShare: it is a share of cpu, memory or perHour"),
    ],
)
def test_a_ceiling_that_cannot_be_used_is_refused(document: Any, complaint: str) -> None:
    with pytest.raises(InvalidCeiling, match=complaint):
        parse_ceiling(document)


@run_for_each(
    ("ceiling", "prices", "allowed", "named"),
    [
        (NO_CEILING, ChunkPrices(), 50, ()),
        (BufferCeiling(cpu=2000), ChunkPrices(), 4, ("cpu",)),
        (BufferCeiling(cpu=0), ChunkPrices(), 0, ("cpu",)),
        (BufferCeiling(cpu=2000, memory=3 * (1 << 30) * 1000), ChunkPrices(), 3, ("cpu", "memory")),
        (BufferCeiling(cpu=8000, namespace_share=0.25), ChunkPrices(), 4, ("cpu", "cpu by namespaceShare")),
        (BufferCeiling(per_hour=0.3), ChunkPrices(0.1, 0.05, is_summed=True, known=True), 3, ("perHour",)),
        (BufferCeiling(per_hour=0.3), ChunkPrices(0.1, 0.05, known=True), 6, ("perHour",)),
        (BufferCeiling(per_hour=0.3), ChunkPrices(), 0, ("perHour (no node has a price)",)),
    ],
)
def test_a_ceiling_allows_what_is_left_of_it(
    ceiling: BufferCeiling, prices: ChunkPrices, allowed: int, named: tuple[str, ...]
) -> None:
    ledger = CeilingLedger(ceiling, prices)

    assert ledger.count_allowed("shop", ledger.bounds_of(CHUNK), 50) == (allowed, named)


def test_a_namespace_gets_its_share_and_the_others_what_is_left() -> None:
    ledger = CeilingLedger(BufferCeiling(cpu=4000, namespace_share=0.5))
    bounds = ledger.bounds_of(CHUNK)
    for namespace, expected in (("a", 4), ("a", 0), ("b", 3), ("c", 1)):
        count, _ = ledger.count_allowed(namespace, bounds, 3 if namespace == "b" else 10)
        assert count == expected, namespace
        ledger.subtract_chunks(namespace, bounds, count)


def test_room_costs_what_the_nodes_of_the_cluster_cost() -> None:
    nodes = [node(f"n{i}", cpu="4", memory="16Gi", labels={INSTANCE_TYPE: "m"}) for i in range(2)]
    snapshot = snapshot_of(*nodes, labels=(INSTANCE_TYPE,))

    by_type = chunk_prices(snapshot, parse_prices({"instanceTypes": {"m": 0.4}}))
    assert by_type.price_of({"cpu": 1000}) == pytest.approx(0.1)
    assert by_type.price_of({"cpu": 1000, "memory": 8 * (1 << 30) * 1000}) == pytest.approx(0.2)
    by_amount = chunk_prices(snapshot, parse_prices({"cpu": 0.03, "memory": 0.01}))
    assert by_amount.price_of(CHUNK) == pytest.approx(0.025)
    assert chunk_prices(snapshot, NO_PRICES).price_of(CHUNK) is None
