"""What a user is told when something is wrong: one clear line, an exit code, never a traceback.

A `UserFacingError` becomes its own text and exit code 2. Anything else is a mistake of ours: it
is said in one line too, with the way to see the traceback, and exit code 1. So is output that cannot be written.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from slack.cli.terminal.help_layout import HelpRow, Section, render_help
from slack.cli.terminal.interrupts import is_interrupted
from slack.cli.terminal.output import discard_output, is_unwritable
from slack.errors import UserFacingError
from slack.process.exit_codes import BAD_INPUT, OUR_MISTAKE

_DEBUG = "RESOURCE_SLACK_DEBUG"


class UserError(UserFacingError):
    """Something that the user can mend; the text names it and says what would be right."""


def _end(lines: str, code: int) -> NoReturn:
    # What is quoted from a damaged file must not move a terminal's cursor or ring its bell.
    first, *rest = [_printable(line) for line in lines.rstrip().split("\n")] if lines.strip() else ["it gave no reason"]
    typer.echo("\n  ".join([f"error: {first}", *rest]), err=True)
    raise typer.Exit(code)


def _printable(line: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)


def _text(error: UserFacingError) -> str:
    if len(error.problems) > 1:
        return "\n".join([f"{error.source or 'settings'}: {len(error.problems)} problems", *error.problems])
    return str(error)


def _run_shielded(run: Callable[[], Any]) -> Any:
    """Run one command and turn what goes wrong into words and an exit code."""
    try:
        result = run()
        sys.stdout.flush()  # here, where a reader that has gone is still ours to handle
        return result
    except BrokenPipeError:
        discard_output()  # `| head` has what it wants, and nobody is left to tell
        raise typer.Exit(0) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        if is_interrupted():
            raise KeyboardInterrupt from None  # a library has told it as an error of its own
        if is_unwritable(error):
            raise  # to `output_checked`, which sees what the command line library prints too
        if isinstance(error, UserFacingError):
            _end(_text(error), BAD_INPUT)
        if os.environ.get(_DEBUG):
            raise
        problem = f"{type(error).__name__}: {error}"
        _end(f"this is a mistake in resource-slack: {problem} (set {_DEBUG}=1 to see where)", OUR_MISTAKE)


@contextmanager
def plain_usage_errors() -> Iterator[None]:
    """Print what is wrong with the words of a command line as every other error, with the help to read."""
    try:
        yield
    except typer.TyperException as error:
        found = error.format_message()
        context = getattr(error, "ctx", None)
        help_line = "" if context is None else f"\nSee '{context.command_path} --help'."
        _end(f"{found[:1].lower()}{found[1:]}{help_line}", error.exit_code)


def _flowing(text: str) -> str:
    """Join the lines of each paragraph but of examples, which are indented."""
    return "\n\n".join(part if part[:1] == " " else " ".join(part.split()) for part in text.split("\n\n"))


class Command(TyperCommand):
    """A command behind the shield, whose switches also take `=true` and `=false` as kubectl's do."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Let the paragraphs of the help text flow: the width of our source is not that of a terminal."""
        if kwargs.get("help"):
            kwargs["help"] = _flowing(kwargs["help"])
        super().__init__(*args, **kwargs)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help text in a layout of ours, which cuts nothing."""
        formatter.write(help_text(self, ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run the command; usage errors are found before and are the command line library's to tell."""
        return _run_shielded(lambda: super(Command, self).invoke(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Rewrite `--switch=false` to `--no-switch` before the options are read."""
        with _plain_words():
            return super().parse_args(ctx, _plain_switches(self.params, args))


class CommandGroup(TyperGroup):
    """A command with commands below it that does something by itself too: behind the shield, switches as a command's.

    Only its own callback is shielded here; the commands below it are `Command`s, and usage errors are found outside.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Let the help text flow, and put the shield around what the group does itself."""
        if kwargs.get("help"):
            kwargs["help"] = _flowing(kwargs["help"])
        super().__init__(*args, **kwargs)
        run = self.callback
        if run is not None:
            self.callback = wraps(run)(lambda *a, **k: _run_shielded(lambda: run(*a, **k)))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help text in a layout of ours, which cuts nothing."""
        formatter.write(help_text(self, ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Rewrite `--switch=false` to `--no-switch` before the options are read."""
        if show_help_of_bare(self, ctx, args):
            ctx.exit()
        with _plain_words():
            return super().parse_args(ctx, _plain_switches(self.params, args))


def show_help_of_bare(group: TyperGroup, ctx: Any, args: Sequence[str]) -> bool:
    """Print the help text of a group that was called without a command, as kubectl does, where it does nothing else."""
    if args or not group.no_args_is_help or ctx.resilient_parsing:
        return False
    typer.echo(help_text(group, ctx), nl=False)
    return True


@contextmanager
def _plain_words() -> Iterator[None]:
    """Say what is wrong with a flag's value without the word of the library that reads it."""
    try:
        yield
    except typer.BadParameter as error:
        error.message = error.message.replace("Value error, ", "")
        raise


def help_text(command: Any, ctx: Any) -> str:
    """Return a command's help text, laid out for where it is shown."""
    words = [ctx.command_path, *(_argument(parameter) for parameter in command.params if _is_argument(parameter))]
    panels: dict[str, list[HelpRow]] = {}
    for name in command.list_commands(ctx) if isinstance(command, TyperGroup) else ():
        below = command.get_command(ctx, name)
        if below is not None and not below.hidden:
            summary = _flowing(below.help or "").partition("\n\n")[0]
            panels.setdefault(below.rich_help_panel or "Commands", []).append(HelpRow(name, summary))
    words += ["[COMMAND]"] if panels else []
    shown = [parameter for parameter in command.get_params(ctx) if not parameter.hidden]
    arguments = tuple(
        HelpRow(_argument(parameter), _meaning(parameter)) for parameter in shown if _is_argument(parameter)
    )
    sections = [Section(title, tuple(rows)) for title, rows in panels.items()]
    sections += [Section("Arguments", arguments), *_option_sections(shown)]
    return render_help(" ".join([*words, "[FLAGS]"]), command.help or "", sections, command.epilog or "")


def _option_sections(parameters: Sequence[Any]) -> list[Section]:
    """Return a command's own options, and below them those that it shares with others."""
    titles: dict[str, list[HelpRow]] = {"Options": []}
    for parameter in parameters:
        if not _is_argument(parameter):
            title = getattr(parameter, "rich_help_panel", None) or "Options"
            titles.setdefault(title, []).append(HelpRow(_names(parameter), _meaning(parameter)))
    return [Section(title, tuple(rows)) for title, rows in titles.items()]


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _argument(parameter: Any) -> str:
    name = str(parameter.metavar or parameter.name.upper())
    return name if parameter.required else f"[{name}]"


def _names(parameter: Any) -> str:
    names = sorted(parameter.opts, key=len)  # -f before --filename
    switch = [f"{names[-1]}, {parameter.secondary_opts[0]}"] if parameter.secondary_opts else [names[-1]]
    value = "" if parameter.is_flag or parameter.count else f" {_value(parameter)}"
    return ", ".join([*names[:-1], *switch]) + value


def _value(parameter: Any) -> str:
    choices = getattr(parameter.type_descriptor, "choices", None)
    if parameter.metavar or not choices:
        return str(parameter.metavar or "VALUE")
    return "|".join(str(getattr(choice, "value", choice)) for choice in choices)


def _meaning(parameter: Any) -> str:
    default = getattr(parameter.default, "value", parameter.default)
    said = not parameter.show_default or callable(default) or default in (None, (), [], False, "")
    text = parameter.help or ""
    if parameter.required:
        return f"{text} [required]"
    if said or parameter.param_type_name == "argument":
        return text
    if default is True:
        default = "yes"
    return f"{text} [default: {default}]"


def _plain_switches(parameters: Sequence[Any], args: Sequence[str]) -> list[str]:
    switches = {
        option: parameter.secondary_opts[0]
        for parameter in parameters
        if parameter.secondary_opts
        for option in parameter.opts
    }
    rewritten = []
    for arg in args:
        option, _, value = arg.partition("=")
        if option in switches and value.lower() in ("true", "false"):
            rewritten.append(option if value.lower() == "true" else switches[option])
        else:
            rewritten.append(arg)
    return rewritten
