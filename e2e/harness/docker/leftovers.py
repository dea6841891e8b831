"""Processes and mounts of a dockerd that was killed, by the folder that it was given.

A process is Docker's if it is one of Docker's programs and was started with a path in that folder, or if such a one
started it. Whoever only names the path, such as `tail -f` of its log, is left alone, and so are this process and those
that it comes from.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from e2e.kindnode import bounded_runc

_PROGRAMS = {"dockerd", "containerd", "docker-proxy", "docker-init", "runc"}
_SCRIPT = Path(bounded_runc.__file__).name


@dataclass(frozen=True)
class Process:
    """What is asked about one process: who started it, and its command line."""

    parent: int
    argv: tuple[str, ...]

    @property
    def program(self) -> str:
        """Its name, as it was started."""
        return self.argv[0].rpartition("/")[2]

    @property
    def script(self) -> str:
        """What Python runs, if that is what it is."""
        words = (word for word in self.argv[1:] if not word.startswith("-"))
        return next(words, "").rpartition("/")[2] if self.program.startswith("python") else ""


def of_docker(table: Mapping[int, Process], folder: Path, me: int) -> list[int]:
    """Return the processes of the Docker that has its state in `folder`, and all that they started.

    Args:
        table: all processes of the machine.
        folder: its own, which none of its paths is outside of.
        me: the process that asks; it and its ancestors are not Docker's.
    """
    spared = _line_of(table, me)
    found = {pid for pid, process in table.items() if _is_program(process) and _names(process, folder)} - spared
    while True:
        more = {pid for pid, process in table.items() if process.parent in found} - found - spared
        if not more:
            return sorted(found)
        found |= more


def processes(folder: Path) -> list[tuple[int, str]]:
    """Return the processes of the Docker in `folder`, each with its program."""
    table = _table()
    return [(pid, table[pid].program) for pid in of_docker(table, folder, os.getpid())]


def others(folder: Path) -> list[int]:
    """Return each dockerd that shares this network, and so its packet filter, with the one in `folder`."""
    return [
        pid
        for pid, process in _table().items()
        if process.program == "dockerd" and not _names(process, folder) and _shares_network(pid)
    ]


def mounts(folder: Path) -> list[str]:
    """Return what is mounted below a folder."""
    places = [line.split()[1] for line in Path("/proc/self/mounts").read_text(errors="replace").splitlines()]
    return [place for place in places if place.startswith(f"{folder}/")]


def left(folder: Path) -> list[str]:
    """Return in words what there is of the Docker in `folder`."""
    found = [f"process {pid} ({name})" for pid, name in processes(folder)]
    return found + [f"mount {place}" for place in mounts(folder)]


def end(folder: Path) -> None:
    """End what a dockerd that was killed left: its containerd, shims, and what runs in them."""
    for again in range(10):
        found = processes(folder)
        if not found:
            break
        for pid, _ in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05 * again)
    for place in reversed(mounts(folder)):
        subprocess.run(["umount", "--lazy", place], check=False, capture_output=True, timeout=30)
    shutil.rmtree(folder / "run" / "exec", ignore_errors=True)
    (folder / "run" / "docker.pid").unlink(missing_ok=True)


def _is_program(process: Process) -> bool:
    name = process.program
    return name in _PROGRAMS or name.startswith("containerd-shim") or process.script == _SCRIPT


def _names(process: Process, folder: Path) -> bool:
    return any(f"{folder}/" in word for word in process.argv)


def _line_of(table: Mapping[int, Process], pid: int) -> set[int]:
    line = {pid}
    while pid in table and table[pid].parent not in line:
        pid = table[pid].parent
        line.add(pid)
    return line


def _shares_network(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink()
    return False


def _table() -> dict[int, Process]:
    table = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            parent = int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
            table[int(folder.name)] = Process(parent, tuple(command.rstrip("\0").split("\0")))
    return table
