"""Which processes are those of a Docker of the harness that was killed, and which only name its folder."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.harness.docker import leftovers
from e2e.harness.docker.leftovers import Process, of_docker

FOLDER = Path("/cache/docker")
SOCKET = f"{FOLDER}/run/exec/containerd/containerd.sock"
ME = 900


def table(*more: tuple[int, int, str]) -> dict[int, Process]:
    """This test run below a shell, and more: id, parent, command line."""
    usual = ((1, 0, "/sbin/init"), (800, 1, "bash"), (ME, 800, "python3 -m pytest"))
    return {pid: Process(parent, tuple(command.split())) for pid, parent, command in (*usual, *more)}


@pytest.mark.parametrize(
    "command",
    [
        f"/usr/sbin/dockerd --data-root={FOLDER}/data",
        f"containerd --config {FOLDER}/run/exec/containerd/containerd.toml --log-level warn",
        f"/usr/bin/containerd-shim-runc-v2 -namespace moby -id 1 -address {SOCKET}",
        f"runc --root {FOLDER}/run/exec/runtime-bounded/moby create 1",
        f"python3 -IS /checkout/e2e/kindnode/bounded_runc.py --root {FOLDER}/run/exec/runtime-bounded/moby create 1",
    ],
)
def test_dockers_programs_with_a_path_of_its_folder_are_its(command: str) -> None:
    assert of_docker(table((10, 1, command)), FOLDER, ME) == [10]


@pytest.mark.parametrize(
    "command",
    [
        f"tail -f {FOLDER}/run/dockerd.log",
        f"sh -c docker_host=unix://{FOLDER}/run/docker.sock",
        f"docker --host=unix://{FOLDER}/run/docker.sock ps",
        f"vi {FOLDER}/run/dockerd",
        f"python3 -c dockerd {FOLDER}/run/x",
        "/usr/sbin/dockerd --host=fd://",
        "containerd-shim-runc-v2 -address /run/containerd/containerd.sock",
        f"dockerd --data-root={FOLDER}-of-another/data",
    ],
)
def test_who_only_names_the_folder_or_is_of_another_docker_is_left_alone(command: str) -> None:
    assert of_docker(table((10, 1, command), (11, 10, "sleep 1")), FOLDER, ME) == []


def test_what_a_shim_runs_goes_with_it() -> None:
    shim = f"containerd-shim-runc-v2 -address {SOCKET}"
    found = of_docker(table((10, 1, shim), (11, 10, "/sbin/init"), (12, 11, "kubelet"), (13, 1, "kubelet")), FOLDER, ME)
    assert found == [10, 11, 12]


def test_a_run_in_one_of_its_containers_spares_itself_and_what_it_comes_from() -> None:
    shim = f"containerd-shim-runc-v2 -address {SOCKET}"
    processes = table((10, 1, shim), (11, 10, "/sbin/init")) | {800: Process(11, ("bash",))}
    assert of_docker(processes, FOLDER, ME) == []
    own = table((10, 800, f"dockerd --data-root={FOLDER}/data")) | {ME: Process(10, ("pytest",))}
    assert of_docker(own, FOLDER, ME) == []


def test_a_reader_of_the_log_outlives_what_is_ended(tmp_path: Path) -> None:
    log = tmp_path / "run" / "dockerd.log"
    log.parent.mkdir()
    log.touch()
    tail = shutil.which("tail")
    assert tail is not None
    with (
        subprocess.Popen(["tail", "-f", str(log)]) as reader,
        subprocess.Popen(["runc", "-f", str(log)], executable=tail) as runc,
    ):
        try:
            wait_for(lambda: leftovers.processes(tmp_path) == [(runc.pid, "runc")])
            leftovers.end(tmp_path)
            assert runc.wait(timeout=10) == -9
            assert reader.poll() is None
            assert leftovers.left(tmp_path) == []
        finally:
            reader.kill()
            runc.kill()


def test_another_dockerd_is_seen_where_it_has_the_same_packet_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not by one that is started here: a run beside the tests would see it, too.
    ours, reader = f"dockerd --data-root={FOLDER}/data", "tail -f /var/log/dockerd"
    theirs = (10, 1, "/usr/bin/dockerd -H fd://"), (11, 1, "dockerd --host=unix:///x")
    processes = table(*theirs, (12, 1, ours), (13, 1, reader))
    monkeypatch.setattr(leftovers, "_table", lambda: processes)
    monkeypatch.setattr(leftovers, "_shares_network", lambda pid: pid != 11)
    assert leftovers.others(FOLDER) == [10]


def test_who_has_a_network_of_its_own_does_not_share_it() -> None:
    assert leftovers._shares_network(os.getpid())
    assert not leftovers._shares_network(2**30), "one that has gone"


def wait_for(holds: Callable[[], bool]) -> None:
    """A process has its command line a moment after it was started."""
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
