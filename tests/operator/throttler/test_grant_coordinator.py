"""The agent's desk: who is granted when, what a killed agent's successor knows, and what hostile gates get."""

import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from e2e.harness.json_patch import patched
from slack.process.atomic_write import write_atomically
from slack.throttler import protocol
from slack.throttler.decision import NodeThrottle
from slack.throttler.fsm import StartState
from slack.throttler.injection import DEPENDS_ON, GateOptions, patch, patch_by_config_map
from slack.throttler.limits import Limits
from slack.throttler.protocol import Blind, FromAgent, Granted, RequestRefused, Wait, Withdraw
from slack.throttler.queue import Key
from slack_operator.throttler.agent import journal as journal_module
from slack_operator.throttler.agent.grant_coordinator import GRACE_SECONDS, GrantCoordinator, Opened
from slack_operator.throttler.agent.journal import COMPACT_LINES, Journal
from slack_operator.throttler.agent.node_pods import NodePod

BOOT = "boot-1"
ONE_SLOT = Limits(slots=1, start_timeout_seconds=60.0)
HELD = {"waiting": {"reason": "CreateContainerConfigError"}}
BACKING_OFF = {"waiting": {"reason": "CrashLoopBackOff"}}
ENDED = {"terminated": {"exitCode": 1}}
RUNS = {"running": {"startedAt": "2026-11-23T00:00:00Z"}}
OPTIONS = GateOptions(image="slack", agent_port=1, agent_name="agent", authority="PEM")
Json = dict[str, Any]


def row(name: str, state: Json = HELD, container_id: str = "", *, ready: bool = False) -> Json:
    """Return a container's status."""
    given = {"containerID": container_id} if container_id else {}
    return {"name": name, "state": state, "ready": ready, "started": ready, **given}


def a_pod(
    uid: str, *rows: Json, depends: str | None = None, phase: str = "Pending", restart: str = "Always"
) -> NodePod:
    """Return a gated pod with probed containers, one a row."""
    annotations = {} if depends is None else {DEPENDS_ON: depends}
    containers = [{"name": entry["name"], "readinessProbe": {"exec": {}}} for entry in rows]
    bare = {"metadata": {}, "spec": {"containers": containers, "restartPolicy": restart}}
    document = patched(bare, patch(bare, OPTIONS))
    document["metadata"] = {"name": uid, "namespace": "shop", "uid": uid, "annotations": annotations}
    document["status"] = {"phase": phase, "containerStatuses": list(rows)}
    return msgspec.json.decode(msgspec.json.encode(document), type=NodePod)


def a_desk(folder: Path, limits: Limits = ONE_SLOT, now: float = 0.0, boot: str = BOOT) -> GrantCoordinator:
    """Return an agent's desk with its journal in this folder."""
    return GrantCoordinator(NodeThrottle(limits), Journal(folder / "journal", boot), now)


def granted(messages: Sequence[tuple[str, FromAgent]]) -> list[tuple[str, str]]:
    """Return who was granted: pod and container."""
    return [(uid, message.container) for uid, message in messages if isinstance(message, Granted)]


def arrive(desk: GrantCoordinator, uid: str, *names: str, now: float = 0.0, **kind: Any) -> None:
    """Have a pod there that the kubelet holds, and whose gate has asked."""
    desk.update(a_pod(uid, *(row(name) for name in names), **kind), now)
    for name in names:
        desk.ask(uid, name, now)


def test_one_slot_is_given_to_one_container_and_again_when_that_is_ready(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    arrive(desk, "u1", "a", "b")
    assert granted(desk.grant_due(10.0).messages) == [("u1", "a")]
    assert granted(desk.grant_due(11.0).messages) == []
    said = desk.update(a_pod("u1", row("a", RUNS, "a1"), row("b")), 12.0)
    assert said == [("u1", Withdraw(container="a", instance="a1"))]
    assert granted(desk.grant_due(12.0).messages) == []
    desk.update(a_pod("u1", row("a", RUNS, "a1", ready=True), row("b")), 13.0)
    assert granted(desk.grant_due(13.0).messages) == [("u1", "b")]


def test_nothing_is_granted_before_the_kubelet_holds_it_and_its_gate_has_asked(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    desk.update(a_pod("u1", row("a", {"waiting": {"reason": "PodInitializing"}})), 6.0)
    told = desk.ask("u1", "a", 6.0)
    assert isinstance(told, Wait)
    assert told.state is StartState.DOWNLOADING
    assert desk.grant_due(6.0).messages == []
    said = desk.update(a_pod("u1", row("a")), 7.0)
    assert isinstance(said[0][1], Wait)
    assert granted(desk.grant_due(7.0).messages) == [("u1", "a")]
    desk.update(a_pod("u2", row("a")), 8.0)
    desk.update(a_pod("u1", row("a", RUNS, "a1", ready=True)), 8.0)
    assert desk.grant_due(8.0).messages == [], "no gate of u2 has asked"


def test_dependencies_come_before_slots(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    arrive(desk, "u1", "b", "a", depends='{"b": ["a"]}')
    assert granted(desk.grant_due(10.0).messages) == [("u1", "a")]
    told = desk.ask("u1", "b", 10.0)
    assert isinstance(told, Wait)
    assert told.state is StartState.BLOCKED
    assert "a" in told.reason


def test_a_cycle_that_no_webhook_has_seen_is_held_and_told(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    arrive(desk, "u1", "a", "b", depends='{"a": ["b"], "b": ["a"]}')
    told = desk.ask("u1", "a", 10.0)
    assert isinstance(told, Wait)
    assert "a -> b -> a" in told.reason
    assert desk.grant_due(10.0).messages == []
    assert "u1" in desk.bad


def test_a_restart_waits_again_and_ends_once_however_often_it_is_told(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    arrive(desk, "u1", "a")
    desk.grant_due(10.0)
    desk.update(a_pod("u1", row("a", RUNS, "a1", ready=True)), 11.0)
    said = desk.update(a_pod("u1", row("a", ENDED, "a1")), 12.0)
    assert isinstance(said[0][1], Wait)
    assert desk.grant_due(12.0).messages == []
    for _ in range(2):
        desk.update(a_pod("u1", row("a", BACKING_OFF, "a1")), 13.0)
        assert desk.grant_due(13.0).messages == []
    desk.update(a_pod("u1", row("a", HELD, "a1")), 14.0)
    assert granted(desk.grant_due(14.0).messages) == [("u1", "a")]
    desk.update(a_pod("u1", row("a", HELD, "a1")), 15.0)
    assert desk.grant_due(15.0).messages == [], "the status is that of before the grant"
    assert isinstance(desk.ask("u1", "a", 15.0), Granted)


def test_a_container_that_has_ended_for_good_frees_its_slot_and_those_that_wait_for_it(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    arrive(desk, "u1", "a", "b", depends='{"b": ["a"]}', restart="Never")
    desk.grant_due(10.0)
    done = row("a", {"terminated": {"exitCode": 0}}, "a1")
    desk.update(a_pod("u1", done, row("b"), depends='{"b": ["a"]}', restart="Never"), 11.0)
    assert granted(desk.grant_due(11.0).messages) == [("u1", "b")]


def test_a_pod_that_goes_frees_its_slot(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    arrive(desk, "u1", "a")
    arrive(desk, "u2", "a")
    desk.grant_due(10.0)
    desk.forget("u1")
    assert granted(desk.grant_due(11.0).messages) == [("u2", "a")]
    desk.update(a_pod("u2", row("a"), phase="Failed"), 12.0)
    assert desk.throttle.starting == 0


def test_an_agent_that_is_killed_after_any_step_loses_no_grant_and_hands_out_none_twice(tmp_path: Path) -> None:
    """A pod is followed to the end; before each step the agent may be killed, and the next begins with the journal."""
    for number, killed_before in enumerate(
        itertools.chain.from_iterable(itertools.combinations(range(5), n) for n in range(4))
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        desk, now = a_desk(folder), 0.0
        given: list[str] = []
        rows: dict[str, list[Json]] = {"u1": [row("a")], "u2": [row("a")]}
        for step in range(5):
            if step in killed_before:
                desk = a_desk(folder, now=now)
            for uid, told in rows.items():
                desk.update(a_pod(uid, *told), now)
                answer = desk.ask(uid, "a", now)
                assert isinstance(answer, Granted) == (bool(given) and given[-1] == uid and rows[uid] == [row("a")])
            now += GRACE_SECONDS + 1
            for uid, _ in granted(desk.grant_due(now).messages):
                assert uid not in given, killed_before
                given.append(uid)
            assert desk.throttle.starting <= 1
            if step == 1:
                rows[given[0]] = [row("a", RUNS, "x1")]
            if step == 2:
                rows[given[0]] = [row("a", RUNS, "x1", ready=True)]
        assert sorted(given) == ["u1", "u2"], killed_before


def test_a_journal_that_is_lost_is_made_up_for_by_what_runs(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    arrive(desk, "u1", "a")
    arrive(desk, "u2", "a")
    desk.grant_due(10.0)
    (tmp_path / "journal").unlink()
    after = a_desk(tmp_path, now=20.0)
    after.update(a_pod("u1", row("a", RUNS, "a1")), 20.0)
    arrive(after, "u2", "a", now=20.0)
    assert after.grant_due(30.0).messages == [], "u1 runs, is not ready, and so has the slot"
    assert after.opened == [], "nobody opened: the agent came later"


@pytest.mark.parametrize("torn", [b'{"boot":"boot-1","uid":"u', b"\x00\xff junk", b"[]", b"{}"])
def test_a_journal_with_torn_lines_keeps_the_others(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "journal"
    Journal(path, BOOT).append([("u1", "a", "", 1.0)])
    with path.open("ab") as file:
        file.write(torn)
    Journal(path, BOOT).append([("u2", "a", "x", 2.0)])
    journal = Journal(path, BOOT)
    assert journal.read().keys() == {("u1", "a"), ("u2", "a")}


def test_a_journal_of_another_boot_is_not_read(tmp_path: Path) -> None:
    Journal(tmp_path / "journal", "boot-0").append([("u1", "a", "", 1e9)])
    assert Journal(tmp_path / "journal", BOOT).read() == {}


def test_where_the_journal_cannot_be_written_starts_go_on_and_that_is_told(tmp_path: Path) -> None:
    desk = GrantCoordinator(NodeThrottle(ONE_SLOT), Journal(tmp_path / "missing" / "journal", BOOT), 0.0)
    arrive(desk, "u1", "a")
    turn = desk.grant_due(10.0)
    assert granted(turn.messages) == [("u1", "a")]
    assert "missing" in (turn.unwritten or "")


def test_a_full_disk_leaves_no_half_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "journal", BOOT)
    journal.append([("u1", "a", "", 1.0)])
    whole = (tmp_path / "journal").read_bytes()
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:7]))
    with pytest.raises(OSError, match="no room"):
        journal.append([("u2", "a", "", 2.0)])
    assert (tmp_path / "journal").read_bytes() == whole


def test_the_grant_stands_in_the_journal_before_its_message_is_there(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    arrive(desk, "u1", "a")
    assert granted(desk.grant_due(10.0).messages)
    assert Journal(tmp_path / "journal", BOOT).read().keys() == {("u1", "a")}


def test_a_long_journal_keeps_only_pods_that_are_there(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", BOOT)
    journal.append([(f"u{number}", "a", "", 1.0) for number in range(5000)])
    journal.compact({"u7"})
    assert Journal(tmp_path / "journal", BOOT).read().keys() == {("u7", "a")}


@pytest.mark.parametrize("pods", [1, pytest.param(1000, marks=pytest.mark.thorough)])
def test_a_journal_is_as_long_as_what_is_there_and_is_rewritten_rarely(
    tmp_path: Path, pods: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, rewritten = Journal(tmp_path / "journal", BOOT), 0

    def counted(path: Path, data: bytes) -> None:
        nonlocal rewritten
        rewritten += 1
        write_atomically(path, data)

    monkeypatch.setattr(journal_module, "write_atomically", counted)
    for number in range(5000):
        journal.append([(f"u{number}", "a", "", 1.0)])
        journal.compact({f"u{alive}" for alive in range(max(0, number - pods + 1), number + 1)})
    lines = (tmp_path / "journal").read_bytes().split()
    assert len(lines) <= max(COMPACT_LINES, 2 * pods)
    assert rewritten <= 5000 / max(COMPACT_LINES / 2, pods) + 20


def test_a_gate_gets_nothing_but_its_own_containers_however_it_asks(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    arrive(desk, "u1", "a")
    for name in ("other", "../a", "throttler-gate"):
        assert isinstance(desk.ask("u1", name, 1.0), RequestRefused)
    unknown = desk.ask("nobody", "a", 1.0)
    assert isinstance(unknown, Blind), "a pod that never reaches the agent must not hold its gate for ever"
    for _ in range(5000):
        desk.ask("u1", "a", 1.0)
        desk.ask("nobody", "a", 1.0)
    assert desk.throttle.counts()[StartState.PENDING] == 1
    assert granted(desk.grant_due(10.0).messages) == [("u1", "a")]


def test_who_is_late_frees_the_slot_and_may_be_ready_later(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    arrive(desk, "u1", "a")
    arrive(desk, "u2", "a")
    desk.grant_due(10.0)
    desk.update(a_pod("u1", row("a", RUNS, "a1")), 11.0)
    turn = desk.grant_due(71.0)
    assert [late.key for late in turn.late] == [Key("u1", "a")]
    assert granted(turn.messages) == [("u2", "a")]
    desk.update(a_pod("u1", row("a", RUNS, "a1", ready=True)), 80.0)
    assert desk.throttle.state(Key("u1", "a")) is StartState.READY


DELETES = Limits(slots=1, start_timeout_seconds=60.0, delete_late=True)


@pytest.mark.parametrize(
    "later",
    [
        a_pod("u1", row("a", RUNS, "a1", ready=True)),
        a_pod("u1", row("a", BACKING_OFF, "a1")),
        a_pod("u1", row("a", ENDED, "a1"), restart="Never"),
        a_pod("u1", row("a", RUNS, "a1"), phase="Failed"),
    ],
    ids=["ready", "crashed", "done", "ended"],
)
def test_a_late_container_is_reported_until_it_is_late_no_more(tmp_path: Path, later: NodePod) -> None:
    desk = a_desk(tmp_path, DELETES)
    arrive(desk, "u1", "a")
    desk.grant_due(10.0)
    desk.update(a_pod("u1", row("a", RUNS, "a1")), 11.0)
    desk.grant_due(71.0)
    assert list(desk.late) == [Key("u1", "a")]
    desk.throttle.use(ONE_SLOT)
    assert not desk.late, "the policy says Release now"
    desk.throttle.use(DELETES)
    desk.update(later, 80.0)
    assert not desk.late


def test_what_ran_before_the_agent_is_never_late(tmp_path: Path) -> None:
    """An agent that begins anew while probes fail cannot know whether a container was ready once."""
    desk = a_desk(tmp_path, DELETES)
    desk.update(a_pod("u1", row("a", RUNS, "a1")), 1.0)
    arrive(desk, "u2", "a")
    turn = desk.grant_due(70.0)
    assert (turn.late, desk.late) == ([], ())
    assert granted(turn.messages) == [("u2", "a")], "its slot is free all the same"
    desk.update(a_pod("u1", row("a", HELD, "a1")), 71.0)
    desk.ask("u1", "a", 71.0)
    desk.forget("u2")
    assert granted(desk.grant_due(72.0).messages) == [("u1", "a")]
    desk.grant_due(200.0)
    assert desk.late == (Key("u1", "a"),), "the next start was seen as a whole"


def test_a_late_container_without_a_permit_does_not_cost_its_pod(tmp_path: Path) -> None:
    desk = a_desk(tmp_path, DELETES)
    arrive(desk, "u1", "a")
    desk.update(a_pod("u1", row("a", RUNS, "a1")), 70.0)
    (late,) = desk.grant_due(140.0).late
    assert (late.delete, desk.late) == (False, ())


def test_a_permit_of_the_agent_before_counts_from_when_it_was_given(tmp_path: Path) -> None:
    Journal(tmp_path / "journal", BOOT).append([("u1", "a", "", 5.0)])
    desk = a_desk(tmp_path, DELETES, now=20.0)
    desk.update(a_pod("u1", row("a")), 21.0)
    desk.update(a_pod("u1", row("a", RUNS, "a1")), 22.0)
    (late,) = desk.grant_due(65.0).late
    assert (late.delete, desk.late) == (True, (Key("u1", "a"),))


def test_nobody_is_reported_late_by_an_agent_that_does_not_see_its_pods(tmp_path: Path) -> None:
    desk = a_desk(tmp_path, DELETES)
    arrive(desk, "u1", "a")
    desk.grant_due(10.0)
    desk.update(a_pod("u1", row("a", RUNS, "a1")), 11.0)
    (late,) = desk.grant_due(71.0, blind=True).late
    assert (late.delete, desk.late) == (False, ())
    desk.grant_due(72.0)
    assert desk.late == (), "the watch may have missed that it was ready"


def test_a_startup_probe_that_has_succeeded_ends_the_start(tmp_path: Path) -> None:
    desk = a_desk(tmp_path, DELETES)
    arrive(desk, "u1", "a")
    desk.grant_due(10.0)
    began = a_pod("u1", {**row("a", RUNS, "a1"), "started": True})
    assert began.spec.containers is not None
    began.spec.containers[0].startup_probe = began.spec.containers[0].readiness_probe
    desk.grant_due(71.0)
    assert list(desk.late) == [Key("u1", "a")]
    desk.update(began, 72.0)
    assert not desk.late


def test_a_late_pod_that_is_gone_leaves_nothing_behind(tmp_path: Path) -> None:
    desk = a_desk(tmp_path, DELETES)
    arrive(desk, "u1", "a")
    desk.grant_due(10.0)
    desk.grant_due(71.0)
    desk.forget("u1")
    assert not desk._late


def test_a_container_that_starts_without_a_grant_is_told_and_holds_a_slot(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    arrive(desk, "u1", "a")
    desk.update(a_pod("u1", row("a", RUNS, "a1")), GRACE_SECONDS + 60)
    assert desk.opened == [Key("u1", "a")]
    assert desk.throttle.starting == 1


def test_restarts_that_are_not_gated_keep_their_permit(tmp_path: Path) -> None:
    desk = a_desk(tmp_path, Limits(slots=1, gate_restarts=False))
    arrive(desk, "u1", "a")
    desk.grant_due(10.0)
    assert desk.update(a_pod("u1", row("a", RUNS, "a1", ready=True)), 11.0) == []
    desk.update(a_pod("u1", row("a", BACKING_OFF, "a1")), 12.0)
    assert desk.update(a_pod("u1", row("a", RUNS, "a2")), 13.0) == []
    assert desk.opened == []
    assert isinstance(desk.ask("u1", "a", 13.0), Granted)


def test_what_is_said_can_be_sent(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    arrive(desk, "u1", "a", "b")
    said: list[FromAgent] = [message for _, message in desk.grant_due(10.0).messages]
    said += [desk.ask("u1", name, 10.0) for name in ("a", "b", "c")]
    read: list[Mapping[str, Any]] = [msgspec.json.decode(protocol.encode_line(message)) for message in said]
    assert [entry["type"] for entry in read] == ["granted", "granted", "wait", "refused"]


def test_nothing_is_granted_before_what_runs_is_known_and_gates_are_told_so(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    desk.grant_from(60.0)
    arrive(desk, "u1", "a", now=1.0)
    assert desk.grant_due(10.0).messages == []
    assert desk.next_look(10.0) == 60.0
    told = desk.ask("u1", "a", 10.0)
    assert isinstance(told, Wait)
    assert told.reason == "the agent has just begun"
    desk.grant_from(2.0)
    assert desk.next_look(3.0) == GRACE_SECONDS, "gates still get the time to come"
    assert granted(desk.grant_due(10.0).messages) == [("u1", "a")]
    assert desk.waited == [9.0]


def test_a_clock_that_jumps_ahead_frees_the_slot_once_and_opens_no_flood(tmp_path: Path) -> None:
    limits = Limits(slots=1, start_timeout_seconds=60.0, force_after_seconds=10.0, gap_seconds=1.0)
    desk = a_desk(tmp_path, limits)
    arrive(desk, "u1", *"abcde")
    assert granted(desk.grant_due(6.0).messages) == [("u1", "a")]
    later = 1_000_000.0
    jumped = desk.grant_due(later)
    assert [late.key.container for late in jumped.late] == ["a"]
    assert granted(jumped.messages) == [("u1", "b")], "one, however much time is said to have passed"
    assert granted(desk.grant_due(later + 0.5).messages) == []


def test_a_journal_s_grant_of_a_time_to_come_is_no_older_than_now(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", BOOT)
    journal.append([("u1", "a", "", 1e9)])
    desk = a_desk(tmp_path, Limits(slots=1, start_timeout_seconds=60.0))
    arrive(desk, "u1", "a", "b", now=1.0)
    assert granted(desk.grant_due(10.0).messages) == [], "a holds the slot"
    assert [late.key.container for late in desk.grant_due(61.5).late] == ["a"]


def test_a_pod_whose_dependencies_cannot_be_kept_is_told_once_and_taken_in_once_it_is_mended(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    for second in (0.0, 1.0):
        desk.update(a_pod("u1", row("a"), depends='{"a": ["a"]}'), second)
    assert [(pod.metadata.name, why) for pod, why in desk.refused] == [("u1", "a: depends on itself: a -> a")]
    desk.update(a_pod("u1", row("a")), 2.0)
    assert desk.bad == {}
    desk.ask("u1", "a", 2.0)
    assert granted(desk.grant_due(10.0).messages) == [("u1", "a")]


def test_how_long_a_start_took_is_from_its_grant_until_it_is_ready(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    arrive(desk, "u1", "a")
    desk.grant_due(10.0)
    desk.update(a_pod("u1", row("a", RUNS, "a1")), 12.0)
    desk.update(a_pod("u1", row("a", RUNS, "a1", ready=True)), 15.0)
    desk.update(a_pod("u1", row("a", RUNS, "a1", ready=True)), 18.0)
    assert desk.started == [5.0]


def a_keyed_pod(uid: str, *rows: Json, depends: str | None = None) -> NodePod:
    """Return a pod whose permits are keys of a ConfigMap."""
    containers = [{"name": entry["name"], "readinessProbe": {"exec": {}}} for entry in rows]
    annotations = {} if depends is None else {DEPENDS_ON: depends}
    bare = {"metadata": {"annotations": annotations}, "spec": {"containers": containers, "restartPolicy": "Always"}}
    document = patched(bare, patch_by_config_map(bare, "permits-1"))
    document["metadata"] |= {"name": uid, "namespace": "shop", "uid": uid}
    document["status"] = {"phase": "Pending", "containerStatuses": list(rows)}
    return msgspec.json.decode(msgspec.json.encode(document), type=NodePod)


def test_permits_in_a_config_map_need_no_ask_and_are_said_until_they_are_used(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    desk.update(a_keyed_pod("u1", row("b"), row("a"), depends='{"b": ["a"]}'), 0.0)
    turn = desk.grant_due(10.0)
    assert (turn.permits, turn.messages) == (True, []), "there is no gate to tell"
    assert list(desk.permits) == [Key("u1", "a")]
    assert not desk.grant_due(11.0).permits
    assert list(desk.permits) == [Key("u1", "a")]
    desk.update(a_keyed_pod("u1", row("b"), row("a", RUNS, "a1"), depends='{"b": ["a"]}'), 12.0)
    assert not desk.permits
    desk.update(a_keyed_pod("u1", row("b"), row("a", RUNS, "a1", ready=True), depends='{"b": ["a"]}'), 13.0)
    assert desk.grant_due(13.0).permits
    assert list(desk.permits) == [Key("u1", "b")]
    assert desk.opened == []


def test_a_restart_with_a_key_that_stays_takes_a_slot_and_waits_for_nobody(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    desk.update(a_keyed_pod("u1", row("a")), 0.0)
    desk.grant_due(10.0)
    desk.update(a_keyed_pod("u1", row("a", RUNS, "a1", ready=True)), 11.0)
    desk.update(a_keyed_pod("u1", row("a", ENDED, "a1")), 12.0)
    assert desk.throttle.state(Key("u1", "a")) is StartState.STARTING
    assert desk.throttle.starting == 1
    desk.update(a_keyed_pod("u1", row("a", RUNS, "a2")), 13.0)
    assert not desk.permits
    assert not desk.opened


def test_the_next_agent_says_again_what_the_former_had_granted(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    desk.update(a_keyed_pod("u1", row("a"), row("b")), 0.0)
    desk.grant_due(10.0)
    after = a_desk(tmp_path, now=20.0)
    after.update(a_keyed_pod("u1", row("a"), row("b")), 20.0)
    assert list(after.permits) == [Key("u1", "a")]
    assert after.grant_due(30.0).grants == (), "the slot is taken"


def test_a_key_that_was_taken_away_is_waited_for_in_the_queue_and_given_again(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    desk.update(a_keyed_pod("u1", row("a")), 0.0)
    desk.grant_due(10.0)
    desk.update(a_keyed_pod("u1", row("a", RUNS, "a1", ready=True)), 11.0)
    desk.update(a_keyed_pod("u2", row("b")), 11.0)
    desk.grant_due(11.0)
    assert list(desk.permits) == [Key("u2", "b")], "it has the slot"
    desk.update(a_keyed_pod("u1", row("a", ENDED, "a1")), 12.0)
    desk.update(a_keyed_pod("u1", row("a", HELD, "a1")), 13.0)
    assert desk.throttle.state(Key("u1", "a")) is StartState.PENDING
    assert desk.grant_due(13.0).grants == ()
    desk.update(a_keyed_pod("u2", row("b", RUNS, "b1", ready=True)), 14.0)
    assert desk.grant_due(14.0).permits
    assert list(desk.permits) == [Key("u1", "a")]
    desk.update(a_keyed_pod("u1", row("a", RUNS, "a2")), 15.0)
    assert not desk.permits
    assert not desk.opened


def test_an_agent_that_does_not_see_its_pods_says_so_and_keeps_to_grants_that_stand(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    arrive(desk, "u1", "a", "b")
    desk.grant_due(10.0)
    assert isinstance(desk.ask("u1", "a", 11.0, blind="no watch"), Granted)
    waiting = desk.ask("u1", "b", 11.0, blind="no watch")
    assert waiting == Blind(container="b", reason="no watch")
    desk.update(a_pod("u1", row("a", RUNS, "a1", ready=True), row("b")), 12.0)
    assert isinstance(desk.ask("u1", "a", 12.0, blind="no watch"), Blind), "it may have ended since"
    assert isinstance(desk.ask("u1", "a", 12.0), Withdraw)


@pytest.mark.parametrize(
    ("told", "opened"),
    [("", [Key("u1", "a")]), ("a0", [Key("u1", "a")]), ("a1", [])],
    ids=["first start", "restart", "ran all along"],
)
def test_a_start_that_a_gate_let_in_while_no_agent_was_there_is_told_once(
    tmp_path: Path, told: str, opened: list[Key]
) -> None:
    """The next agent finds the container running; the gate knows which instance ran when an agent was last heard."""
    desk = a_desk(tmp_path)
    desk.update(a_pod("u1", row("a", RUNS, "a1", ready=True)), 1.0)
    assert desk.opened == []
    for _ in range(2):
        assert isinstance(desk.ask("u1", "a", 2.0, opened=Opened(told)), Withdraw)
    assert desk.opened == opened


def test_a_start_that_the_agent_has_seen_itself_is_not_told_again_by_the_gate(tmp_path: Path) -> None:
    desk = a_desk(tmp_path)
    arrive(desk, "u1", "a")
    desk.update(a_pod("u1", row("a", RUNS, "a1")), 30.0)
    desk.ask("u1", "a", 31.0, opened=Opened(""))
    assert desk.opened == [Key("u1", "a")]
