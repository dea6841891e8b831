"""Real agents of the auditor on recorded nodes: a tree of plain files whose counters go on as on a running machine."""

import re
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import urllib3

from e2e.harness.api import Json
from e2e.harness.cluster.backend import Backend
from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.processes import Program
from e2e.harness.product.audit_controller import Controller
from e2e.harness.product.audit_fleet import container_id
from tests.audit.tree import TREES, unpack

TREE = TREES / "v2-6.12.before.tree"
PERIOD_US = 10_000
"""A tenth of the usual: 100 periods, the least that says something, are over within a second."""
_CONTAINER = re.compile(r"^=== (\S+-pod([0-9a-f_]{36})\.slice/cri-containerd-([0-9a-f]{64})\.scope)/cpu\.stat$", re.M)


@dataclass(frozen=True)
class Load:
    """What a container's counters do in each period."""

    limit_millis: int
    throttled_share: float
    use_share: float
    """Of its quota."""
    stop_share: float
    """Of the period, summed over CPUs, in a throttled one."""

    @property
    def quota_us(self) -> int:
        """Of a period."""
        return self.limit_millis * PERIOD_US // 1000

    def counters(self, seconds: float) -> str:
        """Return cpu.stat as it is after so many seconds of this load."""
        periods = int(seconds * 1e6 / PERIOD_US)
        throttled = int(periods * self.throttled_share)
        used = int(periods * self.quota_us * self.use_share)
        return (
            # as wide now as later: whoever reads in the midst of a write reads whole numbers
            f"usage_usec {used:012}\nuser_usec {used:012}\nsystem_usec 0\n"
            f"nr_periods {periods:012}\nnr_throttled {throttled:012}\n"
            f"throttled_usec {int(throttled * PERIOD_US * self.stop_share):012}\nnr_bursts 0\nburst_usec 0\n"
        )


STARVED = Load(200, 0.98, 1.0, 1.6)
"""Two busy threads that use 200m up in each period and then stand still."""
BURSTY = Load(500, 0.5, 0.5, 0.5)
"""Rests in every other period and uses the whole quota in the others."""


class RecordedNode:
    """A recorded node on which one of the containers is ours: it has the uid and the id of a pod of the cluster."""

    def __init__(self, root: Path, node: Json, load: Load) -> None:
        self.root, self._load = root, load
        text = TREE.read_text()
        path, uid, own_id = next(iter(_CONTAINER.findall(text)))
        ours = node["metadata"]["uid"].replace("-", "_"), container_id(node)
        for old, new in zip((uid, own_id), ours, strict=True):
            text = text.replace(old, new)
            path = path.replace(old, new)
        root.mkdir(parents=True)
        recorded = root.parent / f"{root.name}.tree"
        recorded.write_text(text)
        unpack(recorded, root)
        self._folder = root / path
        self._write("cpu.max", f"{load.quota_us} {PERIOD_US}\n")
        self._write("cpu.max.burst", "0\n")
        for file in ("cpu.max", "cpu.max.burst"):  # what was recorded of the pod's own quota is another pod's
            (self._folder.parent / file).write_text("max 100000\n" if file == "cpu.max" else "0\n")
        self._write("cpu.stat", load.counters(0.0))
        self._began = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name=f"node {root.name}", daemon=True)
        self._thread.start()

    @property
    def burst_us(self) -> int:
        """The container's burst, as whoever wrote it last left it."""
        return int((self._folder / "cpu.max.burst").read_text().split()[0])

    def stop(self) -> None:
        """Let the counters stand."""
        self._over.set()
        self._thread.join()

    def _go_on(self) -> None:
        while not self._over.wait(0.2):
            self._write("cpu.stat", self._load.counters(time.monotonic() - self._began))

    def _write(self, name: str, text: str) -> None:
        """Write over the file that is there: agents keep it open."""
        data = text.encode()
        with (self._folder / name).open("r+b", buffering=0) as file:
            file.write(data)
            file.truncate(len(data))


class Agent:
    """One agent process that reports over https.

    Usage:

        with Agent(cluster, controller, "node-1", token, root) as agent:
            agent.metric("slack_audit_reports_total", outcome="sent")
    """

    def __init__(self, cluster: Backend, controller: Controller, node: str, token: str, root: Path) -> None:
        self.port = free_port()
        folder = cluster.run_folder
        self.token_file = folder / f"{root.name}.token"
        self.token_file.write_text(token)
        signer = controller.authority
        ca = [f"--ca-file={signer.certificate_path}"] if signer is not None else []
        command = [
            str(Path(sys.executable).with_name("resource-slack")),
            *("audit", "agent", f"--root={root}", f"--node={node}", f"--state-dir={folder / f'{root.name}.state'}"),
            *(f"--controller={controller.url}", *ca),
            *(f"--token-file={self.token_file}", f"--listen={LOOPBACK}:{self.port}"),
            *("--interval=1s", "--push-interval=5s", "--write-burst"),
        ]
        self.program = Program(f"agent-{root.name}", command, folder, {"COVERAGE_PROCESS_START": ""})

    def metric(self, name: str, labels: Mapping[str, str]) -> float:
        """Return the sum of a metric's samples that have these labels; 0 while nobody answers."""
        try:
            answer = urllib3.request("GET", f"http://{LOOPBACK}:{self.port}/metrics", timeout=5.0, retries=False)
        except urllib3.exceptions.HTTPError:
            return 0.0
        total = 0.0
        for line in answer.data.decode().splitlines():
            head, _, value = line.rpartition(" ")
            metric, _, rest = head.partition("{")
            if metric == name and all(f'{key}="{text}"' in rest for key, text in labels.items()):
                total += float(value)
        return total

    def __enter__(self) -> Self:
        self.program.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.program.running:
            self.program.stop(seconds=15.0)
