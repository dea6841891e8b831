"""`reference`: the generated pages of docs/reference, one a subject, from the code that does the work."""

from enum import StrEnum
from typing import Annotated, Any

import typer


class ReferenceSubject(StrEnum):
    """What there is a reference of."""

    SCENARIO = "scenario"
    SLACKPOLICY = "slackpolicy"
    FLAGS = "flags"
    METRICS = "metrics"
    EVENTS = "events"
    CPUAUDITPOLICY = "cpuauditpolicy"
    CPUAUDITREPORT = "cpuauditreport"
    LOAD_WATCHER = "load-watcher"
    THROTTLEPOLICY = "throttlepolicy"
    THROTTLER = "throttler"
    DEMAND_LINES = "demand-lines"
    ACTIVATIONPOOL = "activationpool"
    ACTIVATIONQUOTA = "activationquota"


def reference(
    ctx: typer.Context,
    subject: Annotated[
        ReferenceSubject, typer.Argument(help="What to print the reference of.")
    ] = ReferenceSubject.SCENARIO,
) -> None:
    """Print a reference as Markdown: of a kind, of scenarios, of flags, of metrics, or of Events and conditions.

    [bold]Examples[/bold]

        resource-slack reference slackpolicy | less

        resource-slack reference flags > flags.md
    """
    typer.echo(render_page(subject, ctx.find_root().command), nl=False)


def render_page(subject: ReferenceSubject, root: Any) -> str:
    """Return the whole page; `root` is the program's own command, whose flags are listed."""
    match subject:
        case ReferenceSubject.SCENARIO:
            from slack.simulator.scenario.reference import reference as scenario

            return scenario()
        case ReferenceSubject.SLACKPOLICY:
            from slack.cli.reference.policy import page as policy

            return policy()
        case ReferenceSubject.FLAGS:
            from slack.cli.reference.flags import page as flags

            return flags(root)
        case ReferenceSubject.METRICS:
            from slack.cli.reference.metrics import page as metrics

            return metrics()
        case ReferenceSubject.EVENTS:
            from slack.cli.reference.events import page as events

            return events()
        case ReferenceSubject.CPUAUDITPOLICY:
            from slack.cli.reference.audit import policy_page

            return policy_page()
        case ReferenceSubject.CPUAUDITREPORT:
            from slack.cli.reference.audit import report_page

            return report_page()
        case ReferenceSubject.LOAD_WATCHER:
            from slack.cli.reference.load_watcher import page as load_watcher

            return load_watcher()
        case ReferenceSubject.THROTTLEPOLICY:
            from slack.cli.reference.throttler import policy_page as throttle_policy

            return throttle_policy()
        case ReferenceSubject.THROTTLER:
            from slack.cli.reference.throttler import scenario_page

            return scenario_page()
        case ReferenceSubject.DEMAND_LINES:
            from slack.cli.reference.demand import lines_page

            return lines_page()
        case ReferenceSubject.ACTIVATIONPOOL:
            from slack.cli.reference.pools import pool_page

            return pool_page()
        case ReferenceSubject.ACTIVATIONQUOTA:
            from slack.cli.reference.pools import quota_page

            return quota_page()
