"""Print a Grafana dashboard, from the panels of this package.

    python -m tools.monitoring operator > slack/monitoring/dashboards/operator.json   # `make monitoring` writes all

`make monitoring` and `make check-monitoring` use it. The same code gives the same bytes.
"""

import argparse
import json
import sys

from tools.monitoring.dashboard import DASHBOARDS, dashboard


def dashboard_text(component: str) -> str:
    """Return the dashboard of a component as Grafana imports it."""
    return json.dumps(dashboard(component), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Print one of the dashboards."""
    parser = argparse.ArgumentParser(prog="python -m tools.monitoring", description="Print a dashboard.")
    parser.add_argument("component", choices=DASHBOARDS)
    sys.stdout.write(dashboard_text(parser.parse_args().component))


if __name__ == "__main__":
    main()
