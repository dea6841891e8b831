"""Optional parts of the installation: what a command says when one that it needs is not there."""

from importlib.util import find_spec

from slack.cli.terminal.problems import UserError


def require_extra(module: str, extra: str, why: str) -> None:
    """Say how to install what an optional part needs.

    Raises:
        UserError: when it is not installed.
    """
    if find_spec(module) is None:
        raise UserError(f"{why}: this needs {module}; install it with: pip install 'resource-slack[{extra}]'")
