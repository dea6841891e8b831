"""`throttler`: start-ups that are paced and ordered.

Only what gathers the subcommands is here; each loads what it needs when it runs.
"""

import typer

from slack.cli.terminal.problems import Command, CommandGroup
from slack.cli.throttler.check import check
from slack.cli.throttler.explain import explain
from slack.cli.throttler.processes import agent, controller
from slack.cli.throttler.release import release
from slack.cli.throttler.simulate import simulate
from slack.cli.throttler.status import status

app = typer.Typer(cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def throttler() -> None:
    """Start-ups that are paced and ordered: who waits and why, policies checked, scenarios played, its processes."""


app.command(cls=Command)(status)
app.command(cls=Command)(explain)
app.command(cls=Command)(check)
app.command(cls=Command)(simulate)
app.command(cls=Command)(release)
app.command(cls=Command)(agent)
app.command(cls=Command)(controller)
