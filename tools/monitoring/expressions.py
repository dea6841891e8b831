"""PromQL of the dashboards; recording rules compute the same (tests compare them).

Series of one operator are told from another's by `SOURCE`; labels that an installation does not have do not matter.
`max` is over the operator's processes: only the one that leads has figures of policies.
"""

SOURCE = "cluster, namespace, job"
BY_POLICY = f"{SOURCE}, policy"
INSTANT_SECONDS = 2
STARTS = "slack_instant_start_seconds"


def instant_ratio(window: str, matchers: str = "", labels: str = BY_POLICY) -> str:
    """The share of real pods bound within two seconds; none where no pod started."""
    inside = f'{{le="{float(INSTANT_SECONDS)}"{", " if matchers else ""}{matchers}}}'
    outside = f"{{{matchers}}}" if matchers else ""
    count = f"sum by ({labels}) (rate({STARTS}_count{outside}[{window}]))"
    return f"sum by ({labels}) (rate({STARTS}_bucket{inside}[{window}])) / ({count} > 0)"


def quantile(share: float, window: str, matchers: str = "", labels: str = BY_POLICY) -> str:
    """A quantile of the time from creation to binding."""
    inside = f"{{{matchers}}}" if matchers else ""
    return f"histogram_quantile({share:g}, sum by ({labels}, le) (rate({STARTS}_bucket{inside}[{window}])))"
