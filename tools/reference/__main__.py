"""Print a generated page of docs/reference, from the code that does the work.

    python -m tools.reference flags > docs/reference/flags.md      # `make reference` writes all pages

`make reference` and `make check-reference` use it. The same code gives the same bytes.
"""

import argparse
import sys
from collections.abc import Callable, Mapping

from tools.reference import audit, demand, events, flags, load_watcher, metrics, policy, pools, scenario, throttler

PAGES: Mapping[str, Callable[[], str]] = {
    "scenario": scenario.page,
    "slackpolicy": policy.page,
    "flags": flags.page,
    "metrics": metrics.page,
    "events": events.page,
    "cpuauditpolicy": audit.policy_page,
    "cpuauditreport": audit.report_page,
    "load-watcher": load_watcher.page,
    "throttlepolicy": throttler.policy_page,
    "throttler": throttler.scenario_page,
    "demand-lines": demand.lines_page,
    "activationpool": pools.pool_page,
    "activationquota": pools.quota_page,
}
"""What there is a page of, and what makes it."""


def main() -> None:
    """Print one page."""
    parser = argparse.ArgumentParser(prog="python -m tools.reference", description="Print a page of docs/reference.")
    parser.add_argument("subject", choices=PAGES)
    sys.stdout.write(PAGES[parser.parse_args().subject]())


if __name__ == "__main__":
    main()
