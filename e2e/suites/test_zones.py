"""Slack for each zone, in both forms of placeholders: a burst that may go to one zone alone starts there."""

from collections import Counter

from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, deployment, wait_for_running
from e2e.harness.product.operator import Operator, binding_seconds, held, policy, wait_until_placed
from slack.cluster.hold import Hold
from slack.cluster.labels import ZONE

ZONES = ("zone-a", "zone-b", "zone-c")


def test_each_zone_holds_its_own_share(cluster: Backend, hold: Hold) -> None:
    api = cluster.api
    create_all(api, [kwok.node(f"node-{i}", zone=ZONES[i % 3]) for i in range(6)])
    for zone in ZONES:
        api.create(deployment(f"api-{zone}", 6, cpu="800m", memory="1Gi", nodeSelector={ZONE: zone}))
    wait_for_running(api, 18, 60)
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        api.create(policy("default", hold=hold, perDomain="Zone", extraCapacity={"minRate": 0.2}))
        wait_until_placed(api, "default", 60)
        shares = Counter(pod["spec"].get("nodeSelector", {}).get(ZONE) for pod in held(api, hold))
        assert set(shares) == set(ZONES)
        assert len(set(shares.values())) == 1, shares

        def burst() -> None:
            api.create(deployment("burst", 1, cpu="800m", memory="1Gi", nodeSelector={ZONE: "zone-a"}))

        assert binding_seconds(api, burst, 1, 20, "burst")[-1] < 2.0
