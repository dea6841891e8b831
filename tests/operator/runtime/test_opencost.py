"""Prices of nodes out of the text of OpenCost's /metrics."""

import pytest

from slack.cluster.node_prices import InvalidPrices, LabelPrice, NodePrices
from slack_operator.runtime.opencost import opencost_prices
from tests.cases import run_for_each

METRICS = """\
# HELP node_total_hourly_cost node_total_hourly_cost Total node cost per hour
# TYPE node_total_hourly_cost gauge
node_total_hourly_cost{arch="amd64",instance="a",instance_type="m7i.large",node="a",provider_id="i-1",region="r",uid="1"} 0.1
node_total_hourly_cost{arch="amd64",instance="b",instance_type="m7i.large",node="b",provider_id="i-2",region="r",uid="2"} 0.04
node_total_hourly_cost{arch="amd64",instance="c",instance_type="c7i.xlarge",node="c",provider_id="i-3",region="r",uid="3"} 0.2
node_total_hourly_cost{arch="amd64",instance="d",instance_type="",node="d",provider_id="",region="",uid="4"} 0.5
node_total_hourly_cost{arch="amd64",instance="e",instance_type="odd",node="e",provider_id="",region="",uid="5"} NaN
# TYPE node_cpu_hourly_cost gauge
node_cpu_hourly_cost{arch="amd64",instance="a",instance_type="m7i.large",node="a",provider_id="i-1",region="r",uid="1"} 0.03
node_cpu_hourly_cost{arch="amd64",instance="c",instance_type="c7i.xlarge",node="c",provider_id="i-3",region="r",uid="3"} 0.05
node_ram_hourly_cost{arch="amd64",instance="a",instance_type="m7i.large",node="a",provider_id="i-1",region="r",uid="1"} 0.004
container_cpu_allocation{namespace="shop",pod="api",container="c",instance="a",node="a",uid="1"} 1
node_gpu_hourly_cost{arch="amd64",instance="a",instance_type="m7i.large",node="a",provider_id="i-1",region="r",uid="1"} 0
"""  # noqa: E501 - lines as OpenCost writes them


def test_a_type_costs_what_its_nodes_cost_on_average() -> None:
    found = opencost_prices(METRICS.splitlines(), "USD")
    assert found == NodePrices("USD", (("c7i.xlarge", 0.2), ("m7i.large", 0.07)), (), 0.04, 0.004)


def test_given_prices_win_and_others_complete_them() -> None:
    given = NodePrices("EUR", (("m7i.large", 0.09),), (LabelPrice((("pool", "gpu"),), 3.1),))
    found = given.completed_by(opencost_prices(METRICS.splitlines()))
    assert found.currency == "EUR"
    assert found.named({"node.kubernetes.io/instance-type": "m7i.large"}) == 0.09
    assert found.named({"node.kubernetes.io/instance-type": "c7i.xlarge"}) == 0.2
    assert found.named({"node.kubernetes.io/instance-type": "c7i.xlarge", "pool": "gpu"}) == 3.1
    assert found.price_of({}, 2000, 4 << 30) == pytest.approx(2 * 0.04 + 4 * 0.004)
    alone = NodePrices(cpu=1.0).completed_by(found)
    assert (alone.cpu, alone.memory) == (1.0, 0.0), "a price of a core is not mixed with another's of memory"


@run_for_each(
    "text",
    [
        "",
        "<html>not found</html>",
        'container_cpu_allocation{node="a"} 1',
        'node_total_hourly_cost{instance_type="m"} 0',
        'node_total_hourly_cost{instance_type="m"} cheap',
        'node_total_hourly_cost{instance_type="m"',
    ],
)
def test_what_has_no_price_is_refused(text: str) -> None:
    with pytest.raises(InvalidPrices):
        opencost_prices(text.splitlines())
