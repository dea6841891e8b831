"""Containers that are processes: created, ready when they say so, ended, and gone; what fails is told."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.demand.measuring import processes as module
from benchmarks.demand.measuring.processes import Processes
from slack.demand.model import ContainerState, Creation, Ending, EndReason, QueueKey

KEY = QueueKey("media", "thumb")
SAYS_READY = """
import os, signal, socket, sys, time
name = sys.argv[1].partition("=")[2]
if name.startswith("bad"):
    sys.exit(7)
told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
told.sendto(f"READY=1\\nX_CONTAINER={name}\\n".encode(), os.environ["NOTIFY_SOCKET"])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
time.sleep(60)
"""


def creation(name: str) -> Creation:
    return Creation(id=name, key=KEY, revision="r1", subject="act.media.thumb.64", node_hint="node-1")


def ending(name: str) -> Ending:
    return Ending(container_id=name, key=KEY, reason=EndReason.IDLE)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A proxy that only says that it is ready."""
    script = tmp_path / "proxy.py"
    script.write_text(SAYS_READY, encoding="utf-8")
    monkeypatch.setattr(module, "COMMAND", (sys.executable, "-IS", str(script)))


@pytest.mark.usefixtures("quick")
def test_a_process_is_seen_from_its_creation_on_and_gone_when_it_has_ended() -> None:
    with Processes(lambda found: [f"--container={found.id}"]) as processes:
        processes.create([creation("a"), creation("b"), creation("a")])
        assert {found.id: found.state for found in processes.seen()}.keys() == {"a", "b"}
        until(lambda: all(found.state is ContainerState.READY for found in processes.seen()))
        found = processes.seen()[0]
        assert (found.key, found.node, found.subject) == (KEY, "node-1", "act.media.thumb.64")
        assert found.ready_at_seconds is not None
        assert found.ready_at_seconds >= found.created_at_seconds
        processes.end([ending("a"), ending("a"), ending("never there")])
        assert {found.state for found in processes.seen() if found.id == "a"} <= {ContainerState.DRAINING}
        until(lambda: [found.id for found in processes.seen()] == ["b"])
        processes.kill("b")
        until(lambda: not processes.seen())
        assert processes.started == 2


@pytest.mark.usefixtures("quick")
def test_what_ends_before_it_is_ready_has_failed() -> None:
    failed: list[tuple[str, str]] = []
    with Processes(
        lambda found: [f"--container={found.id}"], lambda *told: failed.append((str(told[0]), str(told[1])))
    ) as processes:
        processes.create([creation("bad")])
        until(lambda: not processes.seen())
    assert failed == [("bad", "the process ended with 7 before it was ready")]


@pytest.mark.usefixtures("quick")
def test_a_creation_that_is_ended_before_its_delay_is_over_starts_nothing() -> None:
    with Processes(lambda found: [f"--container={found.id}"], delay_seconds=lambda: 0.05) as processes:
        processes.create([creation("a")])
        assert [found.state for found in processes.seen()] == [ContainerState.CREATING]
        processes.end([ending("a")])
        assert not processes.seen()
        time.sleep(0.1)
        assert processes.started == 0


def test_a_command_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMMAND", ("/nowhere/python",))
    failed: list[str] = []
    with Processes(lambda _: [], lambda *told: failed.append(str(told[1]))) as processes:
        processes.create([creation("a")])
        until(lambda: bool(failed))
        assert not processes.seen()
    assert failed == ["cannot be started: No such file or directory"]


@pytest.mark.usefixtures("quick")
def test_more_processes_than_the_kernel_keeps_words_of_become_ready_while_nobody_looks() -> None:
    with Processes(lambda found: [f"--container={found.id}"]) as processes:
        processes.create([creation(f"c{number}") for number in range(14)])
        until(lambda: processes.ready == 14)
        assert {found.state for found in processes.seen()} == {ContainerState.READY}
