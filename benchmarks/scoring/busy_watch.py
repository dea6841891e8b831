"""What a busy cluster adds to a call: the scorer's process asked at an even pace, with quiet watches and busy ones.

`resource-slack scorer serve` is a process of its own, which watches a generated cluster (`benchmarks.apiserver`, a
further process) and asks a load watcher for windows. A client with one connection, which it keeps, asks for one pod
after the other, as the scheduler does. Busy: so many events of pods a second as that many bindings bring. The processor
time that the scorer takes says what it costs the cores that it shares with a scheduler.

Usage:
    python -m benchmarks.scoring.busy_watch
    python -m benchmarks.scoring.busy_watch --nodes 1000 --events 300 --calls 80 -o json
"""

import json
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import urllib3

from benchmarks.apiserver.server import Server
from benchmarks.apiserver.store import Pace
from benchmarks.generator import FULL, scaled
from benchmarks.generator.pools import node_name
from benchmarks.report import Report, Row, parser, say, show
from benchmarks.scoring.extender_http import POD, at
from benchmarks.scoring.memory import load_watcher
from benchmarks.usage import usage
from e2e.harness.errors import HarnessError
from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.processes import Program

SYNC_SECONDS = 120.0
WANTED_ADDED_MS = 1.0
_TICK_SECONDS = 0.005
Side = tuple[int, int]
"""How many names are asked about, and how many events of pods come in a second."""
_ROOT = Path(__file__).parents[2]


def serve(share: float, folder: str, told: Connection) -> None:
    """Be the API server, in a process of its own; the pace of events is what is told, None ends it."""
    with Server(Path(folder), scaled(share)) as server:
        told.send(str(server.kubeconfig))
        pace: Pace | None = None
        while True:
            while told.poll(_TICK_SECONDS):
                rate = told.recv()
                if rate is None:
                    return
                pace = Pace(rate) if rate else None
            if pace is not None and (due := pace.due()):
                with server.store.changed:
                    server.store.advance(due)


@contextmanager
def api_server(nodes: int) -> Iterator[tuple[str, Connection]]:
    """Serve a cluster; yield the kubeconfig, and where the pace of events is told."""
    ours, theirs = multiprocessing.Pipe()
    with tempfile.TemporaryDirectory(prefix="resource-slack-busy-") as folder:
        share = nodes / FULL.nodes
        process = multiprocessing.get_context("spawn").Process(target=serve, args=(share, folder, theirs), daemon=True)
        process.start()
        try:
            yield ours.recv(), ours
        finally:
            ours.send(None)
            process.join(10.0)
            process.kill()


@contextmanager
def scorer(kubeconfig: str, nodes: int) -> Iterator[tuple[int, Program]]:
    """Run the scorer with all its watches; yield the extender's port when it scores."""
    port, extender = free_port(), free_port()
    http = urllib3.PoolManager(timeout=5.0, retries=False)
    with (
        tempfile.TemporaryDirectory(prefix="resource-slack-busy-") as folder,
        load_watcher([node_name(node) for node in range(nodes)]) as address,
    ):
        command = [
            str(Path(sys.executable).with_name("resource-slack")),
            *("scorer", "serve", f"--kubeconfig={kubeconfig}", f"--listen={LOOPBACK}:{port}"),
            *(f"--extender-listen={LOOPBACK}:{extender}", f"--load-watcher={address}", "--refresh=15s"),
            "--algorithms=TargetLoadPacking",
        ]
        path = os.pathsep.join([str(_ROOT), str(_ROOT / "operator")])
        program = Program("scorer", command, Path(folder), {"PYTHONPATH": path}).start()

        def ready() -> bool:
            try:
                return http.request("GET", f"http://{LOOPBACK}:{port}/readyz").status == 200
            except urllib3.exceptions.HTTPError:
                return False

        try:
            program.wait_until_ready(ready, SYNC_SECONDS)
            yield extender, program
        finally:
            program.stop(seconds=15.0)


class Client:
    """One connection that is kept; it writes a call at once and reads the answer, without looking into it."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((LOOPBACK, port), timeout=10.0)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, request: bytes) -> float:
        """Ask once; return the milliseconds until the whole answer is there.

        Raises:
            HarnessError: the answer is not 200, or the connection was closed.
        """
        began = time.perf_counter()
        self._socket.sendall(request)
        answer = b""
        while (end := answer.find(b"\r\n\r\n")) < 0:
            answer += self._read()
        head = answer[:end].lower()
        if not head.startswith(b"http/1.1 200"):
            raise HarnessError(f"the scorer answered {head[:60]!r}")
        length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
        left = length - (len(answer) - end - 4)
        while left > 0:
            left -= len(self._read())
        return (time.perf_counter() - began) * 1e3

    def _read(self) -> bytes:
        found = self._socket.recv(1 << 18)
        if not found:
            raise HarnessError("the scorer closed the connection")
        return found

    def close(self) -> None:
        """Close it."""
        self._socket.close()


def request(names: list[str]) -> bytes:
    """Return a whole call, as bytes."""
    body = json.dumps({"Pod": POD, "Nodes": None, "NodeNames": names}).encode()
    head = f"POST /prioritize HTTP/1.1\r\nHost: {LOOPBACK}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def asked(client: Client, pid: int, body: bytes, calls: int, seconds: float) -> tuple[list[float], float]:
    """Ask so often a second; return how long each took, and the processor's milliseconds of the scorer a second."""
    before, began = usage(pid).cpu_seconds, time.monotonic()
    millis = []
    for number in range(int(calls * seconds)):
        time.sleep(max(0.0, began + number / calls - time.monotonic()))
        millis.append(client.call(body))
    taken = time.monotonic() - began
    return millis, (usage(pid).cpu_seconds - before) * 1e3 / taken


def measure(nodes: int, events: int, calls: int, seconds: float, runs: int) -> list[Row]:
    """Measure each number of names on both sides, in turns."""
    sizes = sorted({min(500, nodes), nodes})
    times: dict[Side, list[float]] = {}
    cpu: dict[Side, list[float]] = {}
    with api_server(nodes) as (kubeconfig, pace), scorer(kubeconfig, nodes) as (port, program):
        client = Client(port)
        for names in sizes:
            body = request([node_name(node) for node in range(names)])
            asked(client, program.pid, body, calls, 1.0)
            for _ in range(runs):
                for rate in (0, events):
                    pace.send(rate)
                    time.sleep(0.5)
                    millis, share = asked(client, program.pid, body, calls, seconds)
                    times.setdefault((names, rate), []).extend(millis)
                    cpu.setdefault((names, rate), []).append(share)
        client.close()
    return rows(times, cpu, calls)


def rows(times: Mapping[Side, list[float]], cpu: Mapping[Side, list[float]], calls: int) -> list[Row]:
    """Return a row a side; what was added is beside the quiet side of as many names."""
    return [
        {
            "names": names,
            "pod events a second": events,
            "least us": min(millis) * 1e3,
            "p50 us": at(millis, 50) * 1e3,
            "p99 us": at(millis, 99) * 1e3,
            "added p50 us": (at(millis, 50) - at(times[names, 0], 50)) * 1e3 if events else None,
            "wanted us": WANTED_ADDED_MS * 1e3 if events else None,
            "CPU us a call": statistics.mean(cpu[names, events]) / calls * 1e3,
        }
        for (names, events), millis in times.items()
    ]


def main() -> int:
    """Measure, and print a table."""
    options = parser("What a busy cluster adds to a call of the scorer.")
    options.add_argument("--nodes", type=int, default=1000)
    options.add_argument("--events", type=int, default=300, help="of pods a second")
    options.add_argument("--calls", type=int, default=80, help="a second")
    options.add_argument("--seconds", type=float, default=5.0, help="of each side, in each turn")
    options.add_argument("--runs", type=int, default=2, help="turns")
    given = options.parse_args()
    title = f"POST /prioritize, {given.nodes} nodes, {given.calls} calls a second: quiet watches and busy ones"
    try:
        rows = measure(given.nodes, given.events, given.calls, given.seconds, given.runs)
    except HarnessError as error:
        say(str(error))
        return 1
    show([Report(title, rows)], given.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
