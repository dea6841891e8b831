"""What is in a Docker: containers, volumes and networks, which go with each run, and images, which only age.

Images stay for the next run, as it takes minutes to build them. Of each repository of the harness's the newest stays;
what has lost its name goes, but not the layers that are under a named image, from which the next build goes on.
"""

import os
import subprocess
from collections.abc import Collection, Iterable

from e2e.harness.errors import HarnessError

REPOSITORIES = "resource-slack.test/"
"""How the names of all images begin that `e2e.kindnode` makes; no registry has them."""
_HANGS_AFTER_SECONDS = 10.0
"""After so long without an answer to the smallest question it is taken to hang."""


def answers(host: str) -> bool:
    """Say whether a Docker answers there."""
    try:
        return _docker(host, "version", seconds=_HANGS_AFTER_SECONDS).returncode == 0
    except HarnessError:
        return False


def empty(host: str) -> None:
    """Take away containers, their volumes and networks; images stay.

    Raises:
        HarnessError: it hangs.
    """
    containers = _docker(host, "ps", "--all", "--quiet").stdout.split()
    if containers:
        _docker(host, "rm", "--force", "--volumes", *containers)
    for kind in ("volume", "network"):
        _docker(host, kind, "prune", "--force")


def prune(host: str, current: Collection[str]) -> None:
    """Take away images that no run will ask for; those that are `current` stay, however old they are.

    Raises:
        HarnessError: it hangs.
    """
    listed = _docker(host, "image", "ls", "--format={{.Repository}}:{{.Tag}}").stdout.split()  # the newest first
    old = superseded(listed, current)
    if old:
        _docker(host, "image", "rm", *old, seconds=300.0)
    _docker(host, "image", "prune", "--force", seconds=300.0)


def superseded(listed: Iterable[str], current: Collection[str]) -> list[str]:
    """Return those of the harness's images that a newer one of their repository has taken the place of.

    Args:
        listed: all images by repository and tag, the newest first, as `docker image ls` has them.
        current: what is to stay in any case.
    """
    old, seen = [], set()
    for name in listed:
        repository, _, tag = name.rpartition(":")
        if not repository.startswith(REPOSITORIES) or tag == "<none>":
            continue
        if repository in seen and name not in current:
            old.append(name)
        seen.add(repository)
    return old


def _docker(host: str, *arguments: str, seconds: float = 120.0) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "DOCKER_HOST": host}
    command = ["docker", *arguments]
    try:
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise HarnessError(f"docker {' '.join(arguments[:2])} did not end within {seconds:.0f} s") from error
