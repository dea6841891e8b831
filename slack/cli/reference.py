"""`reference`: the generated pages of docs/reference, one a subject, from the code that does the work."""

from enum import StrEnum
from typing import Annotated

import typer


class Subject(StrEnum):
    """What there is a reference of."""

    SCENARIO = "scenario"
    SLACKPOLICY = "slackpolicy"
    FLAGS = "flags"
    METRICS = "metrics"
    EVENTS = "events"
    CPUAUDITPOLICY = "cpuauditpolicy"
    CPUAUDITREPORT = "cpuauditreport"


def reference(
    subject: Annotated[Subject, typer.Argument(help="What to print the reference of.")] = Subject.SCENARIO,
) -> None:
    """Print a reference as Markdown: of a kind, of scenarios, of flags, of metrics, or of Events and conditions.

    [bold]Examples[/bold]

        resource-slack reference slackpolicy | less

        resource-slack reference flags > flags.md
    """
    typer.echo(written(subject), nl=False)


def written(subject: Subject) -> str:
    """Return the whole page."""
    match subject:
        case Subject.SCENARIO:
            from slack.simulator.reference import reference as scenario

            return scenario()
        case Subject.SLACKPOLICY:
            from slack.cli.reference_policy import page as policy

            return policy()
        case Subject.FLAGS:
            from slack.cli.reference_flags import page as flags

            return flags()
        case Subject.METRICS:
            from slack.cli.reference_metrics import page as metrics

            return metrics()
        case Subject.EVENTS:
            from slack.cli.reference_events import page as events

            return events()
        case Subject.CPUAUDITPOLICY:
            from slack.cli.reference_audit import policy_page

            return policy_page()
        case Subject.CPUAUDITREPORT:
            from slack.cli.reference_audit import report_page

            return report_page()


if __name__ == "__main__":
    reference()
