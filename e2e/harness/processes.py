"""Programs that the harness starts: logged, recorded, and gone when it is gone.

- A process is stopped by its recorded id, and only if its start time is still the recorded one: an id that the kernel
  has given to somebody else is left alone. Nothing is ever stopped by name.
- The kernel kills every child when the thread that started it ends (PR_SET_PDEATHSIG), so a SIGKILLed pytest leaves
  nothing behind. Hence all children start from one thread that lives as long as this process.
"""

import ctypes
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from e2e.harness.errors import HarnessError
from e2e.harness.machine_speed import time_scale

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="harness-starter")


@dataclass
class Program:
    """One program: how to start it, and the running process.

    Usage:

        etcd = Program("etcd", [str(binary), "--data-dir=..."], run_folder).start()
        etcd.wait_until_ready(lambda: is_listening(port), seconds=20)
        etcd.stop()

    Its output is appended to `<run_folder>/<name>.log`, its id and start time are in `<run_folder>/<name>.pid`.
    """

    name: str
    command: Sequence[str]
    run_folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None
    _started_ticks: int = 0

    @property
    def log_path(self) -> Path:
        """The file with the program's output."""
        return self.run_folder / f"{self.name}.log"

    @property
    def pid(self) -> int:
        """The process id; an error if it does not run."""
        if self._process is None:
            raise HarnessError(f"{self.name} is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the program; an error if it runs already."""
        if self.running:
            raise HarnessError(f"{self.name} is already running as process {self.pid}")
        self._process = _starter.submit(self._spawn).result()
        self._started_ticks = start_ticks(self._process.pid) or 0
        record = {"pid": self._process.pid, "start_ticks": self._started_ticks, "command": list(self.command)}
        self._pid_path.write_text(json.dumps(record), encoding="utf-8")
        return self

    def stop(self, seconds: float = 5.0) -> None:
        """Ask the process to end (SIGTERM), and make it end (SIGKILL) when it has not after `seconds`."""
        if self._process is None:
            return
        _end(self._process.pid, self._started_ticks, seconds, poll=self._process.poll)
        self._process.wait()
        self._process = None
        self._pid_path.unlink(missing_ok=True)

    def kill(self) -> None:
        """End the process at once (SIGKILL), as a crash would."""
        self.stop(seconds=0.0)

    def wait_until_ready(self, ready: Callable[[], bool], seconds: float) -> None:
        """Wait until `ready()` holds; fail with the log's end if the process ends or the time is over."""
        seconds *= time_scale()
        deadline = time.monotonic() + seconds
        while not ready():
            if not self.running:
                raise HarnessError(f"{self.name} ended while starting. {self.log_tail()}")
            if time.monotonic() > deadline:
                raise HarnessError(f"{self.name} was not ready after {seconds:.0f} s. {self.log_tail()}")
            time.sleep(0.03)

    def keep_up_until(self, ready: Callable[[], bool], seconds: float) -> None:
        """Wait until `ready()` holds; where the process ended by itself, start it again, as a kubelet does."""
        seconds *= time_scale()
        deadline = time.monotonic() + seconds
        while not ready():
            if not self.running:
                self.start()
            if time.monotonic() > deadline:
                raise HarnessError(f"{self.name} was not ready after {seconds:.0f} s. {self.log_tail()}")
            time.sleep(0.2)

    def log_tail(self, lines: int = 15) -> str:
        """Return the end of the log, for a failure's text."""
        try:
            text = self.log_path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return f"No log at {self.log_path}"
        return f"The end of {self.log_path}:\n" + "\n".join(text.splitlines()[-lines:])

    @property
    def _pid_path(self) -> Path:
        return self.run_folder / f"{self.name}.pid"

    def _spawn(self) -> subprocess.Popen[bytes]:
        parent = os.getpid()

        def die_with_parent() -> None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it died between fork and prctl
                os._exit(1)

        with self.log_path.open("ab") as log:
            return subprocess.Popen(
                list(self.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.run_folder,
                env={**os.environ, **self.environment},
                start_new_session=True,  # Ctrl-C is for pytest, which then stops things in order
                preexec_fn=die_with_parent,
            )


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot (proc(5), field 22); None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(stat.rpartition(")")[2].split()[19])


def stop_recorded(run_folder: Path, seconds: float = 5.0) -> list[str]:
    """End what an earlier harness recorded in a run folder and left running; return the names of what was ended."""
    ended = []
    for path in sorted(run_folder.glob("*.pid")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if start_ticks(record["pid"]) == record["start_ticks"]:
            _end(record["pid"], record["start_ticks"], seconds, poll=lambda: None)
            ended.append(path.stem)
        path.unlink()
    return ended


def _end(pid: int, started: int, seconds: float, poll: Callable[[], int | None]) -> None:
    """Send SIGTERM, wait, then SIGKILL; `poll` reaps a child of ours, whose id would else stay."""

    def there() -> bool:
        return poll() is None and start_ticks(pid) == started

    deadline = time.monotonic() + seconds
    if seconds > 0 and there():
        os.kill(pid, signal.SIGTERM)
    while there() and time.monotonic() < deadline:
        time.sleep(0.02)
    if there():
        os.kill(pid, signal.SIGKILL)
