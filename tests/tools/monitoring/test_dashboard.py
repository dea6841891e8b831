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
from tools.monitoring.dashboard import DASHBOARDS, dashboard, panels
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
REAL = [panel for component in DASHBOARDS for panel in panels(component)]
UNITS = {"percentunit", "s", "bytes", "short", "none", "ops", "reqps"}


def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
    place = panel["gridPos"]
    columns, rows = (range(place[at], place[at] + place[size]) for at, size in (("x", "w"), ("y", "h")))
    return set(itertools.product(columns, rows))


@run_for_each("component", DASHBOARDS)
def test_ids_are_unique_and_nothing_overlaps(component: str) -> None:
    items = dashboard(component)["panels"]
    everything = [panel for item in items for panel in (item, *item.get("panels", ()))]
    assert len({panel["id"] for panel in everything}) == len(everything)
    for shown in (items, *(item["panels"] for item in items if item.get("panels"))):
        taken = [cell for panel in shown for cell in cells(panel)]
        assert len(taken) == len(set(taken))
        assert max(x for x, _ in taken) < COLUMNS


@run_for_each("component", DASHBOARDS)
def test_only_the_first_row_is_open_and_each_dashboard_links_to_the_others(component: str) -> None:
    found = dashboard(component)
    first, *others = (item for item in found["panels"] if item["type"] == "row")
    assert not first["collapsed"]
    assert first["panels"] == []
    assert all(row["collapsed"] and row["panels"] for row in others)
    (link,) = found["links"]
    assert (link["type"], link["includeVars"], link["keepTime"]) == ("dashboards", True, True)
    assert set(link["tags"]) <= set(found["tags"])
    assert len({dashboard(name)["uid"] for name in DASHBOARDS}) == len(DASHBOARDS)


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


@run_for_each("component", DASHBOARDS)
def test_titles_tell_panels_apart(component: str) -> None:
    titles = [panel["title"] for panel in panels(component)]
    assert len(titles) == len(set(titles))


@run_for_each("component", DASHBOARDS)
def test_what_can_be_chosen_is_used_by_every_query(component: str) -> None:
    variables = {variable["name"]: variable for variable in dashboard(component)["templating"]["list"]}
    wanted = {"datasource", "cluster", "namespace"} | ({"job", "policy"} if component == "operator" else set())
    assert variables.keys() == wanted
    assert variables.pop("datasource")["type"] == "datasource"
    for variable in variables.values():
        assert variable["multi"]
        assert variable["includeAll"]
        assert variable["allValue"] == ".*", "series without the label are among all"
        assert family_of(metric_names_of(variable["definition"])) in EXPORTED
    for panel in panels(component):
        for target in panel["targets"]:
            names = metric_names(target["expr"]) - FOREIGN
            for name in names:
                for matchers in re.findall(rf"\b{name}\b(\{{[^{{}}]*\}})?", target["expr"]):
                    assert 'cluster=~"$cluster", namespace=~"$namespace"' in matchers, name
    used = set(re.findall(r"\$\{?(\w+)", str(panels(component)))) - {"__rate_interval"}
    assert used == wanted


def metric_names_of(definition: str) -> str:
    """The metric in label_values(metric{...}, label)."""
    match = re.fullmatch(r"label_values\((\w+)(\{.*\})?, \w+\)", definition)
    assert match is not None
    return match[1]


def test_panels_that_do_not_fit_side_by_side_wrap() -> None:
    panel = Panel("p", "d.", (Query("up"),), "short", PanelKind.STAT, width=10, height=3)
    laid = laid_out([PanelRow("r", [panel] * 3), PanelRow("s", [panel]), PanelRow("t", [panel])])
    places = [(item["gridPos"]["x"], item["gridPos"]["y"]) for item in laid]
    assert places == [(0, 0), (0, 1), (10, 1), (0, 4), (0, 7), (0, 8)]
    (inside,) = laid[-1]["panels"]
    assert (inside["gridPos"]["x"], inside["gridPos"]["y"]) == (0, 9)
