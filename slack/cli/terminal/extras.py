"""Optional parts of the installation: what a command says when one that it needs is not there."""

from importlib.util import find_spec

from slack.cli.terminal.problems import UserError


def require_extra(module: str, extra: str, why: str) -> None:
    """Say how to install what an optional part needs.

    Raises:
        UserError: when it is not installed.
    """
    if find_spec(module) is None:
        raise UserError(f"{why}: this needs {module}; install it with: pip install '{requirement_of(module, extra)}'")


def requirement_of(module: str, extra: str) -> str:
    """Return what the extra asks for, `pyarrow>=18`: that is found wherever this program came from."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        asked = requires("resource-slack") or []
    except PackageNotFoundError:  # run as it lies in a checkout
        asked = []
    for line in asked:
        requirement, _, condition = line.partition(";")
        if requirement.strip().startswith(module) and extra in condition:
            return requirement.strip()
    return module
