"""What the benchmark of pods a second makes of bindings."""

from benchmarks.scoring.throughput import IN_PROCESS, OURS, STOCK, pods_a_second, rows


def test_neither_the_start_nor_stragglers_count_for_the_pace() -> None:
    steady = [number / 100 for number in range(1000)]
    late = [-50.0, *steady[1:-1], 500.0]
    assert round(pods_a_second(steady)) == round(pods_a_second(late)) == 100


def test_each_side_is_beside_stock_and_the_plugin() -> None:
    found = {row["scheduler"]: row for row in rows({STOCK: [100.0], OURS: [80.0, 90.0, 70.0], IN_PROCESS: [160.0]})}
    ours = found[OURS]
    assert (ours["of stock ratio"], ours["of the plugin ratio"], ours["added us"]) == (0.8, 0.5, 2500.0)
    assert found[STOCK]["wanted ratio"] is None
