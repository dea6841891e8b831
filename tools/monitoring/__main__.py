"""Print a Grafana dashboard, from the panels of this package.

    python -m tools.monitoring operator > slack/monitoring/dashboards/operator.json   # `make monitoring` writes all

`make monitoring` and `make check-monitoring` use it. The same code gives the same bytes.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from functools import partial

from tools.monitoring.dashboard import DASHBOARDS, dashboard


def dashboard_text(component: str) -> str:
    """Return the dashboard of a component as Grafana imports it."""
    return json.dumps(dashboard(component), indent=2, ensure_ascii=False) + "\n"


FILES: Mapping[str, Callable[[], str]] = {component: partial(dashboard_text, component) for component in DASHBOARDS}
"""What can be printed: the dashboard of each component."""


def main() -> None:
    """Print one of the dashboards."""
    parser = argparse.ArgumentParser(prog="python -m tools.monitoring", description="Print a dashboard.")
    parser.add_argument("file", choices=FILES)
    sys.stdout.write(FILES[parser.parse_args().file]())


if __name__ == "__main__":
    main()
