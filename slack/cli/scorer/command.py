"""`scorer`: load-aware scores for the stock kube-scheduler.

Only what gathers the subcommands is here; each loads what it needs when it runs.
"""

import typer

from slack.cli.scorer.explain import explain
from slack.cli.scorer.scheduler_config import scheduler_config
from slack.cli.scorer.score import score
from slack.cli.scorer.serve import serve
from slack.cli.terminal.problems import Command, CommandGroup

app = typer.Typer(cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def scorer() -> None:
    """Score nodes by what is really used there, for the stock kube-scheduler."""


app.command(cls=Command)(serve)
app.command(cls=Command)(score)
app.command(cls=Command)(explain)
app.command("scheduler-config", cls=Command)(scheduler_config)
