"""`completion`: prints what a shell, or kubectl, needs to complete commands, flags and names of policies."""

from enum import StrEnum
from typing import Annotated

import typer


class For(StrEnum):
    """Who is to complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    KUBECTL = "kubectl"


def completion(
    shell: Annotated[For, typer.Argument(help="Who is to complete.", show_default=False)],
) -> None:
    """Print a script that completes commands, flags, values and names of policies.

    kubectl looks for a program kubectl_complete-slack on the PATH; the package installs one, and `completion kubectl`
    prints one for other ways of installing.

    [bold]Examples[/bold]

        source <(resource-slack completion bash)

        resource-slack completion zsh > "${fpath[1]}/_resource-slack"

        resource-slack completion fish > ~/.config/fish/completions/resource-slack.fish

        resource-slack completion kubectl > ~/bin/kubectl_complete-slack; chmod +x ~/bin/kubectl_complete-slack
    """
    from slack.cli.completing import SCRIPTS

    typer.echo(SCRIPTS[shell.value], nl=False)
