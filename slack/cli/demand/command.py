"""`demand`: container pools that follow their queues.

Only what gathers the subcommands is here; each loads what it needs when it runs.
"""

import typer

from slack.cli.demand.decide import decide
from slack.cli.demand.explain import explain
from slack.cli.demand.processes import controller
from slack.cli.demand.proxy import proxy
from slack.cli.demand.replay import replay
from slack.cli.demand.top import top
from slack.cli.terminal.problems import Command, CommandGroup

app = typer.Typer(cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def demand() -> None:
    """Container pools that follow their queues: who gets containers and why, decided, played, and run."""


app.command(cls=Command)(decide)
app.command(cls=Command)(proxy)
app.command(cls=Command)(explain)
app.command(cls=Command)(replay)
app.command(cls=Command)(top)
app.command(cls=Command)(controller)
