#!/usr/bin/env -S python3 -IS
"""runc for a machine that lacks CAP_SYS_RESOURCE: takes it out of what containers ask for, and then is runc.

A privileged container asks for every capability that runc knows, and runc cannot give one that it does not have
itself ("unable to apply caps"). Docker hands a container's wishes over in the bundle's config.json (`create`, `run`,
`restore`) and those of one more process in a file (`exec --process`). Limits (`rlimits`) are raised with the same
capability, so they go as well.

Only the standard library: it runs as a program of its own, once for each container and each exec. `RUNC` names runc.
"""

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CAPABILITY = "CAP_SYS_RESOURCE"
WITH_BUNDLE = ("create", "run", "restore")
_TAKES_A_VALUE = ("--log", "--log-format", "--root", "--criu", "--rootless")


def bounded(process: dict[str, Any]) -> dict[str, Any]:
    """Return an OCI process without the capability, without rlimits, and with no OOM score that takes it to set."""
    sets = process.get("capabilities") or {}
    kept = {name: [item for item in held or [] if item != CAPABILITY] for name, held in sets.items()}
    left = {key: value for key, value in process.items() if key != "rlimits"}
    left = left | {"capabilities": kept} if sets else left
    if left.get("oomScoreAdj", 0) < 0:
        del left["oomScoreAdj"]
    return left


def file_of(arguments: Sequence[str]) -> tuple[Path, bool] | None:
    """Return the file that a call of runc names a process in, and whether that is a whole bundle's configuration."""
    words = list(arguments)
    while words and words[0].startswith("-"):
        del words[: 2 if words[0] in _TAKES_A_VALUE else 1]
    command, rest = (words[0], words[1:]) if words else ("", [])
    if command in WITH_BUNDLE:
        return Path(_value(rest, "--bundle", "-b") or ".", "config.json"), True
    if command == "exec":
        given = _value(rest, "--process", "-p")
        return (Path(given), False) if given else None
    return None


def _value(words: Sequence[str], *names: str) -> str | None:
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else next(iter(words[place + 1 :]), None)
    return None


def main(arguments: Sequence[str]) -> None:
    """Rewrite the file that this call names, if any, and become runc."""
    found = file_of(arguments)
    if found is not None:
        path, whole = found
        content = json.loads(path.read_text(encoding="utf-8"))
        content = content | {"process": bounded(content["process"])} if whole else bounded(content)
        path.write_text(json.dumps(content), encoding="utf-8")
    runc = os.environ.get("RUNC") or shutil.which("runc") or "/usr/sbin/runc"
    os.execv(runc, [runc, *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
