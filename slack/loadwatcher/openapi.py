"""The load watcher's REST API as an OpenAPI document: served at /openapi.json, and a page of the reference."""

from typing import Any

from slack.loadwatcher.encoding import ReportFormat
from slack.loadwatcher.payload import WINDOWS, MetricType, Rollup

_TEXT = {"text/plain": {"schema": {"type": "string"}}}
_WINDOW = {
    "name": "window",
    "in": "query",
    "description": "The longest window that will do: where it is not there or too old, the next shorter one is given.",
    "schema": {"type": "string", "enum": [window.value for window in WINDOWS], "default": WINDOWS[0].value},
}


def document(version: str, style: ReportFormat = ReportFormat.PROPOSAL) -> dict[str, Any]:
    """Return the document.

    Args:
        version: of resource-slack.
        style: how this watcher writes.
    """
    report = {"application/json": {"schema": {"$ref": "#/components/schemas/Report"}}}
    replies = {
        "200": {"description": "The newest window, not older than --max-age.", "content": report},
        "400": {"description": "No such window.", "content": _TEXT},
        "404": {"description": "Nothing is known, or nothing that is new enough.", "content": _TEXT},
    }
    host = {"name": "host", "in": "query", "description": "Only this node.", "schema": {"type": "string"}}
    of_path = {"name": "hostname", "in": "path", "required": True, "schema": {"type": "string"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "resource-slack load-watcher",
            "version": version,
            "description": "What nodes use, by window, for load-aware scoring. Read-only.",
        },
        "paths": {
            "/watcher": {"get": _operation("The use of all nodes", [host, _WINDOW], replies)},
            "/watcher/{hostname}": {"get": _operation("The use of one node", [of_path, _WINDOW], replies)},
            "/watcher/health": {"get": _operation("Whether figures are there and the provider answers", [], _HEALTH)},
            "/analysis": {"get": _operation("What the analyser made of the last fetch", [], _ANALYSIS)},
            "/openapi.json": {"get": _operation("This document", [], _SELF)},
        },
        "components": {"schemas": _schemas(style)},
    }


def _operation(summary: str, parameters: list[Any], replies: dict[str, Any]) -> dict[str, Any]:
    return {"summary": summary, "parameters": parameters, "responses": replies}


_HEALTH = {
    "200": {"description": "Yes.", "content": _TEXT},
    "503": {"description": "No: the text says why.", "content": _TEXT},
}
_ANALYSIS = {
    "200": {
        "description": "Which series were dropped and why, and what matches no node.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Analysis"}}},
    },
    "404": {"description": "Nothing was fetched yet.", "content": _TEXT},
}
_SELF = {"200": {"description": "OpenAPI 3.1.", "content": {"application/json": {"schema": {"type": "object"}}}}}


def _schemas(style: ReportFormat) -> dict[str, Any]:
    text, whole = {"type": "string"}, {"type": "integer", "description": "Unix seconds."}
    words = {"type": "object", "additionalProperties": text}
    nodes = {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Node"}}
    nested = {"type": "object", "properties": {"NodeMetricsMap": nodes}, "required": ["NodeMetricsMap"]}
    value = {"type": "number", "minimum": 0, "description": "Percent of what the node has."}
    rollups = {"type": "string", "enum": [rollup.value for rollup in Rollup]}
    if style is ReportFormat.PROPOSAL:
        kinds = {"type": "string", "enum": [kind.value for kind in MetricType]}
        metric = {"name": text, "type": kinds, "rollup": rollups, "value": value}
    else:
        kinds = {"type": "string", "enum": ["CPU", "Memory", "Bandwidth", "Storage"]}
        windows = {"type": "string", "enum": [window.value for window in WINDOWS]}
        metric = {"name": text, "type": kinds, "operator": rollups, "rollup": windows, "value": value}
    observed = {**whole, "description": "When the node's newest sample was made, in Unix seconds."}
    duration = {"type": "string", "enum": [window.value for window in WINDOWS]}
    return {
        "Report": _object(
            {
                "timestamp": whole,
                "window": _object({"duration": duration, "start": whole, "end": whole}),
                "source": text,
                "data": nodes if style is ReportFormat.PROPOSAL else nested,
            }
        ),
        "Node": _object(
            {
                "metrics": {"type": "array", "items": _object(metric)},
                "tags": words,
                "metadata": words,
                "observedAt": observed,
            },
            optional=("observedAt",),
        ),
        "Analysis": {
            "type": "object",
            "description": "As `load-watcher show -o json` has it.",
            "properties": {
                "fetched_at": whole,
                "error": {"type": ["string", "null"]},
                "dropped": {"type": "array", "items": {"type": "object"}},
                "unmatched": {"type": "array", "items": text},
                "unknown": {"type": "array", "items": text},
            },
        },
    }


def _object(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}
