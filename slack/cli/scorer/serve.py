"""`scorer serve`: runs the extender, in or out of a cluster. Flags win over environment, file and defaults."""

import os
from pathlib import Path

import typer

from slack.cli.inputs.process_command import process_command
from slack_operator.scorer.settings import ScorerSettings


@process_command(ScorerSettings)
def serve(flags: dict[str, object], config: Path | None) -> None:
    """Answer the scheduler's /prioritize with scores by real load, until told to stop (SIGTERM, Ctrl-C).

    Each flag is also an environment variable, such as RESOURCE_SLACK_SCORER_ALGORITHMS, and a key of --config.

    [bold]Examples[/bold]

        resource-slack scorer serve --load-watcher http://127.0.0.1:2020 --algorithms TargetLoadPacking

        resource-slack scorer serve --config scorer.yaml
    """
    from slack.process.settings import load

    settings = load(ScorerSettings, flags, os.environ, file=config)
    from slack_operator.scorer.process import run

    raise typer.Exit(run(settings))
