"""What the harness's own Docker decides and how it starts and ends, with programs that only pretend."""

import fcntl
import ipaddress
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.harness.docker import contents, folders, machine_lock, machine_state, own_daemon, sysctls
from e2e.harness.docker.contents import superseded
from e2e.harness.docker.networks import free_span
from e2e.harness.docker.own_daemon import OwnDaemon, flags
from e2e.harness.errors import HarnessError, UnavailableError
from e2e.kindnode import node_image
from e2e.kindnode.bounded_runc import bounded, file_of

SPAN = ipaddress.IPv4Network("172.30.96.0/20")
PROGRAMS = {
    "ip": 'case "$*" in *show*) echo "[]";; esac',
    "iptables-save": "true",
    "dockerd": 'test "$1" = --help && echo --ip6tables && exit; exec sleep 600',
    "docker": """echo "$*" >> $LOG
test -e $LOG.hangs && exec sleep 600
case "$*" in "image ls"*) printf '%s\\n' $IMAGES;; esac""",
}


class Machine:
    """A machine on which nothing of Docker's is real but its processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = folder / "lock" / "resource-slack-docker"
        self.log = folder / "log"

    def asked(self) -> list[str]:
        """The docker commands that were run."""
        return self.log.read_text().splitlines()

    def hang(self) -> None:
        """Have docker answer no more."""
        self.log.with_name("log.hangs").touch()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Such a machine, and the environment of its programs."""
    found = Machine(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "lock").mkdir()
    for name, body in PROGRAMS.items():
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("LOG", str(found.log))
    monkeypatch.setenv("IMAGES", f"resource-slack.test/python:new resource-slack.test/python:old {node_image.name()}")
    monkeypatch.setattr(machine_lock, "PLACE", tmp_path / "lock")
    monkeypatch.setattr(own_daemon, "require", lambda: None)
    # A Docker that runs beside the tests may change these, and that is not theirs to put back.
    monkeypatch.setattr(sysctls, "saved", dict)
    monkeypatch.setattr(folders, "present", list)
    monkeypatch.setattr(contents, "_HANGS_AFTER_SECONDS", 0.5)
    yield found
    assert not list(found.place.glob("before.json"))


def test_dockerd_obeys_no_configuration_but_ours(machine: Machine) -> None:
    with OwnDaemon(machine.folder / "docker") as daemon:
        record = json.loads((daemon.folder / "run" / "dockerd.pid").read_text())
    (configuration,) = [word for word in record["command"] if word.startswith("--config-file=")]
    assert json.loads(Path(configuration.partition("=")[2]).read_text()) == {}
    assert "--ip6tables=false" in record["command"]


def test_a_flag_that_this_dockerd_does_not_know_is_not_given() -> None:
    folder = Path("/cache/docker")
    assert "--ip6tables=false" in flags(folder, SPAN, Path("x"), "  --ip6tables   Enable addition of ip6tables rules")
    assert not any("ip6tables" in flag for flag in flags(folder, SPAN, Path("x"), "  --iptables  Enable addition"))


def test_images_that_no_run_will_ask_for_go_at_the_end(machine: Machine) -> None:
    with OwnDaemon(machine.folder / "docker"):
        assert "image prune --force" not in machine.asked()
    assert "image rm resource-slack.test/python:old" in machine.asked()
    assert "image prune --force" in machine.asked()


def test_the_newest_of_each_repository_stays_and_what_is_current() -> None:
    listed = [
        "resource-slack.test/kind-node:3",
        "resource-slack:0.2.0",
        "resource-slack.test/kind-node:2",
        "resource-slack:0.1.0",
        "resource-slack.test/python:<none>",
        "resource-slack.test/python:1",
        "resource-slack.test/kind-node:1",
        "somebody.test/kind-node:0",
    ]
    assert superseded(listed, ["resource-slack.test/kind-node:2"]) == ["resource-slack.test/kind-node:1"]
    assert superseded(listed, []) == ["resource-slack.test/kind-node:2", "resource-slack.test/kind-node:1"]


def test_one_that_hangs_is_ended_all_the_same(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    daemon = OwnDaemon(machine.folder / "docker").start()
    pid = json.loads((daemon.folder / "run" / "dockerd.pid").read_text())["pid"]
    machine.hang()
    daemon.stop()
    assert not Path(f"/proc/{pid}").exists()
    assert "ended with what is in it" in capsys.readouterr().err


def test_one_that_hangs_while_it_starts_is_ended_and_said_to(machine: Machine) -> None:
    machine.hang()
    daemon = OwnDaemon(machine.folder / "docker", ready_seconds=1.0)
    with pytest.raises(HarnessError, match="dockerd was not ready"):
        daemon.start()
    assert not list((daemon.folder / "run").glob("dockerd.pid"))


def test_it_can_be_started_anew(machine: Machine) -> None:
    with OwnDaemon(machine.folder / "docker") as daemon:
        record = daemon.folder / "run" / "dockerd.pid"
        first = json.loads(record.read_text())["pid"]
        daemon.restart()
        assert json.loads(record.read_text())["pid"] != first
        assert not Path(f"/proc/{first}").exists()
    with pytest.raises(HarnessError, match="does not run"):
        daemon.restart()


def test_a_run_with_another_cache_waits_for_the_lock_of_the_machine(machine: Machine) -> None:
    daemon = OwnDaemon(machine.folder / "another")
    machine.place.mkdir()
    with (machine.place / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        starting = threading.Thread(target=daemon.start)
        starting.start()
        time.sleep(0.5)
        assert not machine.log.exists(), "it has not started yet"
    starting.join(timeout=30)
    assert machine.asked()
    daemon.stop()


def test_what_a_killed_run_with_another_cache_left_is_ended(machine: Machine) -> None:
    tail = shutil.which("tail")
    assert tail is not None
    other = machine.folder / "other"
    socket = other / "run" / "containerd.sock"
    socket.parent.mkdir(parents=True)
    socket.touch()
    machine.place.mkdir()
    machine_state.write(machine.place / "before.json", machine_state.taken(other, SPAN))
    with subprocess.Popen(["containerd-shim-runc-v2", "-f", str(socket)], executable=tail) as shim:
        try:
            with OwnDaemon(machine.folder / "docker"):
                assert shim.wait(timeout=10) == -9
        finally:
            shim.kill()


def test_a_torn_record_keeps_no_run_from_starting(machine: Machine) -> None:
    machine.place.mkdir()
    (machine.place / "before.json").write_text('{"boot": "5c')
    with OwnDaemon(machine.folder / "docker"):
        assert json.loads((machine.place / "before.json").read_text())["docker"] == str(machine.folder / "docker")


def test_the_addresses_are_the_first_that_no_route_touches() -> None:
    spans = ("172.30.96.0/20", "172.29.96.0/20")
    assert free_span(spans, ["192.0.2.0/24", "fd00::/64"]) == ipaddress.IPv4Network(spans[0])
    assert free_span(spans, ["172.30.100.0/24"]) == ipaddress.IPv4Network(spans[1])
    with pytest.raises(UnavailableError, match="no addresses for containers"):
        free_span(spans, ["172.16.0.0/12"])


def test_a_privileged_process_is_not_given_what_runc_has_not() -> None:
    asked = {
        "capabilities": {"bounding": ["CAP_SYS_ADMIN", "CAP_SYS_RESOURCE"], "ambient": None},
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1048576, "soft": 1048576}],
        "oomScoreAdj": -998,
        "args": ["sleep"],
    }
    assert bounded(asked) == {"capabilities": {"bounding": ["CAP_SYS_ADMIN"], "ambient": []}, "args": ["sleep"]}
    assert bounded({"args": ["true"], "oomScoreAdj": 100}) == {"args": ["true"], "oomScoreAdj": 100}


def test_the_process_is_found_where_docker_puts_it(tmp_path: Path) -> None:
    flags = ["--root", "/run/exec/runc", "--log", str(tmp_path / "log.json"), "--log-format", "json"]
    bundle = tmp_path / "config.json"
    bundle.write_text(json.dumps({"process": {}}))
    assert file_of([*flags, "create", "--bundle", str(tmp_path), "--pid-file", "x", "id"]) == (bundle, True)
    assert file_of([*flags, "run", f"--bundle={tmp_path}", "id"]) == (bundle, True)
    assert file_of([*flags, "exec", "--process", "/tmp/process1", "--detach", "id"]) == (Path("/tmp/process1"), False)
    assert file_of([*flags, "exec", "id", "true"]) is None
    assert file_of([*flags, "delete", "--force", "id"]) is None
