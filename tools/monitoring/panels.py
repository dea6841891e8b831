"""Panels of Grafana dashboards as values, laid out in rows of 24 columns and written as Grafana's JSON.

Panels of a row stand side by side and wrap; nobody counts coordinates. Fields that Grafana fills in by itself are left
out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

COLUMNS = 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


class PanelKind(StrEnum):
    """Grafana's panel types that are used here."""

    STAT = "stat"
    TIMESERIES = "timeseries"
    HEATMAP = "heatmap"
    STATE_TIMELINE = "state-timeline"


@dataclass(frozen=True, slots=True)
class Query:
    """One query, and how its series are called (`{{label}}`)."""

    expression: str
    legend: str = ""
    instant: bool = False
    heatmap: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel."""

    title: str
    description: str
    queries: Sequence[Query]
    unit: str
    """Grafana's id: short, percentunit, s, bytes, none, ops, reqps."""
    kind: PanelKind = PanelKind.TIMESERIES
    width: int = 8
    height: int = 8
    thresholds: Sequence[tuple[float | None, str]] = ()
    """(from, colour); the first begins at None."""
    mappings: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Text and colour by value."""
    lowest: float | None = 0
    highest: float | None = None
    decimals: int | None = None
    stacked: bool = False


@dataclass(frozen=True, slots=True)
class PanelRow:
    """A titled row of panels."""

    title: str
    panels: Sequence[Panel]


def laid_out(rows: Sequence[PanelRow]) -> list[dict[str, Any]]:
    """Return all rows and panels with ids and places. The first row is open; the others have their panels inside."""
    found: list[dict[str, Any]] = []
    number = 0
    y = 0
    for index, row in enumerate(rows):
        number += 1
        place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
        inside: list[dict[str, Any]] = []
        found.append(
            {
                "id": number,
                "type": "row",
                "title": row.title,
                "collapsed": index > 0,
                "gridPos": place,
                "panels": inside,
            }
        )
        y, x, height = y + 1, 0, 0
        first = y
        for panel in row.panels:
            number += 1
            if x + panel.width > COLUMNS:
                y, x, height = y + height, 0, 0
            place = {"x": x, "y": y, "w": panel.width, "h": panel.height}
            (inside if index else found).append({"id": number, "gridPos": place, **_json(panel)})
            x, height = x + panel.width, max(height, panel.height)
        y = y + height if index == 0 else first
    return found


def _json(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "custom": _custom(panel)}
    if panel.lowest is not None:
        defaults["min"] = panel.lowest
    if panel.highest is not None:
        defaults["max"] = panel.highest
    if panel.decimals is not None:
        defaults["decimals"] = panel.decimals
    if panel.thresholds:
        steps = [{"value": value, "color": colour} for value, colour in panel.thresholds]
        defaults |= {"thresholds": {"mode": "absolute", "steps": steps}, "color": {"mode": "thresholds"}}
    if panel.mappings:
        options = {value: {"text": text, "color": colour} for value, (text, colour) in panel.mappings.items()}
        defaults["mappings"] = [{"type": "value", "options": options}]
    return {
        "type": str(panel.kind),
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "targets": [_target(query, chr(ord("A") + number)) for number, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _options(panel),
    }


def _target(query: Query, letter: str) -> dict[str, Any]:
    return {
        "refId": letter,
        "datasource": DATASOURCE,
        "expr": query.expression,
        "legendFormat": query.legend or "__auto",
        "instant": query.instant,
        "range": not query.instant,
        "format": "heatmap" if query.heatmap else "time_series",
    }


def _custom(panel: Panel) -> dict[str, Any]:
    if panel.kind is PanelKind.TIMESERIES:
        stacking = {"mode": "normal", "group": "A"} if panel.stacked else {"mode": "none"}
        return {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 25 if panel.stacked else 5,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": stacking,
        }
    return {"fillOpacity": 80} if panel.kind is PanelKind.STATE_TIMELINE else {}


def _options(panel: Panel) -> dict[str, Any]:
    legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
    if panel.kind is PanelKind.STAT:
        return {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "value",
            "graphMode": "area",
        }
    if panel.kind is PanelKind.HEATMAP:
        return {
            "calculate": False,
            "color": {"mode": "scheme", "scheme": "Blues", "steps": 32},
            "yAxis": {"unit": panel.unit},
            "tooltip": {"mode": "single"},
        }
    if panel.kind is PanelKind.STATE_TIMELINE:
        return {"showValue": "never", "mergeValues": True, "rowHeight": 0.8, "legend": legend}
    return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
