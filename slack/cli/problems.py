"""What a user is told when something is wrong: one clear line, an exit code, never a traceback.

Every error that a room raises on purpose becomes its own text and exit code 2. Anything else is a mistake of ours: it
is said in one line too, with the way to see the traceback, and exit code 1. So is output that cannot be written.
"""

import errno
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from slack.cli.interrupts import interrupted

BAD_INPUT = 2
INFEASIBLE = 3
OUR_MISTAKE = 1
NOT_WRITTEN = 1
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
_DEBUG = "RESOURCE_SLACK_DEBUG"


class UserError(Exception):
    """Something that the user can mend; the text names it and says what would be right."""


def _domain_errors() -> tuple[type[BaseException], ...]:
    # Only classes of modules that are loaded can have been raised; nothing is imported for their sake.
    names = (
        ("slack.planner.policy", "BadPolicy"),
        ("slack.cluster.load", "BadSnapshot"),
        ("slack.kube.errors", "KubeError"),
        ("slack.process.settings", "BadSettings"),
        ("slack.planner.explain", "NotFoundError"),
        ("slack.simulator.scenario", "BadScenario"),
        ("slack.simulator.traceformat", "BadTrace"),
        ("slack.cfs.mounts", "BadMounts"),
        ("slack.process.audit_settings", "BadAuditSettings"),
    )
    found = (getattr(sys.modules.get(module), name, None) for module, name in names)
    return UserError, *(one for one in found if isinstance(one, type))


def _end(lines: str, code: int) -> NoReturn:
    # What is quoted from a damaged file must not move a terminal's cursor or ring its bell.
    first, *rest = [_printable(line) for line in lines.rstrip().split("\n")] if lines.strip() else ["it gave no reason"]
    typer.echo("\n  ".join([f"error: {first}", *rest]), err=True)
    raise typer.Exit(code)


def _printable(line: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)


def _text(error: BaseException) -> str:
    problems = getattr(error, "problems", None)
    if isinstance(problems, tuple) and len(problems) > 1:
        source = getattr(error, "source", "settings")
        return "\n".join([f"{source}: {len(problems)} problems", *map(str, problems)])
    return str(error)


def _shielded(run: Callable[[], Any]) -> Any:
    """Run one command and turn what goes wrong into words and an exit code."""
    try:
        result = run()
        sys.stdout.flush()  # here, where a reader that has gone is still ours to handle
        return result
    except BrokenPipeError:
        _discard_output()  # `| head` has what it wants, and nobody is left to tell
        raise typer.Exit(0) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        if interrupted():
            raise KeyboardInterrupt from None  # a library has told it as an error of its own
        if _is_unwritable(error):
            raise  # to `output_checked`, which sees what the command line library prints too
        if isinstance(error, _domain_errors()):
            _end(_text(error), BAD_INPUT)
        if os.environ.get(_DEBUG):
            raise
        problem = f"{type(error).__name__}: {error}"
        _end(f"this is a mistake in resource-slack: {problem} (set {_DEBUG}=1 to see where)", OUR_MISTAKE)


@contextmanager
def output_checked() -> Iterator[None]:
    """Around the whole program: output that cannot be written is one line and no success, for help texts too."""
    if sys.stdout is None:
        # Closed by the caller (`>&-`). Python then drops what is printed; written to this, it fails as it should.
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    except OSError as error:
        if not _is_unwritable(error):
            raise
        _discard_output()
        print(f"error: the output cannot be written: {(error.strerror or str(error)).lower()}", file=sys.stderr)
        sys.exit(NOT_WRITTEN)


def _is_unwritable(error: BaseException) -> bool:
    """Whether writing to something that was open has failed; errors of opening a file have its name."""
    return isinstance(error, OSError) and error.errno in _UNWRITABLE and error.filename is None


def _discard_output() -> None:
    """Let what is still buffered go nowhere, or Python would complain once more at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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

    def invoke(self, ctx: Any) -> Any:
        """Run the command; usage errors are found before and are the command line library's to tell."""
        return _shielded(lambda: super(Command, self).invoke(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Rewrite `--switch=false` to `--no-switch` before the options are read."""
        return super().parse_args(ctx, _plain_switches(self.params, args))


class Group(TyperGroup):
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
            self.callback = wraps(run)(lambda *a, **k: _shielded(lambda: run(*a, **k)))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Rewrite `--switch=false` to `--no-switch` before the options are read."""
        return super().parse_args(ctx, _plain_switches(self.params, args))


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
