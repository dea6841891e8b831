"""The dashboard as Grafana imports it, as far as that can be told without Grafana."""

import itertools
import re
from typing import Any

from slack_operator.auditor.metric_definitions import AGENT_FAMILIES, CONTROLLER_FAMILIES
from slack_operator.demand.metric_definitions import DEMAND_CONTROLLER_FAMILIES
from slack_operator.loadwatcher.metric_definitions import LOAD_WATCHER_FAMILIES
from slack_operator.placeholders.report.metrics import described
from slack_operator.scorer.metric_definitions import SCORER_FAMILIES
from slack_operator.throttler.agent.metric_definitions import THROTTLER_AGENT_FAMILIES
from slack_operator.throttler.controller.metric_definitions import THROTTLER_CONTROLLER_FAMILIES
from tests.cases import run_for_each
from tests.tools.monitoring.promql import family_of, metric_names
from tools.monitoring.dashboard import dashboard
from tools.monitoring.panels import COLUMNS, Panel, PanelKind, PanelRow, Query, laid_out

OURS = {
    family.name: family
    for family in (
        *described(),
        *AGENT_FAMILIES,
        *CONTROLLER_FAMILIES,
        *LOAD_WATCHER_FAMILIES,
        *SCORER_FAMILIES,
        *THROTTLER_AGENT_FAMILIES,
        *THROTTLER_CONTROLLER_FAMILIES,
        *DEMAND_CONTROLLER_FAMILIES,
    )
}
EXPORTED = OURS.keys() | {"process_cpu_seconds_total", "process_resident_memory_bytes"}
FOREIGN = {"prober_probe_total"}
"""Of the kubelets, which are another job."""
COMPANIONS = {
    family.name
    for family in (
        *AGENT_FAMILIES,
        *CONTROLLER_FAMILIES,
        *LOAD_WATCHER_FAMILIES,
        *SCORER_FAMILIES,
        *THROTTLER_AGENT_FAMILIES,
        *THROTTLER_CONTROLLER_FAMILIES,
        *DEMAND_CONTROLLER_FAMILIES,
    )
} - {family.name for family in described()}
"""Of the audit's agents and their controller, and of the scorer and the load watcher, which are others."""
PANELS: list[dict[str, Any]] = dashboard()["panels"]
REAL = [panel for panel in PANELS if panel["type"] != "row"]
UNITS = {"percentunit", "s", "bytes", "short", "none", "ops", "reqps"}


def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
    place = panel["gridPos"]
    columns, rows = (range(place[at], place[at] + place[size]) for at, size in (("x", "w"), ("y", "h")))
    return set(itertools.product(columns, rows))


def test_ids_are_unique_and_nothing_overlaps() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    taken = [cell for panel in PANELS for cell in cells(panel)]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < COLUMNS


@run_for_each("panel", REAL, ids=lambda panel: str(panel["title"]))
def test_a_panel_is_described_has_a_unit_and_asks_the_chosen_data_source(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0


@run_for_each("panel", REAL, ids=lambda panel: str(panel["title"]))
def test_queries_read_what_the_operator_exports_of_the_chosen_job_and_policies(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        names = metric_names(target["expr"])
        assert names
        assert {family_of(name) for name in names} <= EXPORTED | FOREIGN
        for name in {name for name in names - FOREIGN if family_of(name) not in COMPANIONS}:
            for matchers in re.findall(rf"\b{name}\b(\{{[^{{}}]*\}})?", target["expr"]):
                assert 'job=~"$job"' in matchers
                family = OURS.get(family_of(name))
                assert family is None or 'policy=~"$policy"' in matchers or "policy" not in family.labels


def test_titles_tell_panels_apart() -> None:
    titles = [panel["title"] for panel in PANELS]
    assert len(titles) == len(set(titles))


def test_policies_jobs_and_the_data_source_can_be_chosen() -> None:
    variables = {variable["name"]: variable for variable in dashboard()["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["policy"]["multi"]
    assert variables["policy"]["includeAll"]
    assert family_of(metric_names_of(variables["policy"]["definition"])) in EXPORTED
    assert family_of(metric_names_of(variables["job"]["definition"])) in EXPORTED
    used = set(re.findall(r"\$\{?(\w+)", str(PANELS))) - {"__rate_interval"}
    assert used == variables.keys()


def metric_names_of(definition: str) -> str:
    """The metric in label_values(metric{...}, label)."""
    match = re.fullmatch(r"label_values\((\w+)(\{.*\})?, \w+\)", definition)
    assert match is not None
    return match[1]


def test_panels_that_do_not_fit_side_by_side_wrap() -> None:
    panel = Panel("p", "d.", (Query("up"),), "short", PanelKind.STAT, width=10, height=3)
    places = [laid["gridPos"] for laid in laid_out([PanelRow("r", [panel] * 3), PanelRow("s", [panel])])]
    assert [(place["x"], place["y"]) for place in places] == [(0, 0), (0, 1), (10, 1), (0, 4), (0, 7), (0, 8)]
