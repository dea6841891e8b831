"""A session on kind leaves the machine as it found it, and what a killed one leaves the next one takes away."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from e2e.harness.docker import engine, firewall, own_daemon
from e2e.harness.docker.own_daemon import OwnDaemon
from e2e.harness.errors import UnavailableError
from e2e.harness.product.operator import ROOT

SESSION = ("e2e/suites/test_control_plane.py", "-k", "users_may_do_only_what_was_granted", "-q")
KILLED = """
import sys, time
from pathlib import Path
from e2e.harness.cluster.kind import Kind
kept = Kind(Path(sys.argv[1])).start()  # whoever lets it go ends its Docker
print("up", flush=True)
time.sleep(3600)
"""
GROUPS, FORWARDING = Path("/sys/fs/cgroup"), Path("/proc/sys/net/ipv4/ip_forward")
pytestmark = pytest.mark.timeout(1500)


@pytest.fixture
def before() -> Mapping[str, object]:
    """What is there of Docker's before the session; skipped where the Docker is not the harness's."""
    try:
        if engine.running():
            pytest.skip("a user's Docker runs here, and stays as it is")
        own_daemon.require()
    except UnavailableError as error:
        pytest.skip(str(error))
    if OwnDaemon().left():  # by a session that was killed before this one
        with OwnDaemon():
            pass
    return traces()


def traces() -> Mapping[str, object]:
    """What is there of Docker's: processes, mounts, bridges, rules of the packet filter, groups and folders."""
    ours = str(OwnDaemon().folder)
    bridges = subprocess.run(
        ["ip", "-brief", "link", "show", "type", "bridge"], capture_output=True, text=True, check=True
    )
    return {
        "processes": [found for path in Path("/proc").glob("[0-9]*") if (found := of_docker(path, ours))],
        "mounts": [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if ours in line],
        "bridges": sorted(line.split()[0] for line in bridges.stdout.splitlines()),
        "filter": firewall.parse(firewall.saved()),
        "forwarding": FORWARDING.read_text(),
        "groups": sorted(map(str, [*GROUPS.glob("docker"), *GROUPS.glob("*/docker")])),
        "folders": [path for path in ("/run/docker", "/run/containerd", "/lib/modules") if Path(path).exists()],
    }


def of_docker(process: Path, folder: str) -> str:
    """The command of a process that is in a container, or was started with a path of the harness's Docker."""
    with suppress(OSError):
        command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        if folder in command or "/docker/" in (process / "cgroup").read_text():
            return f"{process.name}: {command[:200]}"
    return ""


def session() -> None:
    """One short session, as `make e2e BACKEND=kind` begins them."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *SESSION],
        cwd=ROOT,
        env=os.environ | {"BACKEND": "kind"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_a_session_leaves_nothing_behind(before: Mapping[str, object]) -> None:
    began = time.monotonic()
    session()
    print(f"\na session of one test: {time.monotonic() - began:.0f} s")
    assert traces() == before


def test_what_a_killed_session_leaves_the_next_one_takes_away(before: Mapping[str, object], tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "up\n"
        killed.send_signal(signal.SIGKILL)
    assert traces() != before, "containers outlive who started them"
    with OwnDaemon():
        pass
    assert traces() == before
