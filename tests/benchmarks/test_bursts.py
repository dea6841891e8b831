"""What the benchmark of bursts makes of an audit log, and when a wanted figure counts as reached."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.bursts import __main__ as command
from benchmarks.bursts.case import Burst, Case, Kind, Owner, in_vain, scenes
from benchmarks.bursts.cost import Cost, report, writes_of_placeholders
from benchmarks.bursts.owners import owners
from benchmarks.bursts.scatter import compare
from benchmarks.bursts.verdict import Found, judge, table
from e2e.harness.cluster.audit_log import AuditEntry
from e2e.harness.errors import HarnessError
from e2e.harness.product import burst_log
from e2e.harness.product.full_machines import FullMachines
from e2e.harness.product.operator import NAMESPACE, USER

WAY, BOUND, FREE, UNBOUND = (
    Case(100, Owner.DEPLOYMENT, kind) for kind in (Kind.WAY, Kind.BOUND, Kind.FREE, Kind.UNBOUND)
)


def entry(second: float, verb: str, resource: str, name: str, user: str = "u", code: int = 200) -> AuditEntry:
    place = NAMESPACE if name.startswith("slack") else "default"
    stamp = f"2026-01-01T00:00:{second:09.6f}Z"
    return AuditEntry(user, verb, resource, place, name, code, stamp, "", answered=stamp)


def seen(waits: Sequence[float], unbound: int = 0, **counts: Any) -> Burst:
    zero = dict.fromkeys(("preempted", "made_way", "lowered", "in_vain", "made_anew", "short"), 0)
    return Burst(tuple(waits), unbound, **{**zero, **counts}, cpu_seconds=0.1)


def verdicts(found: Found) -> dict[str, bool]:
    return {figure.what: figure.ok for figure in judge(found, {})}


def test_a_pod_waits_from_its_creation_to_its_binding_and_whoever_asked_first_took_a_placeholder() -> None:
    log = [
        entry(1.0, "create", "pods", "a"),
        entry(1.25, "create", "pods/binding", "a"),
        entry(1.5, "create", "pods", "late"),
        entry(1.1, "delete", "pods", "slack-1", USER),
        entry(1.2, "delete", "pods", "slack-1", burst_log.SCHEDULER, 404),
        entry(1.1, "delete", "pods", "slack-2", burst_log.SCHEDULER, 404),
        entry(1.1, "delete", "pods", "slack-2", burst_log.KUBELETS),
        entry(1.1, "delete", "pods", "slack-3", USER, 409),
        entry(1.2, "create", "pods", "slack-4"),
        entry(1.3, "create", "pods", "slack-5"),
    ]
    found = burst_log.read(log)
    assert found.waits == [0.25]
    assert found.unbound == 1
    assert burst_log.by_whom(found.deleted) == (1, 1, 0)
    assert found.made_anew == 1


def test_a_stranger_who_deletes_placeholders_spoils_the_measurement() -> None:
    found = burst_log.read([entry(1.0, "delete", "pods", "slack-1", "somebody")])
    with pytest.raises(ValueError, match="deleted by somebody"):
        burst_log.by_whom(found.deleted)


@pytest.mark.parametrize(("gone", "pods", "chunk", "vain"), [(100, 100, 1, 0), (25, 100, 4, 0), (4, 10, 4, 1)])
def test_what_goes_beyond_the_need_goes_in_vain(gone: int, pods: int, chunk: int, vain: int) -> None:
    assert in_vain(gone, pods, chunk) == vain


def test_a_percentile_that_unbound_pods_decide_is_never_reached() -> None:
    assert seen([1.0] * 98, unbound=2).seconds(99) == math.inf
    assert seen([1.0] * 98, unbound=2).seconds(50) == 1.0
    assert seen([1.0, 3.0], unbound=2).at_once == 0.25


def test_a_ratio_is_told_beside_the_least_that_deleting_takes() -> None:
    floor = Case(100, Owner.DEPLOYMENT, Kind.FLOOR)
    found = {FREE: [seen([0.1] * 100)], floor: [seen([0.18] * 100)], WAY: [seen([0.2] * 100, made_way=100)]}
    told = {figure.what: figure.found for figure in judge(found, {})}
    assert told["p99 of 100 pods, of free capacity, making way of 1"] == "2.0x (floor 1.8x)"
    assert [row["into"] for row in table(found)] == ["free capacity", "floor", "making way, of 1"]


def test_times_are_judged_for_each_size_of_placeholders_and_the_rest_by_the_worst() -> None:
    found = {
        FREE: [seen([0.1] * 100)],
        WAY: [seen([0.15] * 100, made_way=100)],
        Case(100, Owner.DEPLOYMENT, Kind.WAY, 4): [seen([0.2] * 100, made_way=28, in_vain=3)],
    }
    assert verdicts(found) == {
        "instant starts, of 100 pods": True,
        "p99 of 100 pods, of free capacity, making way of 1": True,
        "p99 of 100 pods, of free capacity, making way of 4": False,
        "gone in vain for 100 pods": False,
    }
    assert [row["of free ratio"] for row in table(found)] == [None, pytest.approx(1.5), pytest.approx(2.0)]


def test_what_goes_in_vain_for_a_deployments_pods_is_not_made_up_for_by_bare_ones() -> None:
    bare = Case(400, Owner.NONE, Kind.WAY)
    found = {
        Case(400, Owner.DEPLOYMENT, Kind.WAY): [seen([0.1] * 400, made_way=400, lowered=40, in_vain=40)],
        bare: [seen([0.1] * 400, made_way=400)],
    }
    figures = {figure.what: (figure.found, figure.ok) for figure in judge(found, {})}
    assert figures["gone in vain for 400 pods"] == ("9.1%", False)
    assert figures["gone in vain for 400 bare pods"] == ("0.0%", True)


def test_a_lone_pod_may_not_be_slower_and_steady_cpu_not_more() -> None:
    way, alone = (Case(1, Owner.DEPLOYMENT, kind) for kind in (Kind.WAY, Kind.BOUND))
    found = {alone: [seen([0.04])], way: [seen([0.05])]}
    figures = {figure.what: figure.ok for figure in judge(found, {Kind.WAY: 0.004, Kind.BOUND: 0.003})}
    assert figures["a lone pod, placeholders as large as 1"] is False
    assert figures["steady CPU, of a core, making way"] is True


def test_a_buffer_is_judged_as_unbound_placeholders_are() -> None:
    buffer, status = replace(UNBOUND, kind=Kind.BUFFER), "patch autoscaling.x-k8s.io/capacitybuffers/status"
    figures = verdicts({FREE: [seen([0.1] * 100)], buffer: [replace(seen([0.11] * 100), writes={status: 2})]})
    assert figures.pop("p99 of 100 pods, of free capacity, a served CapacityBuffer")
    assert len(figures) == 5
    assert all(figures.values())
    assert writes_of_placeholders([entry(1.0, "patch", status.partition(" ")[2], "burst")]) == 1


def test_free_and_unbound_capacity_is_played_with_each_owner_and_bound_placeholders_with_a_deployment() -> None:
    played = [case for scene in scenes(10, [1, 4], list(Kind)) for case in scene]
    by_kind = {kind: [case for case in played if case.kind is kind] for kind in Kind}
    assert [case.owner for case in by_kind[Kind.FREE]] == list(Owner)
    assert next(scenes(10, [1, 4], list(Kind), free_last=True)) == by_kind[Kind.BUFFER]
    assert [case.owner for case in by_kind[Kind.BUFFER]] == list(Owner)
    assert [(case.owner, case.chunk) for case in by_kind[Kind.UNBOUND]] == [(owner, 1) for owner in Owner]
    assert [case.owner for case in by_kind[Kind.FLOOR]] == [Owner.DEPLOYMENT]
    assert {(case.owner, case.chunk) for case in by_kind[Kind.BOUND]} == {(Owner.DEPLOYMENT, 1), (Owner.DEPLOYMENT, 4)}
    assert all(len(scene) == 1 for scene in scenes(10, [1], list(Kind)) if not scene[0].kind.lasting)


@pytest.mark.parametrize("owner", [owner for owner in Owner if owner is not Owner.NONE])
def test_owners_create_as_many_pods_as_asked_for(owner: Owner) -> None:
    manifests = owners(owner, 23, "burst-1")
    assert sum(spec.get("replicas", spec.get("parallelism")) for spec in (each["spec"] for each in manifests)) == 23
    assert len(manifests) == (10 if owner is Owner.TEN else 1)
    for each in manifests:
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert labels["app"] == each["metadata"]["labels"]["app"] == "burst"
        assert each["spec"].get("selector", {"matchLabels": {}})["matchLabels"].items() <= labels.items()


def test_unbound_placeholders_are_judged_by_time_and_by_what_a_burst_must_not_cause() -> None:
    status = {"patch resource-slack.io/slackpolicies/status": 3}
    quiet = replace(seen([0.11] * 100), writes=status)
    figures = verdicts({FREE: [seen([0.1] * 100)], UNBOUND: [quiet]})
    assert len(figures) == 6
    assert all(figures.values())
    loud = replace(seen([0.12] * 99, unbound=1, preempted=1), writes={**status, "patch pods": 1}, recreated=1)
    assert not any(verdicts({FREE: [seen([0.1] * 100)], UNBOUND: [loud]}).values())


def test_a_ratio_above_what_is_wanted_is_missed_or_undecided_by_its_interval() -> None:
    def told(free: Sequence[float], unbound: Sequence[float], owners: Sequence[Owner] = (Owner.JOB,)) -> list[str]:
        found = {
            Case(50, owner, kind): [seen([seconds] * 50) for seconds in bursts]
            for owner in owners
            for kind, bursts in ((Kind.FREE, free), (Kind.UNBOUND, unbound))
        }
        return [str(figure.row()[""]) for figure in judge(found, {}) if figure.what.startswith("p99")]

    steady, scattered = [0.1, 0.1, 0.1, 0.11, 0.1, 0.1], [0.05, 0.2, 0.1, 0.06, 0.18, 0.1]
    assert told(steady, [0.113, 0.114, 0.112, 0.114, 0.113, 0.11]) == ["ok"]
    assert told(steady, [0.13, 0.131, 0.129, 0.13, 0.132, 0.13]) == ["missed"]
    assert told(scattered, [0.13, 0.131, 0.129, 0.13, 0.132, 0.13]) == ["undecided"]
    assert told(steady, [0.1, math.inf, math.inf, math.inf, 0.1, 0.1]) == ["missed"]
    assert told(steady, steady, [Owner.JOB, Owner.TEN]) == ["ok"] * 3  # the third is the mean over owners


def test_free_capacity_beside_itself_scatters_as_its_bursts_do() -> None:
    steady, scattered = [0.1] * 6, [0.05, 0.2, 0.1, 0.06, 0.18, 0.1]
    same, wide = compare([(steady, steady)]), compare([(steady, scattered)])
    assert same is not None
    assert wide is not None
    assert (same.low, same.times, same.high, same.noise) == (1.0, 1.0, 1.0, 1.0)
    assert wide.low < wide.times < wide.high
    assert wide.noise > 1.5
    both, alone = compare([(steady, scattered)] * 5), wide
    assert both is not None
    assert both.noise < alone.noise  # a mean over five owners scatters less


def test_cpu_of_a_burst_is_judged_by_the_worst_owner_without_what_is_used_anyway() -> None:
    def found(seconds: float, steady: float = 0.0) -> dict[str, bool]:
        cases = {Case(500, owner, Kind.UNBOUND): [seen([0.1] * 500)] for owner in Owner}
        slow = Case(500, Owner.TEN, Kind.UNBOUND)
        return verdicts({**cases, slow: [replace(seen([0.1] * 500), cpu_seconds=seconds, steady_seconds=steady)]})

    what = "operator's CPU for 500 pods beyond the steady one, unbound placeholders"
    assert found(0.3)[what]
    assert not found(0.31)[what]
    assert found(0.5, 0.2)[what]
    assert not found(0.5, 0.19)[what]


def test_the_cost_of_placeholders_counts_what_anybody_has_written_for_them() -> None:
    log = [
        entry(1.0, "create", "pods", "slack-1"),
        entry(1.0, "create", "pods/binding", "slack-1"),
        entry(1.0, "patch", "pods/status", "slack-1", code=409),
        entry(1.0, "update", "coordination.k8s.io/leases", "slack-lease"),
        entry(1.0, "create", "pods", "api"),
        entry(1.0, "get", "pods", "slack-1"),
        entry(1.0, "patch", "resource-slack.io/slackpolicies/status", "default"),
    ]
    assert writes_of_placeholders(log) == 3
    cost = Cost(125, 126, 125, 125, 500, 60.0, 100, 700)
    rows = report({Kind.BOUND: cost}).rows
    assert rows[0]["writes per hour with 6 bursts"] == 60 + 6 * 700
    assert [row["held by"] for row in rows][1:] == ["CapacityBuffer, Cluster Autoscaler", "CapacityBuffer, Karpenter"]


@pytest.mark.parametrize(("stops", "kinds", "code"), [(True, "free,unbound", 2), (False, "free", 2)])
def test_a_run_that_stops_or_judges_nothing_is_no_success(
    stops: bool, kinds: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Stage:
        def __init__(self, _: object) -> None:
            pass

        def __enter__(self) -> "Stage":
            return self

        def __exit__(self, *_: object) -> None:
            pass

    def play_all(_stage: object, _given: object, found: command.Seen) -> None:
        found.bursts[FREE] = [seen([0.1] * 100)]
        if stops:
            found.bursts[UNBOUND] = [seen([0.1] * 100)]
            raise HarnessError("the API server has ended")

    monkeypatch.setattr(command, "Stage", Stage)
    monkeypatch.setattr(command, "play_all", play_all)
    assert command.main(["--kinds", kinds]) == code
    assert "free capacity" in capsys.readouterr().out


def test_room_is_dealt_out_in_whole_placeholders() -> None:
    machines = FullMachines(count=4, room=10, chunk=4)
    assert machines.slots() == [4, 4, 4, 0]
    assert machines.spec()["extraCapacity"]["floor"] == {"cpu": "6000m", "memory": "24Gi"}
    with pytest.raises(ValueError, match="room for 80 pods, but 64 are all"):
        FullMachines(count=4, room=80).slots()
