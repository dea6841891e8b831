"""Commands that run a process: their flags are the process's settings, made from the one declaration of each."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from slack.process.settings import Declared, Settings, declared_settings

Run = Callable[[dict[str, object], Path | None], None]
"""Takes what the flags say, by setting name, None for one that was not given; and the settings file."""


def process_command(kind: type[Settings]) -> Callable[[Run], Callable[..., None]]:
    """Give a command the flags of a process, and `--config`."""
    config = typer.Option(
        "--config", help="YAML file with these flags' names as keys, without the dashes.", metavar="FILE"
    )
    types: dict[str, Any] = {found.name: _type(found) for found in declared_settings(kind)}
    types["config"] = Annotated[Path | None, config]

    def decorate(run: Run) -> Callable[..., None]:
        def command(config: Path | None, **flags: object) -> None:
            run(flags, config)

        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter(name, keyword, default=None, annotation=type_) for name, type_ in types.items()]
        command.__name__, command.__doc__ = run.__name__, run.__doc__
        command.__annotations__ = types
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
        return command

    return decorate


def _type(found: Declared) -> Any:
    default = found.default_text
    if found.is_switch:
        text = f"{found.meaning} Default: {'yes' if found.default else 'no'}."
        return Annotated[bool | None, typer.Option(f"{found.flag}/--no-{found.key}", help=text)]
    text = found.meaning if default is None else f"{found.meaning} Default: {default}."
    option = typer.Option(found.flag, help=text, metavar=found.metavar, show_default=False)
    return Annotated[Path | None, option] if found.metavar == "FILE" else Annotated[str | None, option]
