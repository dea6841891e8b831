"""A process started without the command line's libraries: `python -m MODULE --flag=value ...`, flags as declared."""

import os
import sys
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from slack.process.exit_codes import BAD_INPUT
from slack.process.settings import InvalidSettings, Kind, declared_settings, flag, load


def main(kind: type[Kind], run: Callable[[Kind], int], arguments: Sequence[str] | None = None) -> int:
    """Run a process with the settings of its arguments; returns its exit code."""
    parser = ArgumentParser(allow_abbrev=False, argument_default=SUPPRESS)
    parser.add_argument("--config", type=Path, metavar="FILE")
    for found in declared_settings(kind):
        meaning = found.meaning.replace("%", "%%")
        if found.is_switch:
            parser.add_argument(found.flag, nargs="?", const=True, metavar="true|false", help=meaning)
            parser.add_argument(f"--no-{found.key}", dest=found.name, action="store_false", help=SUPPRESS)
        else:
            parser.add_argument(found.flag, metavar=found.metavar, help=meaning)
    known, rest = parser.parse_known_args(arguments)
    given = vars(known)
    file = given.pop("config", None)
    try:
        if rest:
            raise InvalidSettings(tuple(f"{word.partition('=')[0]}: unknown flag" for word in rest))
        settings = load(kind, given, os.environ, file=file)
    except InvalidSettings as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return BAD_INPUT
    return run(settings)


def words(flags: Mapping[str, object]) -> list[str]:
    """Write flags, those that are None left out, as `main` reads them."""
    return [f"{flag(name)}={value}" for name, value in flags.items() if value is not None]
