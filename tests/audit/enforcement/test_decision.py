"""Enforcement: shown first, done later, bounded, reversible, and never where it must not be."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

from slack.audit.api.policy import AuditPolicySpec
from slack.audit.enforcement.decision import Action, ActionHistory, ActionKind, EnforcementDecision, decide
from slack.audit.enforcement.exemptions import Candidate
from slack.audit.enforcement.raised_limits import (
    MAX_ENTRY_CHARACTERS,
    FormerLimit,
    RaisedLimit,
    adoptable,
    read_former,
    write_former,
)
from slack.audit.findings.finding import Finding, Mark, Severity
from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, CgroupTarget, Sampled
from slack.audit.findings.throttling import judge
from slack.audit.findings.window import compare
from slack.audit.sources.pods import AuditedContainerFacts, AuditedPodFacts
from tests.audit.build import sample, zero
from tests.cases import run_for_each

NOW = 1_000_000.0
AFTER = 900.0


def container(name: str = "api", limit: int | None = 500, **fields: Any) -> AuditedContainerFacts:
    return changed(AuditedContainerFacts(name, "", (), limit, 100, 0, False, False, False), **fields)


def pod(name: str = "api-1", only: AuditedContainerFacts | None = None, **fields: Any) -> AuditedPodFacts:
    facts = AuditedPodFacts(
        uid=f"uid-{name}",
        cgroup_uid=f"uid-{name}",
        namespace="shop",
        name=name,
        node="n1",
        owner_kind="Deployment",
        owner_name="api",
        qos_class="Burstable",
        latency_class=False,
        static=False,
        deleting=False,
        cpu_limit_millis=None,
        cpu_request_millis=None,
        containers=(only or container(),),
        container_ids=("c" * 64,),
    )
    return changed(facts, **fields)


def finding(name: str = "api-1", *, limit_ms: float = 50.0, throttled: int = 2900, stop_ms: float = 60.0) -> Finding:
    target = CgroupTarget(
        CgroupLevel.CONTAINER, f"/kubepods/poduid-{name}/c", "n1", f"uid-{name}", "c" * 64, "shop", name, "api"
    )
    after = sample(
        target,
        300.0,
        quota_ms=limit_ms,
        periods=3000,
        throttled=throttled,
        throttled_ms=throttled * stop_ms,
        usage_ms=3000 * limit_ms,
    )
    facts = {"n1": CgroupNodeFacts(8)}
    windows = compare(Sampled((zero(after),), facts), Sampled((after,), facts)).windows
    return judge(windows, facts)[0]


def candidate(name: str = "api-1", **fields: Any) -> Candidate:
    return replace(Candidate(finding(name), pod(name), container(), node_cpus=8), **fields)


def spec(mode: str = "Enforce", *, burst: bool = False, resize: dict[str, Any] | None = None) -> AuditPolicySpec:
    enforce = {"resize": resize if resize is not None else {}, "burst": burst}
    return AuditPolicySpec.model_validate({"mode": mode, "enforce": enforce})


def run(
    *candidates: Candidate,
    policy: AuditPolicySpec | None = None,
    shown: bool = True,
    raised_limits: tuple[RaisedLimit, ...] = (),
    now: float = NOW,
) -> EnforcementDecision:
    history = ActionHistory(shown={candidate.key: NOW - AFTER for candidate in candidates} if shown else {})
    return decide(policy or spec(), candidates, raised_limits, history, now)


def reasons(decision: EnforcementDecision) -> list[str]:
    assert not decision.actions
    return [skipped.reason for skipped in decision.left_alone]


def raised_limits(
    name: str = "old", *, before: str = "500m", raised: str = "1", now_millis: int = 1000, ago: float = 7200.0
) -> RaisedLimit:
    facts = container(limit=now_millis)
    return RaisedLimit(pod(name, facts), facts, FormerLimit(before, raised, NOW - ago))


def test_a_container_at_its_limit_is_a_high_finding() -> None:
    assert finding().severity is Severity.HIGH
    assert Mark.AT_LIMIT in finding().marks


def test_nothing_is_done_before_it_was_shown_for_as_long_as_the_policy_wants() -> None:
    (first,) = run(candidate(), shown=False).actions
    assert (first.kind, first.dry) == (ActionKind.RAISE, True)
    assert run(candidate(), now=NOW - 1).actions == ()
    (then,) = run(candidate()).actions
    assert (then.kind, then.dry, then.from_millis) == (ActionKind.RAISE, False, 500)


def test_a_dry_run_stays_one_and_is_shown_once() -> None:
    assert [action.dry for action in run(candidate(), policy=spec("DryRun"), shown=False).actions] == [True]
    assert run(candidate(), policy=spec("DryRun")).actions == ()


def test_mode_report_does_nothing() -> None:
    assert decide(AuditPolicySpec(), [candidate()], (), ActionHistory(), NOW) == EnforcementDecision(
        (), (), frozenset()
    )


def test_the_new_limit_is_what_it_needs_and_at_most_twice_the_old_one() -> None:
    """It uses 500m and loses 580m: 1.2 times the sum is more than twice the limit."""
    (action,) = run(candidate()).actions
    assert action.to_millis == 1000
    mild = candidate(finding=finding(stop_ms=15.0))
    (action,) = run(mild).actions
    assert action.to_millis == 770  # (500 + 145) x 1.2, in steps of 10


@pytest.mark.parametrize(
    ("resize", "to", "reason"),
    [
        ({"maxLimitPerContainer": "700m"}, 700, ""),
        ({"maxAddedPerNamespace": "100m"}, 600, ""),
        ({"maxLimitPerContainer": "500m"}, None, "maxLimitPerContainer is reached"),
        ({"maxAddedPerNamespace": "10m"}, None, "maxAddedPerNamespace is used up"),
    ],
)
def test_raises_are_bounded(resize: dict[str, Any], to: int | None, reason: str) -> None:
    decision = run(candidate(), policy=spec(resize=resize))
    if to is None:
        assert reasons(decision) == [reason]
    else:
        assert [action.to_millis for action in decision.actions] == [to]


def test_raises_of_one_turn_and_those_in_force_share_the_namespace_s_bound() -> None:
    policy = spec(resize={"maxAddedPerNamespace": "800m"})
    decision = run(candidate("a"), candidate("b"), policy=policy)
    assert [(action.pod.name, action.to_millis) for action in decision.actions] == [("a", 1000), ("b", 800)]
    decision = run(candidate("a"), policy=policy, raised_limits=(raised_limits(),))
    assert [action.to_millis for action in decision.actions] == [800]
    somebody_elses = raised_limits(now_millis=2000)
    decision = run(candidate("a"), policy=policy, raised_limits=(somebody_elses,))
    assert [action.to_millis for action in decision.actions] == [1000]


def test_raises_of_pods_that_are_gone_count_for_their_hour() -> None:
    policy = spec(resize={"maxPerHour": 2})
    history = ActionHistory(shown={candidate().key: NOW - AFTER}, raises={"shop": [NOW - 60, NOW - 50]})
    assert reasons(decide(policy, [candidate()], (), history, NOW)) == ["maxPerHour is used up"]
    history.keep({candidate().key}, NOW + 3600)
    assert history.raises == {}


def test_a_raise_that_a_wrong_clock_dated_ahead_does_not_count_for_ever() -> None:
    policy = spec(resize={"maxPerHour": 1})
    assert run(candidate(), policy=policy, raised_limits=(raised_limits(ago=-86_400),)).actions


def test_who_loses_less_than_five_percent_keeps_its_limit_whatever_is_called_high() -> None:
    little = replace(finding(), lost_ratio=0.049)
    assert reasons(run(candidate(finding=little))) == ["loses less than 5% of its time"]
    assert run(candidate(finding=replace(little, lost_ratio=0.05))).actions
    warned = replace(finding(), severity=Severity.WARN)
    assert run(candidate(finding=warned)) == EnforcementDecision((), (), frozenset())


def test_containers_of_one_pod_are_raised_each_for_itself_within_the_same_bound() -> None:
    policy = spec(resize={"maxAddedPerNamespace": "800m"})
    api, proxy = container(), container("proxy")
    both = pod(containers=(api, proxy), container_ids=("c" * 64, "d" * 64))
    decision = run(candidate(pod=both), candidate(pod=both, container=proxy), policy=policy)
    assert [(action.container.name, action.to_millis) for action in decision.actions] == [("api", 1000), ("proxy", 800)]


def test_a_second_raise_that_did_not_come_about_leaves_the_first_standing() -> None:
    facts = container(limit=1000)
    half = RaisedLimit(pod("old", facts), facts, FormerLimit("500m", "2", NOW, before="1"))
    assert (half.ours, half.undone, half.added_millis) == (True, False, 500)
    (back,) = decide(spec("Revert"), (), (half,), ActionHistory(), NOW).actions
    assert (back.kind, back.from_millis, back.to_millis) == (ActionKind.REVERT, 1000, 500)


def test_so_many_an_hour_and_a_container_once_an_hour() -> None:
    policy = spec(resize={"maxPerHour": 1})
    assert reasons(run(candidate(), policy=policy, raised_limits=(raised_limits(ago=60),))) == ["maxPerHour is used up"]
    assert run(candidate(), policy=policy, raised_limits=(raised_limits(ago=3700),)).actions
    history = ActionHistory(shown={candidate().key: NOW - AFTER}, tried={candidate().key: NOW - 60})
    assert decide(spec(), [candidate()], (), history, NOW).left_alone[0].reason == "was tried within the last hour"
    history = ActionHistory(shown={candidate().key: NOW - AFTER}, waiting={candidate().key: NOW - 60})
    assert decide(spec(), [candidate()], (), history, NOW).actions == ()


@run_for_each(
    ("fields", "word"),
    [
        ({"pod": pod(deleting=True)}, "being deleted"),
        ({"pod": pod(static=True)}, "static pod"),
        ({"pod": pod(qos_class="Guaranteed")}, "Guaranteed"),
        ({"pod": pod(namespace="kube-system")}, "nothing is changed in kube-system"),
        ({"pod": pod(cpu_limit_millis=1000)}, "a limit of its own in spec.resources"),
        ({"container": container(resize_restarts=True)}, "would restart"),
        ({"container": container(init=True)}, "init container"),
        ({"container": container(limit=None)}, "no limit"),
        ({"container": container(limit=800)}, "not the one in force"),
        ({"kernel_affected": True}, "kernel"),
        ({"resize_under_way": True}, "under way"),
    ],
)
def test_what_is_left_alone_has_its_reason(fields: dict[str, Any], word: str) -> None:
    (reason,) = reasons(run(candidate(**fields)))
    assert word in reason


ABOVE = CgroupTarget(CgroupLevel.POD, "/kubepods/poduid-api-1", "n1", "uid-api-1")
TWO = pod(containers=(container(), container("sidecar")), container_ids=("c" * 64, "d" * 64))


def inherited(above: CgroupTarget = ABOVE, limit_ms: float = 50.0) -> Finding:
    return replace(finding(limit_ms=limit_ms), marks=frozenset({Mark.INHERITED}), blamed=above)


@pytest.mark.parametrize(
    ("facts", "above", "level"),
    [
        (TWO, ABOVE, "pod"),
        (pod(cpu_limit_millis=500), ABOVE, "pod"),
        (pod(), CgroupTarget(CgroupLevel.QOS, "/kubepods/burstable", "n1"), "qos"),
    ],
    ids=["of two containers", "the pod's own", "above the pod"],
)
def test_a_finding_that_an_ancestor_s_quota_made_is_left_alone(
    facts: AuditedPodFacts, above: CgroupTarget, level: str
) -> None:
    found = run(candidate(finding=inherited(above), pod=facts))
    assert reasons(found) == [f"the quota of the {level} above stops it, not its own"]


def test_the_pods_quota_that_is_the_only_containers_limit_is_raised_with_it() -> None:
    """As kubelets set them: both are 500m, and which of the two runs out first is chance."""
    (action,) = run(candidate(finding=inherited())).actions
    assert (action.kind, action.from_millis, action.to_millis) == (ActionKind.RAISE, 500, 1000)
    ended = container("setup", init=True)
    (action,) = run(candidate(finding=inherited(), pod=pod(containers=(ended, container())))).actions
    assert action.kind is ActionKind.RAISE
    idle = replace(inherited(), use_cores=0.1)
    assert reasons(run(candidate(finding=idle)))[0].startswith("neither uses its limit up")


def test_a_container_with_bursts_gets_a_burst_where_the_policy_and_the_agent_allow() -> None:
    bursty = replace(finding(), marks=frozenset({Mark.BURSTY}))
    bursting = candidate(finding=bursty, node_writes_bursts=True)
    (order,) = run(bursting, policy=spec(burst=True)).actions
    assert (order.kind, order.burst_us) == (ActionKind.BURST, 50_000)
    assert reasons(run(bursting)) == ["runs in bursts, and enforce.burst is not set"]
    quiet = replace(bursting, node_writes_bursts=False)
    assert reasons(run(quiet, policy=spec(burst=True))) == ["the node's agent runs without --write-burst"]


def test_revert_puts_back_what_is_ours_and_forgets_what_is_not() -> None:
    ours, others = raised_limits("a"), raised_limits("b", now_millis=3000)
    going = RaisedLimit(pod("c", deleting=True), container(limit=1000), FormerLimit("500m", "1", NOW))
    decision = decide(spec("Revert"), (), (ours, others, going), ActionHistory(), NOW)
    assert [(action.pod.name, action.kind, action.to_millis) for action in decision.actions] == [
        ("a", ActionKind.REVERT, 500),
        ("b", ActionKind.FORGET, 3000),
    ]


def test_putting_back_never_raises_a_limit_nor_writes_one_above_the_policy_s() -> None:
    """As a record or an annotation may say that somebody has changed."""
    below = raised_limits("below", before="64", raised="1", now_millis=1000)
    (forgets,) = decide(spec("Revert"), (), (below,), ActionHistory(), NOW).actions
    assert (forgets.kind, forgets.to_millis) == (ActionKind.FORGET, 1000)
    above = raised_limits("above", before="32", raised="64", now_millis=64_000)
    decision = decide(spec("Revert"), (), (above,), ActionHistory(), NOW)
    assert reasons(decision) == ["its limit was 32, above maxLimitPerContainer 4"]
    wide = spec("Revert", resize={"maxLimitPerContainer": "40"})
    assert [action.to_millis for action in decide(wide, (), (above,), ActionHistory(), NOW).actions] == [32_000]


@pytest.mark.parametrize(
    ("limit", "raised", "in_force", "taken"),
    [
        ("500m", "1", 1000, True),
        ("64", "1", 1000, False),  # would be a raise
        ("1", "1", 1000, False),  # nothing was added
        ("500m", "2", 1000, False),  # another limit than the one that was set
    ],
)
def test_of_an_annotation_only_what_lowers_a_limit_is_taken_over(
    limit: str, raised: str, in_force: int, taken: bool
) -> None:
    facts = container(limit=in_force)
    text = write_former({"api": FormerLimit(limit, raised, NOW + 9e9, "mine"), "none": FormerLimit("1", "2", NOW)})
    found = adoptable(pod("a", facts), str(text), NOW)
    assert found == ({"api": FormerLimit(limit, raised, NOW)} if taken else {})


def test_an_annotation_that_is_too_long_is_nothing() -> None:
    assert read_former('{"api": {"limit": "1", "raised": "2", "at": 1}}' + " " * MAX_ENTRY_CHARACTERS) == {}
    assert read_former(f'{{"api": {{"limit": "{"1" * 65}", "raised": "2", "at": 1}}}}') == {}


def test_no_action_lowers_a_limit_but_revert() -> None:
    for limit in (100, 1000, 4000):
        for stop in (1.0, 20.0, 90.0):
            throttled = candidate(finding=finding(limit_ms=limit / 10, stop_ms=stop), container=container(limit=limit))
            assert all(action.to_millis > action.from_millis for action in run(throttled).actions)


def test_the_annotation_is_read_back_and_a_broken_one_is_nothing() -> None:
    former = {"api": FormerLimit("500m", "1", NOW, "default")}
    text = write_former(former)
    assert text is not None
    assert read_former(text) == former
    assert write_former({}) is None
    for broken in ("", "{", "[]", '{"api": 7}', '{"api": {"limit": "x", "raised": "1", "at": 1}}', "\udcff"):
        assert read_former(broken) == {}


def test_a_ledger_forgets_what_is_over() -> None:
    history = ActionHistory(shown={("a", "api"): NOW, ("b", "api"): NOW}, tried={("a", "api"): NOW - 4000})
    history.keep({("a", "api")}, NOW)
    assert (set(history.shown), history.tried) == ({("a", "api")}, {})


def test_an_action_names_its_container_and_both_limits() -> None:
    action = Action(ActionKind.RAISE, pod(), container(), 500, 1000)
    assert (action.name, action.texts) == ("shop/api-1/api", ("500m", "1"))
