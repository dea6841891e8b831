"""A Docker of the harness's own: root only, for as long as a run wants it, and gone with all that was in it.

Its images stay in the cache, so that the next run need not build them; containers, volumes, networks, its bridge, its
rules in the packet filter and its processes do not. It has a socket and a bridge of its own, so it meets no other
Docker; one run at a time has it, others wait.
"""

import errno
import fcntl
import ipaddress
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

from e2e.harness import build
from e2e.harness.docker import firewall
from e2e.harness.errors import HarnessError, UnavailableError
from e2e.harness.processes import Program
from e2e.kindnode import bounded_runc

_PROGRAMS = ("docker", "dockerd", "containerd", "containerd-shim-runc-v2", "runc", "iptables-save", "ip")
_PACKAGES = "docker.io iptables iproute2"
BRIDGE = "slack-docker0"
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
_MODULES = Path("/lib/modules")
"""kind mounts it into each node, and Docker makes what it is to mount."""
_GROUPS = Path("/sys/fs/cgroup")
_RUN = ("/run/docker", "/run/containerd")
"""Made by Docker's programs, whatever folders they are given: empty when they have ended."""
_CAP_SYS_RESOURCE = 24
_SPANS = ("172.30.96.0/20", "172.29.96.0/20", "172.28.96.0/20", "10.213.96.0/20", "192.168.208.0/20")
"""Addresses for its networks: the first span that no route of this machine touches."""


def require() -> None:
    """Return if a Docker can be started here.

    Raises:
        UnavailableError: what is missing, and what would bring it.
    """
    if os.geteuid() != 0:
        raise UnavailableError("no Docker runs here, and to start one takes root")
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        raise UnavailableError(f"no Docker runs here, and there is no {', '.join(missing)} (Debian: {_PACKAGES})")


class OwnDaemon:
    """One dockerd, and all that it must leave as it was."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or build.cache_root().parent / "docker"
        self.data, self._run = self.folder / "data", self.folder / "run"
        self._lock: IO[str] | None = None
        self._program: Program | None = None
        self._before = self.folder / "before.json"
        self._links: set[str] = set()

    @property
    def host(self) -> str:
        """Where it listens, as DOCKER_HOST."""
        return f"unix://{self._run}/docker.sock"

    def start(self) -> Self:
        """Start it; what an earlier run was killed before it could take away is taken away first."""
        require()
        self._run.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = _alone(self.folder / "lock")
        try:
            self._end_leftovers()
            self._put_back()
            self._links = _links()
            self._remember()
            span = free_span(_SPANS, _routes())
            _ip("link", "add", "name", BRIDGE, "type", "bridge")
            _ip("address", "add", f"{_first_address(span)}", "dev", BRIDGE)
            _ip("link", "set", BRIDGE, "up")
            self._program = Program("dockerd", self._command(span), self._run, {"DOCKER_RAMDISK": ""})
            self._program.start().wait_until_ready(self._answers, seconds=60)
            self._empty()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Take away what is in it, end it, and put back what it changed.

        Raises:
            HarnessError: something of it is still there.
        """
        if self._lock is None:
            return
        try:
            if self._program is not None:
                if self._answers():
                    self._empty()
                self._program.stop(seconds=60.0)
                self._program = None
            self._end_leftovers()
            self._put_back()
            bridges = (link for link in _links() - self._links if link.startswith(("br-", BRIDGE)))
            left = [*self.left(), *(f"network {link}" for link in sorted(bridges))]
            if left:
                raise HarnessError(f"the harness's Docker left something behind: {', '.join(left)}")
        finally:
            self._lock.close()
            self._lock = None

    def restart(self) -> None:
        """End dockerd as its service manager would and start it again; containers end, and kind's come back."""
        if self._program is None:
            raise HarnessError("the harness's Docker does not run")
        self._program.stop(seconds=60.0)
        self._program.start().wait_until_ready(self._answers, seconds=60)

    def left(self) -> list[str]:
        """Return what of it there is while it does not run: processes, and mounts below its folder."""
        found = [f"process {pid} ({name})" for pid, name in self._processes()]
        return found + [f"mount {place}" for place in _mounts_below(self.folder)]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _command(self, span: ipaddress.IPv4Network) -> list[str]:
        bridge, *_ = span.subnets(new_prefix=24)
        networks = list(span.subnets(new_prefix=21))[1]
        flags = [
            f"--data-root={self.data}",
            f"--exec-root={self._run / 'exec'}",
            f"--pidfile={self._run / 'docker.pid'}",
            f"--host={self.host}",
            f"--bridge={BRIDGE}",
            f"--fixed-cidr={bridge}",
            f"--default-address-pool=base={networks},size=24",
            "--log-level=warn",
        ]
        if not _has_capability(_CAP_SYS_RESOURCE):
            flags += [f"--add-runtime=bounded={bounded_runc.__file__}", "--default-runtime=bounded"]
        return ["dockerd", *flags]

    def _answers(self) -> bool:
        return _docker(self.host, "version").returncode == 0

    def _empty(self) -> None:
        """Take away containers, their volumes and networks; images stay."""
        containers = _docker(self.host, "ps", "--all", "--quiet").stdout.split()
        if containers:
            _docker(self.host, "rm", "--force", "--volumes", *containers)
        for kind in ("volume", "network"):
            _docker(self.host, kind, "prune", "--force")

    def _end_leftovers(self) -> None:
        """End what a dockerd that was killed left: its containerd, shims, and what runs in them."""
        for again in range(10):
            found = self._processes()
            if not found:
                break
            for pid, _ in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05 * again)
        for place in reversed(_mounts_below(self.folder)):
            subprocess.run(["umount", "--lazy", place], check=False, capture_output=True, timeout=30)
        if self._program is None and BRIDGE in _links():
            _ip("link", "delete", BRIDGE)
        shutil.rmtree(self._run / "exec", ignore_errors=True)
        (self._run / "docker.pid").unlink(missing_ok=True)

    def _remember(self) -> None:
        """Write down what is to be put back, so that the next run can do it where this one is killed."""
        state = {
            "filter": firewall.saved(),
            "forwarding": _FORWARDING.read_text(encoding="ascii"),
            "folders": [str(path) for path in _folders()],
        }
        self._before.write_text(json.dumps(state), encoding="utf-8")

    def _put_back(self) -> None:
        """Have the machine as it was before dockerd, if that was written down."""
        if not self._before.exists():
            return
        state = json.loads(self._before.read_text(encoding="utf-8"))
        firewall.back_to(firewall.parse(state["filter"]))
        _FORWARDING.write_text(state["forwarding"], encoding="ascii")
        for top in _folders():
            if str(top) not in state["folders"]:
                _remove_empty(top)
        self._before.unlink()

    def _processes(self) -> list[tuple[int, str]]:
        """Return processes that were started with this folder's paths, and all that they started."""
        table = _process_table()
        mark = f"{self._run}/".encode()
        ours = {pid for pid, (_, command) in table.items() if mark in command and pid != os.getpid()}
        while True:
            more = {pid for pid, (parent, _) in table.items() if parent in ours} - ours
            if not more:
                break
            ours |= more
        return [(pid, table[pid][1].split(b"\0")[0].decode(errors="replace")) for pid in sorted(ours)]


def _folders() -> list[Path]:
    """Return what Docker makes on a machine beside its own folder and of these what is there."""
    groups = [_GROUPS / "docker", *_GROUPS.glob("*/docker")]  # of version 2, and of each hierarchy of version 1
    return [path for path in (_MODULES, *map(Path, _RUN), *groups) if path.is_dir()]


def _remove_empty(top: Path) -> None:
    """Take away a folder and those in it, if there is nothing but sockets that nobody listens at: of shims, killed.

    A control group is busy until all that was in it is reaped.
    """
    for again in range(20):
        for path in [*sorted(top.rglob("*"), reverse=True), top]:  # what is within a folder first
            with suppress(OSError):
                if path.is_dir():
                    path.rmdir()
                elif _is_dead(path):
                    path.unlink()
        if not top.exists():
            return
        time.sleep(0.02 * again)


def _is_dead(path: Path) -> bool:
    if not path.is_socket():
        return False
    with socket.socket(socket.AF_UNIX) as tried:
        return tried.connect_ex(str(path)) == errno.ECONNREFUSED


def free_span(spans: Sequence[str], routes: Iterable[str]) -> ipaddress.IPv4Network:
    """Return the first of the spans that no route touches.

    Raises:
        UnavailableError: all of them are taken.
    """
    taken = [ipaddress.ip_network(route, strict=False) for route in routes]
    for text in spans:
        span = ipaddress.IPv4Network(text)
        if not any(isinstance(other, ipaddress.IPv4Network) and other.overlaps(span) for other in taken):
            return span
    raise UnavailableError(f"this machine has routes into all of {', '.join(spans)}: no addresses for containers")


def _first_address(span: ipaddress.IPv4Network) -> str:
    return f"{span.network_address + 1}/24"


def _routes() -> list[str]:
    found = json.loads(_ip("-json", "-4", "route", "show", "table", "all"))
    return [str(route["dst"]) for route in found if route["dst"] != "default"]


def _links() -> set[str]:
    return {str(link["ifname"]) for link in json.loads(_ip("-json", "link", "show"))}


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=10, check=False)
    if done.returncode != 0:
        raise HarnessError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _docker(host: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "DOCKER_HOST": host}
    return subprocess.run(
        ["docker", *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def _has_capability(number: int) -> bool:
    """Say whether this process has a capability to give (capabilities(7); the number is the kernel's)."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    held = next(line.split()[1] for line in status.splitlines() if line.startswith("CapPrm:"))
    return bool(int(held, 16) >> number & 1)


def _process_table() -> dict[int, tuple[int, bytes]]:
    """Return each process's parent and command line."""
    table = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            parent = int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
            table[int(folder.name)] = (parent, (folder / "cmdline").read_bytes())
    return table


def _mounts_below(folder: Path) -> list[str]:
    places = [line.split()[1] for line in Path("/proc/self/mounts").read_text(errors="replace").splitlines()]
    return [place for place in places if place.startswith(f"{folder}/")]


def _alone(path: Path) -> IO[str]:
    lock = path.open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("docker: another run on this machine has the harness's Docker; waiting for it", file=sys.stderr)
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock
