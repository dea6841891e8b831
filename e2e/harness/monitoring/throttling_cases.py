"""Measured cases of throttling, as series for promtool: what a rule on periods alone says, and what ours say.

The rule on periods is kubernetes-mixin's CPUThrottlingHigh in words of our own: throttled periods over periods, by
container, above a quarter for 15 minutes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CASES = Path(__file__).parents[2] / "monitoring" / "throttling_cases.yaml"
PERIOD_RULE = "CPUThrottlingHigh"
NONE = "none"
FIRES = "fires"
LEAST_PERIODS_A_MINUTE = 20
"""100 in the agent's window of 5 minutes; a cgroup with fewer has no series."""
_STEPS_A_MINUTE = 2
_MINUTES = 40
_BY = "cluster, namespace, pod, container"


@dataclass(frozen=True, slots=True)
class Case:
    """One measured run, and what is said of it."""

    case: str
    level: str
    periods: int
    throttled: int
    rule: str
    alert: str
    meaning: str
    lost: float | None = None
    stop_ms: float | None = None
    periods_a_minute: float = 600.0

    @property
    def ratio(self) -> float:
        """Throttled periods over periods."""
        return self.throttled / self.periods

    @property
    def lost_ratio(self) -> float | None:
        """Share of time lost; None where nobody measured it."""
        if self.lost is not None:
            return self.lost
        return None if self.stop_ms is None else self.ratio * self.stop_ms / 100


def cases() -> list[Case]:
    """Return all cases, in the file's order."""
    return [Case(**case) for case in yaml.safe_load(CASES.read_text(encoding="utf-8"))]


def period_rule() -> dict[str, Any]:
    """Return the rule file with the rule on periods."""
    throttled, periods = (
        f'sum by ({_BY}) (increase(container_cpu_cfs_{what}_total{{container!=""}}[5m]))'
        for what in ("throttled_periods", "periods")
    )
    rule = {"alert": PERIOD_RULE, "expr": f"{throttled} / {periods} > 0.25", "for": "15m"}
    return {"groups": [{"name": "periods", "rules": [rule]}]}


def promtool_tests(found: Sequence[Case], rule_files: Sequence[Path]) -> dict[str, Any]:
    """Return the document for `promtool test rules`: exactly the alerts that a case names fire."""
    return {
        "rule_files": [str(file) for file in rule_files],
        "evaluation_interval": "30s",
        "tests": [_test(case) for case in found],
    }


def table(found: Sequence[Case]) -> str:
    """Return the cases as the table of the documents."""
    head = (
        f"| measured | throttled periods | time lost | stop | {PERIOD_RULE} | ours | what it is |\n"
        + "|---" * 7
        + "|\n"
    )
    rows = (
        f"| {row.case} | {row.throttled} of {row.periods} | {_percent(row.lost_ratio)} | {_ms(row.stop_ms)} | "
        f"{row.rule} | {row.alert if row.alert == NONE else f'`{row.alert}`'} | {row.meaning} |\n"
        for row in found
    )
    return head + "".join(rows)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.1f} %"


def _ms(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds:g} ms"


def _test(case: Case) -> dict[str, Any]:
    fired = [PERIOD_RULE] if case.rule == FIRES else []
    fired += [] if case.alert == NONE else [case.alert]
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(fired)]
    firing = 'count by (alertname) (ALERTS{alertname!~"ResourceSlack.*|SlackAuditAbsent", alertstate="firing"})'
    return {
        "name": case.case,
        "interval": "30s",
        "input_series": [*_cadvisor(case), *_agent(case)],
        "promql_expr_test": [{"expr": firing, "eval_time": f"{_MINUTES - 5}m", "exp_samples": samples}],
    }


def _cadvisor(case: Case) -> list[dict[str, str]]:
    """A cgroup has these only with a quota; a pod's own have no container."""
    labels = f'namespace="shop", pod="api", container="{"api" if case.level == "container" else ""}"'
    a_step = case.periods_a_minute / _STEPS_A_MINUTE
    return [
        _series(f"container_cpu_cfs_{what}_total{{{labels}}}", f"0+{rise:g}x{_MINUTES * _STEPS_A_MINUTE}")
        for what, rise in (("periods", a_step), ("throttled_periods", a_step * case.ratio))
    ]


def _agent(case: Case) -> list[dict[str, str]]:
    if case.periods_a_minute < LEAST_PERIODS_A_MINUTE or case.lost_ratio is None:
        return []
    container = "api" if case.level == "container" else ""
    labels = f'level="{case.level}", namespace="shop", pod="api", container="{container}", window="5m"'
    stop_seconds = (case.stop_ms or 0.0) / 1000
    if case.stop_ms is None and case.throttled:
        stop_seconds = case.lost_ratio / case.ratio * 0.1
    figures = (
        ("throttled_periods_ratio", case.ratio),
        ("time_lost_ratio", case.lost_ratio),
        ("stop_seconds", stop_seconds),
    )
    return [
        _series(f"slack_audit_{name}{{{labels}}}", f"{value:.6f}x{_MINUTES * _STEPS_A_MINUTE}")
        for name, value in figures
    ]


def _series(name: str, values: str) -> dict[str, str]:
    return {"series": name, "values": values}
