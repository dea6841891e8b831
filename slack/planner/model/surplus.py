"""Surplus: capacity that placeholders hold beyond the plan, and when it is removed. Status and page show its text."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from slack.cluster.quantity import format_rounded
from slack.cluster.snapshot import IntArray

_SHORT_SECONDS = 12 * 3600.0
"""A removal that is due sooner is written without its date."""


@dataclass(frozen=True, slots=True, eq=False)
class Surplus:
    """What the placeholders of a policy hold beyond the plan."""

    amount: IntArray
    """[R] never negative."""
    removal_seconds: float | None
    """Unix time from which some of it is removed; None if it is removed as soon as its replacement has capacity."""

    def text(self, resources: Sequence[str], now: float) -> str:
        """Return it in words: `35 cores and 70Gi more than planned, removed from 14:05 UTC on`."""
        parts = [amount_text(name, int(value)) for name, value in zip(resources, self.amount, strict=True) if value]
        return f"{' and '.join(parts)} more than planned, {self._removal_text(now)}"

    def _removal_text(self, now: float) -> str:
        if self.removal_seconds is None:
            return "removed step by step"
        due = datetime.fromtimestamp(self.removal_seconds, UTC)
        date = "%H:%M" if self.removal_seconds - now < _SHORT_SECONDS else "%Y-%m-%d %H:%M"
        return f"removed from {due.strftime(date)} UTC on"


def amount_text(name: str, value: int) -> str:
    """Return an amount of a resource in words: `35 cores`, `70Gi of memory`."""
    amount = format_rounded(name, value)
    if name == "cpu":
        return f"{amount} {'core' if amount == '1' else 'cores'}" if not amount.endswith("m") else f"{amount} CPU"
    return f"{amount} of memory" if name == "memory" else f"{amount} {name}"
