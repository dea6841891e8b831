"""A small cluster as a file, and the command run as a user runs it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.build import Json, listed, slack_policy, small_cluster

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(sys.executable).parent / "resource-slack"
_PROGRESS = re.compile(r"^.*: \d+ % after \d+ s\n", re.MULTILINE)


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    stdout: str
    stderr: str
    """Without the lines that tell how far a command is: they come on a slow machine only."""


Run = Callable[..., Result]
Policy = Callable[..., Path]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run `resource-slack` in an empty folder, without any cluster in reach."""

    def execute(*args: str | Path, stdin: str = "", command: Path = COMMAND, **environment: str) -> Result:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "RESOURCE_SLACK"))}
        found = subprocess.run(
            [command, *map(str, args)],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=clean | {"HOME": str(tmp_path)} | environment,
            timeout=110,
            check=False,
        )
        assert "Traceback" not in found.stdout + found.stderr
        return Result(found.returncode, found.stdout, _PROGRESS.sub("", found.stderr))

    return execute


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    """Write a policy file: name and spec."""

    def write(spec: Json, name: str = "web", file: str = "policy.yaml") -> Path:
        path = tmp_path / file
        path.write_text(json.dumps(slack_policy(spec, name)))
        return path

    return write


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Three nodes with six pods of one Deployment."""
    path = tmp_path / "cluster.json"
    path.write_text(listed(*small_cluster()))
    return path
