"""What a user is told when something is wrong: one clear line, an exit code, never a traceback.

Every error that a room raises on purpose becomes its own text and exit code 2. Anything else is a mistake of ours: it
is said in one line too, with the way to see the traceback, and exit code 1.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand

BAD_INPUT = 2
INFEASIBLE = 3
OUR_MISTAKE = 1
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
    )
    found = (getattr(sys.modules.get(module), name, None) for module, name in names)
    return UserError, *(one for one in found if isinstance(one, type))


def _end(lines: str, code: int) -> NoReturn:
    first, *rest = lines.splitlines() or ["it gave no reason"]
    typer.echo("\n  ".join([f"error: {first}", *rest]), err=True)
    raise typer.Exit(code)


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
        # `| head` has what it wants: nobody is left to tell, and Python would complain once more at exit.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        if isinstance(error, _domain_errors()):
            _end(_text(error), BAD_INPUT)
        if os.environ.get(_DEBUG):
            raise
        problem = f"{type(error).__name__}: {error}"
        _end(f"this is a mistake in resource-slack: {problem} (set {_DEBUG}=1 to see where)", OUR_MISTAKE)


class Command(TyperCommand):
    """A command behind the shield, whose switches also take `=true` and `=false` as kubectl's do."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; usage errors are found before and are the command line library's to tell."""
        return _shielded(lambda: super(Command, self).invoke(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Rewrite `--switch=false` to `--no-switch` before the options are read."""
        switches = {
            option: parameter.secondary_opts[0]
            for parameter in self.params
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
        return super().parse_args(ctx, rewritten)
