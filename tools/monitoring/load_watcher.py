"""The load watcher's own alerts: what its metrics show and nobody behind it sees."""

from tools.monitoring.expressions import SOURCE
from tools.monitoring.rules import Alert, AlertSeverity


def _fetches(outcome: str) -> str:
    return f'sum by ({SOURCE}) (increase(slack_load_watcher_fetches_total{{outcome="{outcome}"}}[10m]))'


ALERTS = (
    Alert(
        "ResourceSlackLoadFetchFails",
        f"{_fetches('failed')} > 0 unless {_fetches('fetched')} > 0",
        AlertSeverity.WARNING,
        "5m",
        "The load watcher gets no figures",
        "Each of {{ $value | humanize }} fetches in 10 minutes has failed. What was fetched before is told for five "
        "minutes; then schedulers know nothing of nodes' use.",
    ),
    Alert(
        "ResourceSlackLoadSeriesUnmatched",
        f"max by ({SOURCE}) (slack_load_watcher_unmatched_series) > 0",
        AlertSeverity.INFO,
        "30m",
        "Figures come under names that are no node's",
        "{{ $value }} names in the provider's answers are no node's name, host name or address, or are those of "
        "several. `resource-slack load-watcher show` has them.",
    ),
    Alert(
        "ResourceSlackLoadSeriesDropped",
        f'sum by ({SOURCE}, reason) (slack_load_watcher_dropped_series{{reason!="Stale"}}) > 0',
        AlertSeverity.INFO,
        "30m",
        "Figures of nodes cannot be believed",
        "{{ $value }} series are left out for half an hour: {{ $labels.reason }}. Load sends their nodes no more pods.",
    ),
    Alert(
        "ResourceSlackLoadWatcherAbsent",
        "absent(slack_load_watcher_build_info)",
        AlertSeverity.WARNING,
        "10m",
        "The load watcher is not scraped",
        "No load watcher is running, or Prometheus does not scrape it. After five minutes the scorer has no "
        "figures of load.",
    ),
)
