"""The way of one pod event stays as straight as it was made."""

from itertools import groupby
from statistics import mean

from benchmarks.event_path import Stay, returns, ways
from benchmarks.events import listed
from benchmarks.generator import scaled, watch_lines


def test_a_return_is_a_stay_in_a_module_where_the_event_has_been() -> None:
    assert returns([Stay(module, ()) for module in "abacab"]) == 3


def test_an_event_comes_back_to_few_modules() -> None:
    view, sink = listed(scaled(0.005))
    found = ways(view, sink, list(watch_lines(scaled(0.005), events=400)))
    for _, way in found:
        assert way[0].module == "slack.kube.watch"
        assert len(list(groupby(way, key=lambda stay: stay.module))) == len(way)
    # Each event asks whether its pod is gated, which `slack.cluster.wire` alone decides; a new kind has the labels that
    # its own terms select, which `slack.cluster.selectors` knows, and its quantities, which `slack.cluster.quantity`
    # reads, also those that only a file can have. Labels of a pod that comes or goes are in
    # `slack.cluster.tables.label_sets`. Of a pod between its node and Ready, `ready_starts` reads how far it has come.
    assert mean(len(way) for _, way in found) < 17.3
    assert mean(returns(way) for _, way in found) < 6.3
