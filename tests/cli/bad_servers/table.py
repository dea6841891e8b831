"""One call against one bad server: its exit code, how long it took, and what it said. And all of them as a table."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from e2e.harness.cluster.certificates import Authority
from tests.audit.tree import TREES, unpack
from tests.cli.bad_servers.rows import Ending, Row
from tests.cli.bad_servers.servers import BadServer, serving

MOST_SECONDS = 20.0
"""No call may take longer; of a refused connection `MOST_REFUSED_SECONDS`."""
MOST_REFUSED_SECONDS = 10.0
_PATIENCE_SECONDS = 120.0
"""For a machine that does much else."""
_WORDS = ("the controller has not taken the report", "cannot start")
OURS = ("Traceback", "mistake in resource-slack", "Warning:")


@dataclass(frozen=True, slots=True)
class Cell:
    """What came of one call."""

    row: Row
    server: str
    address: str
    code: int | None
    """None: it ran on and was ended."""
    seconds: float
    """From the first connection on: how long a program takes to start is no server's doing."""
    stderr: str

    @property
    def message(self) -> str:
        """The last line on stderr that is one of its own."""
        return (self.stderr.strip().splitlines() or [""])[-1]

    def late(self) -> bool:
        """Whether it took longer than it may."""
        most = MOST_REFUSED_SECONDS if self.server == "refused" else MOST_SECONDS
        return self.code is not None and self.seconds > most

    def faults(self, *, timed: bool = True) -> list[str]:
        """Say what is not as it must be; `timed`, whether this machine is quiet enough to judge seconds."""
        found = [f"it says {text!r}" for text in OURS if text in self.stderr]
        if timed and self.late():
            found.append(f"it took {self.seconds:.1f} s")
        codes: dict[Ending, tuple[int | None, ...]] = {
            Ending.REFUSES: (2,),
            Ending.PROCESS: (1, 2),
            Ending.RUNS_ON: (None,),
            Ending.DOES_WITHOUT: (0,),
            Ending.SAYS_NOTHING: (0,),
        }
        if self.code not in codes[self.row.ending]:
            found.append(f"its exit code is {self.code}")
        if self.row.ending is not Ending.SAYS_NOTHING and self.address not in self.stderr:
            found.append("it does not name the server")
        return found


def tried(row: Row, server: BadServer, folder: Path, *, late: bool = False, start_seconds: float = 0.0) -> Cell:
    """Run one call.

    Args:
        row: the call.
        server: what it meets.
        folder: an empty one.
        late: see `serving`.
        start_seconds: what the program takes to start on this machine, which no server has to answer for.
    """
    contacts: list[float] = []
    with serving(server, folder, contacts, late=late) as address:
        words = words_of(row, address, folder)
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.upper().startswith(("KUBE", "RESOURCE_SLACK", "HTTP", "NO_PROXY", "ALL_PROXY", "NODE_NAME"))
        }
        environment |= {"HOME": str(folder), "COLUMNS": "200", "NO_PROXY": "*"}
        began = time.monotonic()
        with (folder / "stderr").open("wb") as said:
            process = subprocess.Popen(
                [Path(sys.executable).parent / "resource-slack", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=environment,
                cwd=folder,
            )
        try:
            code = _ended(process, row, folder / "stderr")
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
        seconds = time.monotonic() - (contacts[0] if contacts else began + start_seconds)
    name = f"{server.name}, later" if late else server.name
    return Cell(row, name, address, code, max(0.0, seconds), (folder / "stderr").read_text(errors="replace"))


def _ended(process: subprocess.Popen[bytes], row: Row, stderr: Path) -> int | None:
    if row.ending is not Ending.RUNS_ON:
        return process.wait(_PATIENCE_SECONDS)
    end = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < end and process.poll() is None:
        if any(words in stderr.read_text(errors="replace") for words in _WORDS):
            return None
        time.sleep(0.1)
    return process.poll()


def words_of(row: Row, address: str, folder: Path) -> list[str]:
    """Return the words of a call, and put the files that they name into the folder."""
    config = folder / "config"
    config.write_text(json.dumps(kubeconfig(address)))
    (folder / "token").write_text("a.b.c")
    if "{tree}" in row.words:
        unpack(TREES / "v2-6.12.after.tree", folder / "tree")
    values = {"config": config, "url": address, "folder": folder, "tree": folder / "tree", "token": folder / "token"}
    if "{certificate}" in row.words:
        pair = Authority.create(folder / "authority").issue("gates", hosts=["127.0.0.1"])
        values |= {"certificate": pair.certificate, "key": pair.key}
    words = shlex.split(row.words.format_map({name: shlex.quote(str(value)) for name, value in values.items()}))
    return [*words, ""] if row.words.endswith(" ") else words


def kubeconfig(address: str) -> dict[str, object]:
    """Return a kubeconfig whose one cluster is there."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }


def start_seconds(folder: Path) -> float:
    """Measure what a call takes that asks nobody."""
    began = time.monotonic()
    command = [str(Path(sys.executable).parent / "resource-slack"), "status", "--kubeconfig", str(folder / "none")]
    subprocess.run(command, capture_output=True, check=False)
    return time.monotonic() - began


def all_tried(calls: Iterable[tuple[Row, BadServer, bool]], folder: Path, *, at_once: int = 6) -> list[Cell]:
    """Try many calls, some at once, as most of them wait; one that seems to take long once more and alone.

    On a machine that does much else it is the machine that takes long, and alone it does not.
    """
    listed = list(calls)
    before = start_seconds(folder)

    def one(number: int) -> Cell:
        row, server, late = listed[number]
        place = folder / str(number)
        place.mkdir()
        return tried(row, server, place, late=late, start_seconds=before)

    with ThreadPoolExecutor(at_once) as threads:
        cells = list(threads.map(one, range(len(listed))))
    for number, cell in enumerate(cells):
        if cell.late():
            row, server, late = listed[number]
            place = folder / f"{number}-again"
            place.mkdir()
            cells[number] = tried(row, server, place, late=late, start_seconds=start_seconds(folder))
    return cells


def lines(cells: Sequence[Cell], *, width: int = 110) -> list[str]:
    """Return the table as Markdown."""
    head = ["| command | server | exit code | seconds | message |", "|---|---|--:|--:|---|"]
    return head + [
        f"| {cell.row.name.strip()} | {cell.server} | {'-' if cell.code is None else cell.code} | {cell.seconds:.1f} | "
        f"{cell.message.replace(cell.address, 'SERVER').replace('|', '/')[:width]} |"
        for cell in cells
    ]
