"""What nodes cost, as OpenCost exports it: the lines of its /metrics that have a node's price, as `NodePrices`.

OpenCost has one line for each node: `node_total_hourly_cost{instance_type="m7i.2xlarge",...} 0.4`, and the same for one
core (`node_cpu_hourly_cost`) and one GiB (`node_ram_hourly_cost`). Nodes of one type can differ (spot, discounts), so a
type costs what its nodes cost on average. The prices of a core and of a GiB are for nodes whose type is not there.
"""

import math
from collections import defaultdict
from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families

from slack.cluster.node_prices import HIGHEST, InvalidPrices, NodePrices

TOTAL, CPU, RAM = "node_total_hourly_cost", "node_cpu_hourly_cost", "node_ram_hourly_cost"
BEGINNINGS = tuple(f"{name}{{" for name in (TOTAL, CPU, RAM))
"""Of the lines that count; of containers OpenCost has thousands more."""


def opencost_prices(lines: Iterable[str], currency: str = "") -> NodePrices:
    """Return the prices that these lines give.

    Args:
        lines: of the text format; all but those that begin with `BEGINNINGS` are left out.
        currency: the word that is printed after each figure. OpenCost exports none.

    Raises:
        InvalidPrices: no line has the price of a node, or one is no line of the format.
    """
    chosen = "".join(f"{line.rstrip()}\n" for line in lines if line.startswith(BEGINNINGS))
    found: dict[str, dict[str, list[float]]] = {
        TOTAL: defaultdict(list),
        CPU: defaultdict(list),
        RAM: defaultdict(list),
    }
    try:
        for family in text_string_to_metric_families(chosen):
            for sample in family.samples:
                if math.isfinite(sample.value) and 0 < sample.value <= HIGHEST:
                    found[sample.name][sample.labels.get("instance_type", "")].append(sample.value)
    except (ValueError, KeyError, IndexError) as error:
        raise InvalidPrices(f"this is no text of OpenCost's /metrics: {error}") from None
    types = tuple((name, _mean(costs)) for name, costs in sorted(found[TOTAL].items()) if name)
    prices = NodePrices(currency, types, (), _mean_of_all(found[CPU]), _mean_of_all(found[RAM]))
    if not prices:
        raise InvalidPrices(f"there is no node with a price: no line begins with {TOTAL}, {CPU} or {RAM}")
    return prices


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return round(math.fsum(found) / len(found), 6) if found else 0.0


def _mean_of_all(by_type: dict[str, list[float]]) -> float:
    return _mean(value for costs in by_type.values() for value in costs)
