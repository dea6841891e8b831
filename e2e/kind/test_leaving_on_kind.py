"""A session on kind leaves the machine as it found it, and what a killed one leaves the next one takes away."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from e2e.harness.docker import engine, firewall, networks, own_daemon
from e2e.harness.docker.own_daemon import OwnDaemon
from e2e.harness.errors import UnavailableError
from e2e.harness.machine_speed import time_scale
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
GROUPS, SYSCTLS = Path("/sys/fs/cgroup"), Path("/proc/sys")
COUNTED = (
    "fs/aio-nr",
    "fs/dentry-state",
    "fs/file-nr",
    "fs/inode-*",
    "fs/quota/*",
    "kernel/ns_last_pid",
    "kernel/perf_event_max_sample_rate",
    "kernel/pty/nr",
    "kernel/random/*",
    "net/netfilter/nf_conntrack_count",
)
"""What the kernel itself changes."""
FOLDERS = ("/run/docker", "/run/containerd", "/lib/modules", "/etc/docker", "/etc/docker/key.json")
ADMINS_RULE = ("INPUT", "--source", "203.0.113.7", "--jump", "DROP")
PANIC = SYSCTLS / "kernel" / "panic"
"""Each kubelet sets it. It gets another value first: a session before may have left what they set."""
ANOTHER = """
import sys, time
from pathlib import Path
from e2e.harness.docker.own_daemon import OwnDaemon
kept = OwnDaemon(Path(sys.argv[1])).start()
print("up", flush=True)
time.sleep(3600)
"""
pytestmark = pytest.mark.timeout(1500)


@pytest.fixture
def before() -> Iterator[Mapping[str, object]]:
    """What is there of Docker's before the session; skipped where the Docker is not the harness's."""
    try:
        if engine.running():
            pytest.skip("a user's Docker runs here, and stays as it is")
        own_daemon.require()
    except UnavailableError as error:
        pytest.skip(str(error))
    if OwnDaemon().left() or networks.BRIDGE in networks.links():  # by a session that was killed before this one
        with OwnDaemon():
            pass
    was = PANIC.read_text()
    PANIC.write_text("1\n")
    yield traces()
    PANIC.write_text(was)


def traces() -> Mapping[str, object]:
    """What is there of Docker's: processes, mounts, bridges, rules, groups, folders; and all settings of the kernel."""
    ours = str(OwnDaemon().folder)
    bridges = subprocess.run(
        ["ip", "-brief", "link", "show", "type", "bridge"], capture_output=True, text=True, check=True
    )
    return {
        "processes": [found for path in Path("/proc").glob("[0-9]*") if (found := of_docker(path, ours))],
        "mounts": [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if ours in line],
        "bridges": sorted(line.split()[0] for line in bridges.stdout.splitlines()),
        "filter": packet_filter(),
        "groups": sorted(map(str, [*GROUPS.glob("docker"), *GROUPS.glob("*/docker")])),
        "folders": [path for path in FOLDERS if Path(path).exists()],
        **settings(),
    }


def changed(before: Mapping[str, object]) -> Mapping[str, tuple[object, object]]:
    """What is not as it was, then and now; settings of modules that were loaded since were not there."""
    now = traces()
    return {what: (was, now.get(what)) for what, was in before.items() if was != now.get(what)}


def packet_filter() -> Mapping[str, tuple[Mapping[str, str], Sequence[str]]]:
    """Each table's rules, and its chains but for the kernel's own that let all through, with which a table begins."""
    found = firewall.parse(firewall.saved())
    chains = {table: {name: on for name, on in held.items() if on != "ACCEPT"} for table, held in found.chains.items()}
    return {table: (chains[table], rules) for table, rules in found.rules.items() if chains[table] or rules}


def settings() -> Mapping[str, str]:
    """All settings of the kernel that stay as somebody has set them."""
    found = {}
    for path in SYSCTLS.rglob("*"):
        name = path.relative_to(SYSCTLS)
        if path.is_file() and not any(name.match(pattern) for pattern in COUNTED):
            with suppress(OSError):  # some can only be written, and a link may go
                found[str(name)] = path.read_text(errors="replace")
    return found


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
        timeout=900 * time_scale(),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder for another cache: containerd's sockets have no room for pytest's own names."""
    with tempfile.TemporaryDirectory(prefix="slack-") as folder:
        yield Path(folder)


@pytest.fixture
def admins_rule() -> Iterator[Callable[[], None]]:
    """Adds a rule and a chain as somebody may while a session runs; at the end they must be there to be taken out."""
    added = ExitStack()

    def add() -> None:
        for verb, undo, words in (("-A", "-D", ADMINS_RULE), ("-N", "-X", ("slack-admin",))):
            iptables(verb, *words)
            added.callback(iptables, undo, *words)

    with added:
        yield add


def iptables(*arguments: str) -> None:
    """Change the packet filter, or fail."""
    subprocess.run(["iptables", *arguments], check=True, capture_output=True, timeout=30)


def test_a_session_leaves_nothing_behind(before: Mapping[str, object]) -> None:
    began = time.monotonic()
    session()
    print(f"\na session of one test: {time.monotonic() - began:.0f} s")
    assert changed(before) == {}


def test_what_a_killed_session_leaves_the_next_one_takes_away(
    before: Mapping[str, object], admins_rule: Callable[[], None], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "up\n"
        killed.send_signal(signal.SIGKILL)
    left = changed(before)
    assert left.keys() >= {"processes", "mounts", "bridges", "filter", "kernel/panic"}, (
        "containers outlive who started them"
    )
    print(f"\na killed session leaves {', '.join(left)}")
    admins_rule()
    with OwnDaemon():
        pass
    assert changed(before).keys() == {"filter"}, "what an admin has added stays"
    iptables("-C", *ADMINS_RULE)


def test_what_a_killed_session_left_of_another_cache_goes_too(before: Mapping[str, object], short_path: Path) -> None:
    other = short_path / "docker"
    command = [sys.executable, "-c", ANOTHER, str(other)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "up\n"
        killed.send_signal(signal.SIGKILL)
    assert changed(before)
    with OwnDaemon():
        pass
    assert OwnDaemon(other).left() == []
    assert changed(before) == {}
