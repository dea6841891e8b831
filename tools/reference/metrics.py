"""The reference of all processes' metrics, from the lists that make them."""

from collections.abc import Iterable

from slack.process.metric_definition import BUILD_INFO, MetricDefinition
from slack_operator.auditor.metric_definitions import AGENT_FAMILIES, CONTROLLER_FAMILIES
from slack_operator.demand.metric_definitions import DEMAND_CONTROLLER_FAMILIES
from slack_operator.demand.proxy.metric_definitions import DEMAND_PROXY_FAMILIES
from slack_operator.loadwatcher.metric_definitions import LOAD_WATCHER_FAMILIES
from slack_operator.placeholders.report.metrics import described
from slack_operator.scorer.metric_definitions import SCORER_FAMILIES
from slack_operator.throttler.agent.metric_definitions import THROTTLER_AGENT_FAMILIES
from slack_operator.throttler.controller.metric_definitions import THROTTLER_CONTROLLER_FAMILIES
from tools.reference.markdown import head, table

_TEXT = """
Each process serves its own at `/metrics` of `--listen` (see [flags](flags.md)), beside those of its process
(`process_*`). Alerts and a dashboard that use them come with the chart; `resource-slack monitoring` prints both.
"""
_AGENT = """
Of the [auditor](../cpu-audit.md)'s agent on each node. Series of a cgroup are there while it has a quota and ran in at
least 100 enforcement periods of the window. Their labels namespace, pod and container are those of the audited pod:
scrape with `honorLabels: true`, as the chart's PodMonitor does.
"""


def page() -> str:
    """Return the whole page."""
    packages = "{placeholders,auditor,demand,demand/proxy,loadwatcher,scorer,throttler/*}"
    origin = f"operator/slack_operator/{packages}/metric_definitions.py"
    parts = [head("Metrics", origin, _TEXT)]
    for title, text, families in (
        ("Operator", "", described()),
        ("Audit agent", _AGENT, (*AGENT_FAMILIES, BUILD_INFO)),
        ("Audit controller", "", CONTROLLER_FAMILIES),
        ("Load watcher", "", LOAD_WATCHER_FAMILIES),
        ("Scorer", "", SCORER_FAMILIES),
        ("Demand's controller", "", DEMAND_CONTROLLER_FAMILIES),
        ("Throttler's agent", "", THROTTLER_AGENT_FAMILIES),
        ("Throttler's controller", "", THROTTLER_CONTROLLER_FAMILIES),
        ("Demand proxy", "", DEMAND_PROXY_FAMILIES),
    ):
        parts.append(f"\n## {title}\n\n" + (f"{text.strip()}\n\n" if text else "") + _rows(families))
    return "".join(parts)


def _rows(families: Iterable[MetricDefinition]) -> str:
    rows = [
        (f"`{family.name}`", family.type, ", ".join(f"`{label}`" for label in family.labels), family.unit, family.help)
        for family in sorted(families, key=lambda family: family.name)
    ]
    return table(("metric", "type", "labels", "unit", "meaning"), rows)
