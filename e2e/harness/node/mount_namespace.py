"""A mount namespace of our own, with empty folders over those that programs insist on writing to. Root only.

The namespace and its mounts live as long as a process is in it, so there is nothing to unmount: when the last one has
ended they are gone, however it ended.
"""

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from e2e.harness.errors import HarnessError
from e2e.harness.processes import Program


class MountNamespace:
    """A namespace in which some folders of this machine are empty and in memory.

    Usage:

        with MountNamespace([Path("/var/lib/kubelet")], run_folder) as space:
            Program("kubelet", space.command(["kubelet", ...]), run_folder).start()
    """

    def __init__(self, folders: Sequence[Path], run_folder: Path) -> None:
        self.folders = folders
        self._keeper = Program("mountspace", self._keeping(), run_folder)
        self._made: list[Path] = []
        self._inode = 0

    def start(self) -> Self:
        """Make the namespace; folders that this machine does not have are made for as long as it lasts."""
        try:
            for folder in self.folders:
                self._make(folder)
            self._keeper.start()
            self._keeper.wait_until_ready(self._mounted, seconds=10)
            self._inode = Path(f"/proc/{self._keeper.pid}/ns/mnt").stat().st_ino
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self, seconds: float = 10.0) -> None:
        """Kill whatever still lives in the namespace, which ends it, and take away the folders that were made."""
        deadline = time.monotonic() + seconds
        while self._inode and (left := self.pids() - self._own()):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise HarnessError(f"processes {sorted(left)} do not leave the mount namespace")
            time.sleep(0.02)
        self._keeper.stop(seconds=0)
        self._inode = 0
        for folder in reversed(self._made):
            with suppress(OSError):  # somebody else has begun to use it
                folder.rmdir()
        self._made.clear()

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a command in the namespace, as the same process."""
        return ["nsenter", f"--mount=/proc/{self._keeper.pid}/ns/mnt", "--", *command]

    def renew(self, folder: Path) -> None:
        """Put an empty folder in the place of one of these, whatever is mounted below it."""
        place = shlex.quote(str(folder))
        script = f"umount --recursive --lazy {place} && {_mount(folder)}"
        subprocess.run(self.command(["sh", "-ec", script]), check=True, capture_output=True, timeout=30)

    def pids(self) -> set[int]:
        """Return the processes whose mounts are these; containers have mounts of their own and are not among them."""
        found = set()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):  # it has ended
                    if (entry / "ns" / "mnt").stat().st_ino == self._inode:
                        found.add(int(entry.name))
        return found

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _own(self) -> set[int]:
        return {self._keeper.pid} if self._keeper.running else set()

    def _make(self, folder: Path) -> None:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(mode=0o755)
            self._made.append(path)

    def _keeping(self) -> list[str]:
        mounts = " && ".join(map(_mount, self.folders))
        return ["unshare", "--mount", "--propagation=private", "sh", "-ec", f"{mounts} && exec sleep infinity"]

    def _mounted(self) -> bool:
        if not self._keeper.running:
            return False
        lines = Path(f"/proc/{self._keeper.pid}/mountinfo").read_text(encoding="utf-8").splitlines()
        seen = [line.split()[4] for line in lines if " - tmpfs " in line]
        return all(str(folder) in seen for folder in self.folders) and self._sleeps()

    def _sleeps(self) -> bool:
        return Path(f"/proc/{self._keeper.pid}/comm").read_text(encoding="utf-8").strip() == "sleep"


def _mount(folder: Path) -> str:
    return f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(str(folder))}"
