"""How quickly nodes are scored, both sides in one run.

Usage:
    python -m benchmarks.scoring
    python -m benchmarks.scoring -o json
"""

from benchmarks.report import parser, show
from benchmarks.scoring import extender_http, handler, placement


def main() -> None:
    """Measure and print."""
    arguments = parser("How quickly nodes are scored.")
    arguments.add_argument("--runs", type=int, default=handler.RUNS, help="calls that are measured")
    given = arguments.parse_args()
    show([handler.report(given.runs), extender_http.report(given.runs), placement.report()], given.output)


if __name__ == "__main__":
    main()
