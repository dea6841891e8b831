"""Shares, times, counts and costs of simulations as people read them: the same in every table and sentence."""

from slack.simulator.runs.baselines import CORE_HOURS, NODE_HOURS


def percent(share: float) -> str:
    """Return a share with one digit; 99.96 is not 100."""
    text = f"{share * 100:.1f} %"
    return "> 99.9 %" if share < 1 and text == "100.0 %" else text


def seconds(value: float) -> str:
    """Return a time to bind as people say it."""
    value = round(value, 6)  # of sums: 0.04999... is 0.05
    if value < 10:
        return f"{value:.1f} s"
    return f"{value:.0f} s" if value < 600 else f"{value / 60:.0f} min"


def number(value: float) -> str:
    """Return a count; a small mean of counts has one digit."""
    return f"{value:.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"


def percents(low: float, high: float) -> str:
    """Return an interval of shares; one that ends below 100 % does not read as 100.0."""
    texts = ("99.9" if share < 1 and f"{share * 100:.1f}" == "100.0" else f"{share * 100:.1f}" for share in (low, high))
    return f"{' to '.join(texts)} %"


def hours_text(hours: float) -> str:
    """Return a time that pods waited together."""
    return f"{hours:.1f} h" if hours >= 1 else f"{hours * 60:.0f} min"


def span(value: float) -> str:
    """Return how long a scenario was measured."""
    if value < 600:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 3 * 3600 else f"{value / 3600:.1f} h"


def cost_text(currency: str) -> str:
    """Say what costs are in: money, or the hours that take its place."""
    if currency in (NODE_HOURS, CORE_HOURS):
        return f"in {currency} (there are no prices)"
    return f"in {currency}" if currency else "in the currency of the prices"
