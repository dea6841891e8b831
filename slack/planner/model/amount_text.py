"""Amounts as people read them: the same in every text."""

from collections.abc import Iterable

from slack.cluster.quantity import WrittenQuantity, format_cpu, format_quantity


def resources_text(amounts: Iterable[tuple[str, int]]) -> str:
    """Return amounts for reading: `500m cpu, 1.2Gi memory`; rounded, never for machines."""
    texts = [f"{_readable(name, value)} {name}" for name, value in amounts if value]
    return ", ".join(texts) or "no requests"


def written_text(amounts: Iterable[tuple[str, int]]) -> str:
    """Return amounts as somebody wrote them, those that nobody wrote as `resources_text` does."""
    texts = [
        (name, value.text if isinstance(value, WrittenQuantity) else _readable(name, value))
        for name, value in amounts
        if value
    ]
    return ", ".join(f"{text} {name}" for name, text in texts) or "no requests"


def _readable(name: str, value: int) -> str:
    if name == "cpu":
        return format_cpu(value) if value < 10_000 else f"{value / 1000:.1f}".removesuffix(".0")
    if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-"):
        for suffix, size in (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
            if value >= size:
                return f"{value / size:.1f}".removesuffix(".0") + suffix
    return format_quantity(name, value)
