"""`scorer`: load-aware scores for the stock kube-scheduler.

The subcommands are gathered here, with the short ones; each loads what it needs when it runs.
"""

import os
from pathlib import Path

import typer

from slack.cli.inputs.process_command import process_command
from slack.cli.scorer.explain import explain
from slack.cli.scorer.scheduler_config import scheduler_config
from slack.cli.scorer.score import score
from slack.cli.terminal.problems import Command, CommandGroup
from slack_operator.scorer.settings import ScorerSettings


@process_command(ScorerSettings)
def serve(flags: dict[str, object], config: Path | None) -> None:
    """Answer the scheduler's /prioritize with scores by real load, until stopped (SIGTERM, Ctrl-C).

    Each flag is also an environment variable, such as RESOURCE_SLACK_SCORER_ALGORITHMS, and a key of --config.

    [bold]Examples[/bold]

        resource-slack scorer serve --load-watcher http://127.0.0.1:2020 --algorithms TargetLoadPacking

        resource-slack scorer serve --config scorer.yaml
    """
    from slack.process.settings import load

    settings = load(ScorerSettings, flags, os.environ, file=config)
    from slack_operator.scorer.process import run

    raise typer.Exit(run(settings))


app = typer.Typer(cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def scorer() -> None:
    """Score nodes by what is really used there, for the stock kube-scheduler."""


app.command(cls=Command)(serve)
app.command(cls=Command)(score)
app.command(cls=Command)(explain)
app.command("scheduler-config", cls=Command)(scheduler_config)
