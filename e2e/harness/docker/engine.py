"""A Docker to speak to: the user's, taken as it is, or one of the harness's own where none runs.

Usage:

    with engine.of_this_machine() as docker:
        docker.run("info")
        subprocess.run(["kind", "get", "clusters"], env=docker.environment)
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from e2e.harness.docker.own_daemon import OwnDaemon
from e2e.harness.errors import HarnessError, UnavailableError
from e2e.harness.machine_speed import time_scale


@dataclass(frozen=True)
class Engine:
    """How to reach a Docker that runs."""

    daemon: OwnDaemon | None = None
    """The harness's own; none where it is the user's, who alone may restart it or empty it."""
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def own(self) -> bool:
        """Whether the harness started it, and so may take away all that is in it."""
        return self.daemon is not None

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a program that is to speak to this Docker."""
        return {**os.environ, **self.variables}

    def run(self, *arguments: str, seconds: float = 60.0, stdin: bytes | None = None, log: Path | None = None) -> str:
        """Run a docker command and return what it printed.

        Args:
            arguments: the command's, without `docker`.
            seconds: how long it may take on the reference machine; see `machine_speed`.
            stdin: what it reads.
            log: a file for what it prints, instead of returning it.

        Raises:
            HarnessError: it failed; the text has the end of what it printed.
        """
        return run(["docker", *arguments], seconds, self.environment, stdin, log)

    def has_image(self, name: str) -> bool:
        """Say whether an image of this name is there."""
        return bool(self.run("image", "ls", "--quiet", name).strip())


def run(
    command: Sequence[str],
    seconds: float,
    environment: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    log: Path | None = None,
) -> str:
    """Run a program to its end and return what it printed on its standard output; see `Engine.run`."""
    done = subprocess.run(
        list(command),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        env=None if environment is None else dict(environment),
        timeout=seconds * time_scale(),
        check=False,
    )
    output, said = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
    if log is not None:
        log.write_text(output + said, encoding="utf-8")
    if done.returncode != 0:
        end = (said.strip() or output.strip())[-2000:]
        raise HarnessError(f"{' '.join(command)[:300]} failed: {end}")
    return output


@contextmanager
def of_this_machine() -> Iterator[Engine]:
    """Give the Docker that runs here; where none does, start one and stop it at the end.

    Raises:
        UnavailableError: there is none, and none can be started; the text names what is missing.
    """
    if running():
        yield Engine()
        return
    with OwnDaemon() as daemon:
        yield Engine(daemon, {"DOCKER_HOST": daemon.host, "DOCKER_BUILDKIT": "0"})


def running() -> bool:
    """Say whether a Docker answers to this user."""
    if shutil.which("docker") is None:
        return False
    try:
        done = subprocess.run(
            ["docker", "version", "--format={{.Server.Version}}"], capture_output=True, timeout=30, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError("docker is on the PATH, and what answers to it has not done so for 30 s") from error
    return done.returncode == 0
