"""One operator process beside a `Server`: started, looked at from outside, compared with a fresh list, ended.

Usage:
    with Server(folder, size) as server, Operating(folder, server) as operator:
        operator.wait_until_ready(120)
        operator.resident_kib(); operator.cpu_seconds(); operator.applied()
        operator.drift()    # parts in which its columns differ from a fresh list: none
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import urllib3

from benchmarks.apiserver.server import Server
from benchmarks.fingerprint import differences, fingerprint, listed
from benchmarks.generator import NOW
from benchmarks.operator_window import RECORD
from benchmarks.usage import usage
from e2e.harness.machine_speed import time_scale
from e2e.harness.ports import LOOPBACK, free_port
from slack.kube.kubeconfig import connect

NAMESPACE = "resource-slack"
LATER = NOW + 30 * 86_400
"""When all arrivals that a benchmark makes lie behind the window of six hours."""
Records = npt.NDArray[np.int64]


class NotThere(RuntimeError):
    """The operator did not do in time what it was waited for."""


class Operating:
    """The process. Its log goes to `operator.log` in the folder."""

    def __init__(self, folder: Path, server: Server, *flags: str) -> None:
        self._folder = folder
        self._server = server
        self._port = free_port()
        self._command = [
            *(sys.executable, "-m", "benchmarks.operator_window", str(folder)),
            *(f"--kubeconfig={server.kubeconfig}", f"--namespace={NAMESPACE}", f"--listen={LOOPBACK}:{self._port}"),
            "--built-in-policy",
            *flags,
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._http = urllib3.PoolManager(timeout=5.0, retries=False)

    def __enter__(self) -> Self:
        with (self._folder / "operator.log").open("wb") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stderr=log, stdout=log)
        return self

    def __exit__(self, *_: object) -> None:
        process = self._running
        process.terminate()
        try:
            process.wait(20.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()

    @property
    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise NotThere("the operator was not started")
        return self._process

    def wait(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait until something holds.

        Args:
            condition: asked again and again.
            seconds: on the reference machine; here they are stretched by `machine_speed.time_scale`.
            what: is waited for.

        Raises:
            NotThere: with the end of the operator's log.
        """
        seconds *= time_scale()
        end = time.monotonic() + seconds
        while not condition():
            if self._running.poll() is not None:
                raise self._not_there(f"it has ended before {what}")
            if time.monotonic() > end:
                raise self._not_there(f"{what} not within {seconds:.0f} s")
            time.sleep(0.1)

    def _not_there(self, what: str) -> NotThere:
        log = (self._folder / "operator.log").read_text(encoding="utf-8", errors="replace")
        return NotThere(f"the operator: {what}; its log ends:\n{log[-3000:]}")

    def wait_until_ready(self, seconds: float) -> None:
        """Wait until its view is whole and it has planned twice."""
        self.wait(lambda: self.metric("slack_plan_duration_seconds_count") >= 2, seconds, "two plans")

    def metric(self, name: str) -> float:
        """Return the sum of a metric's samples; 0 while nobody answers."""
        try:
            answer = self._http.request("GET", f"http://{LOOPBACK}:{self._port}/metrics")
        except urllib3.exceptions.HTTPError:
            return 0.0
        lines = (line.rpartition(" ") for line in answer.data.decode().splitlines())
        return sum(float(value) for head, _, value in lines if head.partition("{")[0] == name)

    def errors(self) -> list[str]:
        """Return the lines of its log that say that something failed which should not."""
        log = (self._folder / "operator.log").read_text(encoding="utf-8", errors="replace")
        return [line for line in log.splitlines() if " ERROR " in line or "Traceback" in line]

    def resident_kib(self) -> int:
        """Return its resident memory.

        Raises:
            NotThere: it has ended, with the end of its log.
        """
        try:
            if self._running.poll() is None:
                return usage(self._running.pid).rss_bytes // 1024
        except ProcessLookupError:  # it is about to end
            self._running.wait(20.0)
        raise self._not_there(f"it has ended with code {self._running.returncode}")

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has used."""
        return usage(self._running.pid).cpu_seconds

    def applied(self) -> Records:
        """Return one row a chunk of pod events: when its columns had it (ns), the last one's version, how many."""
        raw = (self._folder / "applied").read_bytes()
        whole = len(raw) // RECORD.size * RECORD.size
        return np.frombuffer(raw[:whole], dtype=np.int64).reshape(-1, 3)

    def drift(self, seconds: float = 120.0) -> list[str]:
        """Return in which parts its columns differ from a fresh list; the server must be read-only by then.

        What the columns hold as arrivals is gone afterwards.
        """
        path = self._folder / "columns.json"
        path.unlink(missing_ok=True)
        stdin = self._running.stdin
        if stdin is None:
            raise NotThere("the operator has no stdin")
        stdin.write(f"columns {LATER}\n".encode())
        stdin.flush()
        self.wait(path.exists, seconds, "its columns")
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if "error" in found:
            return [found["error"]]
        connection = connect(self._server.kubeconfig, None)
        fresh = listed(connection, NAMESPACE, found["required_labels"])
        connection.close()
        return differences(found["parts"], fingerprint(fresh, LATER))
