"""What room costs: its share of the nodes that it stands on, in money where nodes have prices, else in nodes."""

from dataclasses import dataclass

from slack.cluster.node_prices import HOURS_PER_MONTH


@dataclass(frozen=True, slots=True)
class PlanCost:
    """What the placeholders of a policy cost when the plan is carried out."""

    nodes: float
    """How many of the policy's nodes they amount to, by cpu or memory, whichever is more."""
    per_hour: float | None = None
    """In money; None where no node of the policy has a price."""
    currency: str = ""
    """'' where prices have none."""
    node_per_hour: float | None = None
    """What a node of the policy costs on average, of those that have a price."""
    unpriced_nodes: int = 0
    """Nodes of the policy without a price; they count with the average of the others."""

    @property
    def nodes_per_month(self) -> float:
        """Node hours per month."""
        return self.nodes * HOURS_PER_MONTH

    @property
    def per_month(self) -> float | None:
        """In money; None without prices."""
        return None if self.per_hour is None else self.per_hour * HOURS_PER_MONTH

    def of_nodes(self, count: int) -> str | None:
        """Say what so many nodes cost in money; None where no node has a price."""
        if self.node_per_hour is None:
            return None
        return f"cost {in_money(self.node_per_hour * count, self.currency)}"

    def __str__(self) -> str:
        """As it is shown everywhere: `0.48 EUR per hour, 350 EUR per month (1.2 nodes)`."""
        plural = "" if figure(self.nodes) == "1" else "s"
        nodes = f"{figure(self.nodes)} node{plural}"
        if self.per_hour is None:
            unpriced = "; no node of the policy has a price" if self.unpriced_nodes else ""
            return f"{nodes}{unpriced}"
        counted = "1 node of the policy has" if self.unpriced_nodes == 1 else f"{self.unpriced_nodes} nodes of it have"
        unpriced = f"; {counted} no price" if self.unpriced_nodes else ""
        return f"{in_money(self.per_hour, self.currency)} ({nodes}{unpriced})"


def in_money(per_hour: float, currency: str) -> str:
    """Return what something costs: `0.48 EUR per hour, 350 EUR per month`."""
    unit = f" {currency}" if currency else ""
    return f"{figure(per_hour)}{unit} per hour, {figure(per_hour * HOURS_PER_MONTH)}{unit} per month"


def figure(value: float) -> str:
    """Return a figure with three digits, or all those before the point: it moves only when somebody would care."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 or not value else f"{value:.1g}"
