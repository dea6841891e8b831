"""The reference of the operator's metrics, from the list that makes them."""

from slack.cli.reference_text import head, table

_TEXT = """
The operator serves them at `/metrics` of `--listen` (see [flags](flags.md)), beside those of its process (`process_*`).
Alerts and a dashboard that use them come with the chart; `resource-slack monitoring` prints both.
"""


def page() -> str:
    """Return the whole page."""
    from slack_operator.metrics import described

    rows = [
        (f"`{one.name}`", one.type, ", ".join(f"`{label}`" for label in one.labels), one.unit, one.help)
        for one in sorted(described(), key=lambda one: one.name)
    ]
    columns = ("metric", "type", "labels", "unit", "meaning")
    return head("Metrics", "operator/slack_operator/families.py", _TEXT) + "\n" + table(columns, rows)
