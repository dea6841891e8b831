"""What each process serves at /metrics is what its table declares: the reference page and the rules are made of it."""

from collections.abc import Callable, Iterable

import pytest

from slack.process.metric_definition import BUILD_INFO, MetricDefinition
from slack_operator.auditor.controller.metrics import AuditControllerMetrics
from slack_operator.auditor.metric_definitions import CONTROLLER_FAMILIES
from slack_operator.demand.metric_definitions import DEMAND_CONTROLLER_FAMILIES
from slack_operator.demand.metrics import DemandMetrics
from slack_operator.demand.proxy.metric_definitions import DEMAND_PROXY_FAMILIES
from slack_operator.demand.proxy.metrics import ProxyMetrics
from slack_operator.loadwatcher.metric_definitions import LOAD_WATCHER_FAMILIES
from slack_operator.loadwatcher.metrics import LoadWatcherMetrics
from slack_operator.placeholders.report import metric_definitions
from slack_operator.runtime.metrics import ProcessMetrics
from slack_operator.scorer.metric_definitions import SCORER_FAMILIES
from slack_operator.scorer.metrics import ScorerMetrics
from slack_operator.throttler.agent.metric_definitions import THROTTLER_AGENT_FAMILIES
from slack_operator.throttler.agent.metrics import AgentMetrics
from slack_operator.throttler.controller.metric_definitions import THROTTLER_CONTROLLER_FAMILIES
from slack_operator.throttler.controller.metrics import ThrottlerControllerMetrics
from tests.cases import run_for_each


def served(metrics: ProcessMetrics) -> dict[str, tuple[str, str]]:
    """Return type and help by the name that Prometheus has, without those of every Python process."""
    return {
        found.name + ("_total" if found.type == "counter" else ""): (found.type, found.documentation)
        for found in metrics.registry.collect()
        if not found.name.startswith("process_")
    }


@run_for_each(
    ("metrics", "table"),
    [
        (AuditControllerMetrics, CONTROLLER_FAMILIES),
        (DemandMetrics, DEMAND_CONTROLLER_FAMILIES),
        (lambda: ProxyMetrics(1), DEMAND_PROXY_FAMILIES),
        (LoadWatcherMetrics, LOAD_WATCHER_FAMILIES),
        (ScorerMetrics, SCORER_FAMILIES),
        (AgentMetrics, THROTTLER_AGENT_FAMILIES),
        (ThrottlerControllerMetrics, THROTTLER_CONTROLLER_FAMILIES),
    ],
)
def test_a_process_serves_what_its_table_declares(
    metrics: Callable[[], ProcessMetrics], table: Iterable[MetricDefinition]
) -> None:
    assert served(metrics()) == {each.name: (each.type, each.help) for each in table}


def test_a_metric_of_another_type_than_it_is_declared_with_is_a_fault_of_ours() -> None:
    class Wrong(ProcessMetrics):
        def __init__(self) -> None:
            super().__init__(BUILD_INFO)
            self._counter(metric_definitions.LEADER)

    with pytest.raises(AssertionError, match="slack_leader is declared as a gauge, not as a counter"):
        Wrong()
