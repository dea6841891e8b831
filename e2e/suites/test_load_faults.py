"""Watcher, Prometheus, scorer and API server are killed in turn, and hang: what holds then, and that it passes.

Windows are as short as the Prometheus is old, and a window tells for 20 s, not five minutes: so much has to pass until
allocations decide. How long the scheduler waits for us is read from its own histogram.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from e2e.harness.api import Json
from e2e.harness.cluster.backend import Backend
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.scheduler_metrics import Cycles
from e2e.harness.objects import pod, wait_until
from e2e.harness.processes import Program
from e2e.harness.product.load_chain import NODES, PACKING, LoadChain, explained, knows_load, load_chain
from e2e.harness.product.load_watcher import LoadWatcher
from e2e.harness.product.scorer import DEFAULT_MS, Scorer
from slack.loadwatcher.payload import MetricType, Rollup

AGE = {"max-age": "20s", "without-load": "Pack"}
LATE_SECONDS = 1.024
"""A bound of the scheduler's histogram: five times httpTimeout, a fifth of what it would wait by default."""
QUICK_CPU = (
    "--cpu-query=sum by (instance) (rate(node_cpu_seconds_total{mode='user'}[10s])) "
    "/ sum by (instance) (rate(node_cpu_seconds_total[10s])) "
    "* on (instance) group_left (nodename) max by (instance, nodename) (node_uname_info)"
)
"""Shares of the last ten seconds, not of two minutes."""


@pytest.fixture(scope="module")
def state_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state") / "load.sqlite"


@pytest.fixture(scope="module")
def chain(backend: Backend, tmp_path_factory: pytest.TempPathFactory, state_file: Path) -> Iterator[LoadChain]:
    if not isinstance(backend, ControlPlane):
        pytest.skip("exporters, Prometheus and the scheduler's configuration are on this machine")
    folder = tmp_path_factory.mktemp("faults")
    with load_chain(backend, folder, f"--state-file={state_file}") as found:
        yield found


@contextmanager
def stopped(program: Program) -> Iterator[None]:
    """A process that is there and answers nobody."""
    os.kill(program.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(program.pid, signal.SIGCONT)


def falls_back(scorer: Scorer, so: bool) -> bool:
    return scorer.metric("slack_scorer_falling_back") == float(so)


def large(name: str) -> Json:
    """A pod that is there already and requests most of its node."""
    return pod("large", cpu="3", nodeName=name)


def test_without_prometheus_scores_stand_until_they_are_stale_then_allocations_decide(chain: LoadChain) -> None:
    with chain.scoring(PACKING, [large("hot")], settings=AGE) as scorer:
        asked = pod("asked")
        before = scorer.prioritize(asked, list(NODES))
        chain.prometheus.kill()
        assert scorer.prioritize(asked, list(NODES)) == before
        wait_until(partial(falls_back, scorer, True), 60, "the fall-back")
        assert chain.place("meanwhile") == "hot", "the fullest that has room"
        told = explained(scorer, "meanwhile")
        assert (told["rule"], told["chosen"]["state"]) == ("BestFitOnAllocations", "Stale")
        chain.prometheus.start_again()
        knows_load(scorer)
        assert chain.place("afterwards") == "target"
        assert explained(scorer, "afterwards")["rule"] == "Measured"


def test_without_the_watcher_the_same_and_one_killed_in_a_write_knows_what_it_knew(
    chain: LoadChain, state_file: Path
) -> None:
    watcher = chain.watcher
    with chain.scoring(PACKING, [large("hot")], settings=AGE) as scorer:
        before = scorer.prioritize(pod("asked"), list(NODES))
        watcher.program.kill()
        assert scorer.prioritize(pod("asked"), list(NODES)) == before
        wait_until(partial(falls_back, scorer, True), 60, "the fall-back")
        assert chain.place("meanwhile") == "hot"
        assert explained(scorer, "meanwhile")["rule"] == "BestFitOnAllocations"
        watcher.program.start()
        watcher.kill_in_its_next_write(state_file)
        watcher.start()
        assert watcher.report() is not None, "what the file has"
        watcher.told()
        knows_load(scorer)
        assert chain.place("afterwards") == "target"


def test_a_node_whose_exporter_is_away_is_avoided_and_the_others_go_by_load(chain: LoadChain) -> None:
    with chain.scoring(PACKING, settings=AGE) as scorer:
        away = chain.exporters.nodes["target"]
        away.answers = False
        try:
            wait_until(lambda: scorer.metric('slack_scorer_nodes{state="Stale"}') == 1, 60, "its figures to be old")
            assert scorer.prioritize(pod("asked"), list(NODES))["target"] == 0
            assert chain.place("meanwhile") == "low"
            assert explained(scorer, "meanwhile")["rule"] == "Measured"
        finally:
            away.answers = True
        knows_load(scorer)


def test_nobody_waits_longer_for_a_scorer_that_is_killed_or_hangs_than_its_timeout(chain: LoadChain) -> None:
    with chain.scoring(PACKING, timeout_ms=DEFAULT_MS) as scorer:
        assert chain.place("before") in NODES
        since = Cycles.of(chain.cluster)
        scorer.program.kill()
        assert {chain.place(f"killed-{number}") for number in range(3)} <= set(NODES)
        scorer.start()
        knows_load(scorer)
        with stopped(scorer.program):
            hung = Cycles.of(chain.cluster)
            assert {chain.place(f"hung-{number}") for number in range(3)} <= set(NODES)
            cycles = Cycles.of(chain.cluster)
            assert cycles.longer_than(0.128, since=hung) == cycles.count(since=hung) >= 3, "they did wait for it"
        cycles = Cycles.of(chain.cluster)
        assert cycles.count(since=since) >= 6
        assert cycles.longer_than(LATE_SECONDS, since=since) == 0
        wait_until(lambda: scorer.health("/readyz")[0] == 200, 30, "the scorer to answer again")
        knows_load(scorer)
        chain.place("afterwards")
        told = explained(scorer, "afterwards")
        assert (told["rule"], told["nodes_with_a_better_score"]) == ("Measured", 0)


def test_the_api_server_may_be_killed_and_scores_are_those_of_before(chain: LoadChain) -> None:
    with chain.scoring(PACKING) as scorer:
        before = scorer.prioritize(pod("asked"), list(NODES))
        since = Cycles.of(chain.cluster)
        chain.cluster.stop_apiserver(crash=True)
        try:
            assert scorer.prioritize(pod("asked"), list(NODES)) == before
            assert scorer.health("/healthz")[0] == 200
        finally:
            chain.cluster.start_apiserver()
        assert chain.place("afterwards") == "target"
        assert explained(scorer, "afterwards")["rule"] == "Measured"
        assert Cycles.of(chain.cluster).longer_than(LATE_SECONDS, since=since) == 0


def test_pods_that_use_more_than_was_predicted_send_the_next_ones_elsewhere(chain: LoadChain, tmp_path: Path) -> None:
    asked = ("--provider=prometheus", f"--address={chain.prometheus.url}", QUICK_CPU, "--node-label=nodename")
    with (
        LoadWatcher(tmp_path, *asked, nodes=len(NODES), cluster=chain.cluster) as watcher,
        replace(chain, watcher=watcher).scoring(PACKING) as scorer,
    ):
        assert chain.place("greedy", uses_cpu=2.0) == "target", "predicted: 150m"

        def seen() -> bool:
            report = watcher.report()
            used = report.nodes["target"].percent(MetricType.CPU, Rollup.AVG) if report else None
            return used is not None and used > 50

        wait_until(seen, 120, "metrics to show what it uses", watcher.log)
        wait_until(lambda: scorer.prioritize(pod("asked"), list(NODES))["target"] < 50, 30, "the score to show it")
        assert chain.place("next") == "low"
