"""SlackPolicies and leases as an API server shows them."""

from datetime import UTC, datetime, timedelta
from typing import Any

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
GOOD = {"Ready": "Accepted", "SlackSatisfied": "Reserved", "Covered": "CoverageReached"}


def conditions(**reasons: str) -> list[dict[str, str]]:
    """Conditions that are all well, but for those given as Type=Reason."""
    bad_when_true = (
        "PinsNodes",
        "LimitReached",
        "AutoscalerIgnoresPlaceholders",
        "ViewStale",
        "PreemptionStuck",
        "PlaceholdersChanged",
        "Stalled",
    )
    return [
        {
            "type": kind,
            "status": "True" if (kind in reasons) == (kind in bad_when_true) else "False",
            "reason": reasons.get(kind, GOOD.get(kind, "NothingRefused")),
            "message": f"message of {kind}" if kind in reasons else "well",
            "lastTransitionTime": "2026-03-01T11:48:00Z",
        }
        for kind in {**GOOD, **reasons}
    ]


def policy(name: str = "web", *, generation: int = 1, observed: int = 1, dry_run: bool = False, **reasons: str) -> Any:
    shape = {"name": "c3cd", "role": "cover", "requests": {"cpu": "800m"}, "count": 3, "replicas": 3, "bound": 3}
    return {
        "metadata": {"name": name, "generation": generation},
        "spec": {"dryRun": dry_run},
        "status": {
            "observedGeneration": observed,
            "nodes": 4,
            "summary": {"rate": "20%", "desired": "1920m/2.4Gi", "reserved": "2400m/3Gi"},
            "pending": 0,
            "instantStart": "98%",
            "timeToReady": {
                "pods": 40,
                "p50": "3.1s",
                "p99": "41s",
                "text": "p50 3.1 s, p99 41 s; 12 of 40 pods pulled images: 6.1 GB in all, 38 s each",
                "workloads": [
                    {
                        "workload": "shop/deploy/api",
                        "pods": 40,
                        "bound": "0.1s",
                        "image": "38s",
                        "started": "40s",
                        "ready": "41s",
                        "p99": "41s",
                        "pulled": "6.1 GB",
                    }
                ],
            },
            "displaced": {"total": 7, "since": "2026-03-01T08:00:00Z"},
            "shapes": [{**shape, "for": ["shop/deploy/api"]}],
            "uncovered": [{"pod": "db/sts/postgres", "reason": "excluded by annotation"}],
            "burst": 3,
            "sustained": "1.4/min",
            "conditions": conditions(**reasons),
        },
    }


def lease(
    age: float = 2.0, holder: str = "pod-a_1", now: datetime = NOW, *, built_in: bool | None = None
) -> dict[str, Any]:
    """As its holder writes it; `built_in` is what it says of the built-in policy, None for one that says nothing."""
    renewed = (now - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    said = {} if built_in is None else {"resource-slack.io/built-in-policy": str(built_in).lower()}
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}
    return {"metadata": {"annotations": said}, "spec": spec}
