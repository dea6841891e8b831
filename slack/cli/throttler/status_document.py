"""What the controller's view and the policies' statuses say, as the document that is printed; nothing is decided here.

Names and reasons are without what a terminal would obey: a node's agent is not believed to be well-behaved.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from slack.cluster.labels import API_VERSION
from slack.throttler.fsm import StartState
from slack.throttler.reports.messages import ContainerRow, NodeReport, View

Json = dict[str, Any]


def document(view: View, policies: Iterable[Mapping[str, Any]], not_seen: Iterable[str]) -> Json:
    """Return the answer for machines; the tables are made of it too."""
    seen = sorted((_policy(policy) for policy in policies), key=lambda policy: str(policy["name"]))
    return {
        "apiVersion": API_VERSION,
        "kind": "ThrottlerStatus",
        "good": not view.silent and all(policy["ready"] is not False for policy in seen),
        "at_unix_seconds": round(view.at, 3),
        "policies": seen,
        "nodes": [_node(report) for report in view.reports],
        "silent": [
            {
                "name": printable(node.node),
                "policy": printable(node.policy) or None,
                "heard_unix_seconds": time(node.at),
                "reason": printable(node.reason),
            }
            for node in view.silent
        ],
        "not_seen": [printable(text) for text in not_seen],
    }


def printable(text: str) -> str:
    """Return a text without what moves a terminal's cursor, rings its bell or turns its letters around."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


def time(seconds: float | None) -> float | None:
    """Return Unix seconds as they are printed; none for 0, which stands for never."""
    return round(seconds, 3) if seconds and math.isfinite(seconds) else None


def counts_of(counts: Mapping[StartState, int]) -> Json:
    """Return every state with its number."""
    return {state.value: counts.get(state, 0) for state in StartState}


def _node(report: NodeReport) -> Json:
    return {
        "name": printable(report.node),
        "at_unix_seconds": round(report.at, 3),
        "policy": printable(report.policy) or None,
        "policy_generation": report.policy_generation,
        "cores": report.cores,
        "slots": report.slots,
        "counts": counts_of(report.counts),
        "granted": report.granted,
        "forced": report.forced,
        "timed_out": report.timed_out,
        "opened": report.opened,
        "containers": [_container(row) for row in report.containers],
        "left_out": report.left_out,
    }


def _container(row: ContainerRow) -> Json:
    return {
        "namespace": printable(row.namespace),
        "pod": printable(row.pod),
        "container": printable(row.container),
        "state": row.state.value,
        "since_unix_seconds": time(row.since),
        "start": row.start,
        "position": row.position or None,
        "forced": row.forced,
        "reason": printable(row.reason),
        "until_unix_seconds": time(row.until),
    }


def _policy(policy: Mapping[str, Any]) -> Json:
    """Read a ThrottlePolicy's status, which anybody with the right to may have written."""
    status = _fields(policy.get("status"))
    nodes = _fields(status.get("nodes"))
    conditions = status.get("conditions")
    ready = next(
        (
            condition
            for condition in (conditions if isinstance(conditions, list) else ())
            if isinstance(condition, Mapping) and condition.get("type") == "Ready"
        ),
        {},
    )
    counted = {state.value: _count(status.get(state.value)) for state in StartState}
    return {
        "name": printable(str(policy["metadata"]["name"])),
        "ready": {"True": True, "False": False}.get(str(ready.get("status"))),
        "reason": printable(str(ready.get("reason") or "")),
        "message": printable(str(ready.get("message") or "")),
        "nodes_selected": _count(nodes.get("selected")),
        "nodes_reporting": _count(nodes.get("reporting")),
        "nodes_silent": _count(nodes.get("silent")),
        "counts": None if None in counted.values() else counted,
        "forced": _count(status.get("forced")),
        "opened": _count(status.get("opened")),
        "longest_wait_seconds": _count(status.get("longestWaitSeconds")),
    }


def _fields(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
