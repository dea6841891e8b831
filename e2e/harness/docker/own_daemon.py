"""A Docker of the harness's own: root only, for as long as a run wants it, and gone with all that was in it.

Its images stay in the cache, so that the next run need not build them; containers, volumes, networks, its bridge, its
rules in the packet filter, its processes and the kernel's settings that it or its nodes change do not. It has a socket
and a bridge of its own, so it meets no other Docker; one run at a time has it, others wait.
"""

import ipaddress
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from e2e.harness import build
from e2e.harness.docker import contents, leftovers, machine_lock, machine_state, networks
from e2e.harness.errors import HarnessError, UnavailableError
from e2e.harness.processes import Program
from e2e.kindnode import bounded_runc

_PROGRAMS = ("docker", "dockerd", "containerd", "containerd-shim-runc-v2", "runc", "iptables-save", "ip")
_PACKAGES = "docker.io iptables iproute2"
_CAP_SYS_RESOURCE = 24


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

    def __init__(self, folder: Path | None = None, ready_seconds: float = 60.0) -> None:
        """Nothing runs yet.

        Args:
            folder: for all that it keeps; by default in the cache.
            ready_seconds: how long it may take to answer.
        """
        # Resolved, as the kernel names mounts so.
        self.folder = (folder or build.cache_root().parent / "docker").resolve()
        self._run = self.folder / "run"
        self._program: Program | None = None
        self._ready_seconds = ready_seconds
        self._kept = ExitStack()

    @property
    def host(self) -> str:
        """Where it listens, as DOCKER_HOST."""
        return f"unix://{self._run}/docker.sock"

    def start(self) -> Self:
        """Start it; what an earlier run was killed before it could take away is taken away first."""
        require()
        self._run.mkdir(parents=True, exist_ok=True, mode=0o700)
        place = machine_lock.folder(self.folder)
        record = place / "before.json"
        with ExitStack() as kept:
            kept.enter_context(machine_lock.alone(place / "lock"))
            self._clear(record)
            span = networks.free_span(networks.SPANS, networks.routes())
            machine_state.write(record, machine_state.taken(self.folder, span))
            kept.callback(self._clear, record)
            networks.make_bridge(span)
            self._program = Program("dockerd", self._command(span), self._run, {"DOCKER_RAMDISK": ""})
            kept.callback(self._program.stop, seconds=60.0)
            self._begin(self._program)
            kept.callback(self._empty)
            contents.empty(self.host)  # of what a run that was killed had in it
            self._kept = kept.pop_all()
        return self

    def stop(self) -> None:
        """Take away what is in it, end it, and put back what it changed; each, whatever becomes of the one before.

        Raises:
            HarnessError: something of it is still there.
        """
        self._kept.close()
        self._program = None

    def restart(self) -> None:
        """End dockerd as its service manager would and start it again; containers end, and kind's come back."""
        if self._program is None:
            raise HarnessError("the harness's Docker does not run")
        self._program.stop(seconds=60.0)
        self._begin(self._program)

    def left(self) -> list[str]:
        """Return what of it there is while it does not run: processes, and mounts below its folder."""
        return leftovers.left(self.folder)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _begin(self, program: Program) -> None:
        program.start().wait_until_ready(lambda: contents.answers(self.host), self._ready_seconds)

    def _command(self, span: ipaddress.IPv4Network) -> list[str]:
        configuration = self._run / "daemon.json"
        configuration.write_text("{}", encoding="utf-8")
        given = subprocess.run(["dockerd", "--help"], capture_output=True, text=True, timeout=30, check=False).stdout
        return ["dockerd", *flags(self.folder, span, configuration, given)]

    def _empty(self) -> None:
        """Take away what is in it; if it hangs, it is ended all the same, and what is in it goes at the next start."""
        try:
            if not contents.answers(self.host):
                raise HarnessError("it does not answer")
            contents.empty(self.host)
            contents.prune(self.host, _images())
        except HarnessError as error:
            print(f"docker: it is ended with what is in it: {error}", file=sys.stderr)

    def _clear(self, record: Path) -> None:
        """End what is left of a Docker, and have the machine as it was before, if that was written down."""
        before = machine_state.read(record)
        # The run that was killed may have had another cache.
        places = {self.folder} | ({Path(before.docker)} if before else set())
        for folder in places:
            leftovers.end(folder)
        failed = [found for folder in sorted(places) for found in leftovers.left(folder)]
        if networks.BRIDGE in networks.links():
            networks.delete(networks.BRIDGE)
        if before is not None:
            try:
                machine_state.put_back(before)
            except HarnessError as error:
                failed.append(f"{error} ({record} says how it was; without it the machine is taken as it is)")
        if failed:
            raise HarnessError(f"the harness's Docker left something behind: {', '.join(failed)}")
        record.unlink(missing_ok=True)


def flags(folder: Path, span: ipaddress.IPv4Network, configuration: Path, known: str) -> list[str]:
    """Return dockerd's flags.

    Args:
        folder: for all that it keeps.
        span: the addresses of its networks.
        configuration: its file; a user's in /etc/docker would be obeyed, and clash with flags that say the same.
        known: its help, for flags that not every version has.
    """
    run = folder / "run"
    bridge, *_ = span.subnets(new_prefix=24)
    pool = list(span.subnets(new_prefix=21))[1]
    given = [
        f"--config-file={configuration}",
        f"--data-root={folder / 'data'}",
        f"--exec-root={run / 'exec'}",
        f"--pidfile={run / 'docker.pid'}",
        f"--host=unix://{run}/docker.sock",
        f"--bridge={networks.BRIDGE}",
        f"--fixed-cidr={bridge}",
        f"--default-address-pool=base={pool},size=24",
        "--log-level=warn",
    ]
    if "--ip6tables" in known:
        given.append("--ip6tables=false")  # what is put back is IPv4's
    if not _has_capability(_CAP_SYS_RESOURCE):
        given += [f"--add-runtime=bounded={bounded_runc.__file__}", "--default-runtime=bounded"]
    return given


def _images() -> list[str]:
    # Here and not above: it builds by an engine, which may be one of these.
    from e2e.kindnode import node_image

    return [node_image.name()]


def _has_capability(number: int) -> bool:
    """Say whether this process has a capability to give (capabilities(7); the number is the kernel's)."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    held = next(line.split()[1] for line in status.splitlines() if line.startswith("CapPrm:"))
    return bool(int(held, 16) >> number & 1)
