"""Permits: a file for each gated container, which the kubelet reads each time that it starts the container.

The container has an environment variable from its file (`fileKeyRef`). Without the file its start fails, for this
container alone, and the kubelet tries again; with the file it starts. The folder is an emptyDir of the pod: who writes
there can let this pod's own containers start, and nothing else.
"""

import os
from collections.abc import Iterable
from contextlib import suppress

KEY = "GO"
_CONTENT = b"GO='1'\n"
"""The kubelet takes values in single quotes only."""
_AUTHORITY = "agent.pem"  # no container's file ends so
_MOST_AUTHORITY = 16 << 10


def file_name(container: str) -> str:
    """Return the name of a container's file, as the pod's `fileKeyRef` has it."""
    return f"{container}.env"


class PermitFiles:
    """The files of one pod. A write that fails is an error of the caller; nothing is half written."""

    def __init__(self, folder: str, containers: Iterable[str]) -> None:
        self.containers = tuple(containers)
        self._folder = folder

    def given(self) -> set[str]:
        """Return the containers that may start."""
        return {container for container in self.containers if os.path.exists(self._path(container))}

    def give(self, container: str) -> bool:
        """Let a container start; whether it might not before.

        Raises:
            OSError: the file cannot be written; it is not there then.
        """
        path = self._path(container)
        if os.path.exists(path):
            return False
        part = f"{path}.part"
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            os.write(descriptor, _CONTENT)
        finally:
            os.close(descriptor)
        os.replace(part, path)  # the kubelet sees the whole file or none
        return True

    def learn(self, authority: str) -> None:
        """Keep who signs agents' certificates, for a gate of this pod that begins anew.

        Raises:
            OSError: it cannot be written.
        """
        path = os.path.join(self._folder, _AUTHORITY)
        part = f"{path}.part"
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        with os.fdopen(descriptor, "w") as file:
            file.write(authority)
        os.replace(part, path)

    def learnt(self) -> str:
        """Return what was kept; empty: nothing."""
        try:
            with open(os.path.join(self._folder, _AUTHORITY), encoding="ascii") as file:
                return file.read(_MOST_AUTHORITY)
        except (OSError, ValueError):
            return ""

    def withdraw(self, container: str) -> None:
        """Have the next start of a container wait for a permit of its own."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(container))

    def _path(self, container: str) -> str:
        return os.path.join(self._folder, file_name(container))
