"""An address of this machine's loopback interface that is not 127.0.0.1. Root only.

The API server asks no kubelet at a loopback address (its registry of nodes takes global unicast ones only, so that the
node proxy cannot be turned on the control plane itself), and nothing here shall listen on a real interface. So each
node has an address of its own from the range for benchmarks (RFC 2544), on `lo`: no packet of it leaves the machine.
"""

import itertools
import os
import subprocess
from pathlib import Path
from typing import Self

from e2e.harness.errors import HarnessError
from e2e.harness.processes import start_ticks

_LABEL = "lo:e2e"
_OF_ONE_PROCESS = 4
_numbers = itertools.count()


class LocalAddress:
    """One address, for as long as it is wanted.

    Usage:

        with LocalAddress() as address:
            address.text
    """

    def __init__(self) -> None:
        pid = os.getpid()
        number = (pid * _OF_ONE_PROCESS + next(_numbers) % _OF_ONE_PROCESS) % 32_768
        self.text = f"198.18.{128 + number // 256}.{number % 256}"
        self._label = f"{_LABEL}{pid}"  # 15 characters are allowed; an id has 7 at most

    def start(self) -> Self:
        """Add it, after taking away those whose processes are gone."""
        for line in _ip("-oneline", "-4", "address", "show", "dev", "lo").splitlines():
            words = line.replace("\\", " ").split()
            label = next((word for word in words if word.startswith(_LABEL)), "")
            if label and start_ticks(int(label.removeprefix(_LABEL))) is None:
                _ip("address", "delete", words[3], "dev", "lo")
        _ip("address", "replace", f"{self.text}/32", "dev", "lo", "label", self._label)
        return self

    def stop(self) -> None:
        """Take it away, if it is there."""
        if self.text in Path("/proc/net/fib_trie").read_text(encoding="ascii"):
            _ip("address", "delete", f"{self.text}/32", "dev", "lo")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=10, check=False)
    if done.returncode != 0:
        raise HarnessError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
