"""The verdict on what an API server shows: what is wrong with each policy and with the operator, and what to do.

What could not be seen is said and not held against anybody.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import msgspec

from slack.cluster.labels import DEFAULT_NAMESPACE
from slack.documents.slackpolicy_status import SlackCondition, SlackPolicyStatus
from slack.health.ages import age_text, duration
from slack.health.answer import Health, HealthFinding, PolicyHealth
from slack.health.observation import (
    DEFAULT_LEASE,
    OPERATOR_PODS,
    Json,
    ObservedPlaceholder,
    StatusObservation,
    installations_text,
    keeps_built_in,
    lease_holder,
)
from slack.health.reasons import OPERATOR_ABSENT, advice_on, reason
from slack.health.states import SlackState, slack_state
from slack.process.reasons import Level
from slack.schema.conditions import is_trouble

STATUS_OLD_SECONDS = 900.0
"""An operator writes each status every five minutes, changed or not. An older one shows that no operator runs, also to
those who may not see the lease."""
BUILT_IN_NAME = "default"
"""Of the built-in policy, on its placeholders."""


def assess(seen: StatusObservation, *, now: float, namespace: str, lease_name: str) -> Health:
    """Return the verdict on all of it.

    Args:
        seen: what the API server showed.
        now: Unix seconds, to compare the lease's time with.
        namespace: of the lease, for the words.
        lease_name: for the words.
    """
    operator, findings = _operator(seen, now, namespace, lease_name)
    none = not seen.policies and (not seen.crd or not findings)
    keeps = keeps_built_in(seen.lease)
    if keeps is None and seen.placeholders is not None:  # nobody says it: what is there?
        keeps = any(pod.policy == BUILT_IN_NAME for pod in seen.placeholders)
    built_in, idle = none and keeps is True, none and keeps is False
    return Health(
        tuple(
            not_known(health, policy, seen.lease, now, namespace) if findings else health
            for policy in seen.policies
            for health in [_policy_health(policy, seen.placeholders, namespace, absent=bool(findings))]
        ),
        not findings if seen.lease_seen or findings else None,
        operator,
        findings,
        seen.unseen,
        built_in,
        idle,
        sum(1 for pod in seen.placeholders or () if pod.node),
        sum(1 for pod in seen.placeholders or () if pod.unbound),
        _without_policy(seen, namespace, keeps) if none and not findings else (),
    )


def _without_policy(seen: StatusObservation, namespace: str, keeps: bool | None) -> tuple[HealthFinding, ...]:
    if keeps is not None:
        return _built_in_findings(seen, namespace) if keeps else _left_over(seen, namespace)
    text = (
        "whether the operator keeps its built-in policy may not be seen: its lease says so, and its placeholders would"
    )
    return (HealthFinding(text, f"the right to get leases, or to list pods, in {namespace}", Level.TROUBLE, "NotSeen"),)


def _left_over(seen: StatusObservation, namespace: str) -> tuple[HealthFinding, ...]:
    """What is there though nothing asks for it goes within seconds where an operator runs."""
    if not seen.placeholders:
        return ()
    text = f"{len(seen.placeholders)} placeholders are there, and no policy asks for them"
    advice = (
        f"an operator takes them away within seconds; if they stay, see its log (kubectl -n {namespace} logs -l "
        f"{OPERATOR_PODS}), or run: resource-slack uninstall"
    )
    return (HealthFinding(text, advice, Level.TROUBLE, "PlaceholdersLeft"),)


def _built_in_findings(seen: StatusObservation, namespace: str) -> tuple[HealthFinding, ...]:
    """The built-in policy has no status: only placeholders that are there show that it does its work.

    Bound ones have to be on nodes. Of unbound ones nothing but the operator's metrics says whether they have capacity.
    """
    waiting = sum(1 for pod in seen.placeholders or () if not pod.node and not pod.unbound)
    if seen.placeholders is None:
        name, text = "NotSeen", "the built-in policy has no status, and its placeholders may not be seen"
    elif not seen.placeholders:
        name, text = "NoPlaceholders", "the built-in policy has no status, and none of its placeholders is there"
    elif waiting:
        name = "PlaceholdersPending"
        text = f"{waiting} of the {len(seen.placeholders)} placeholders of the built-in policy wait for a node"
    else:
        return ()
    advice = (
        f"its conditions are in the operator's log (kubectl -n {namespace} logs -l {OPERATOR_PODS}), its metrics "
        "(slack_policy_condition) and on its web page; what it would keep: kubectl slack plan"
    )
    return (HealthFinding(text, advice, Level.TROUBLE, name),)


def _operator(
    seen: StatusObservation, now: float, namespace: str, lease_name: str
) -> tuple[str, tuple[HealthFinding, ...]]:
    lease = f"{namespace}/{lease_name}"
    start = (
        f"another release? {installations_text(seen.elsewhere)}"
        if seen.elsewhere
        else f"{advice_on(OPERATOR_ABSENT, namespace)}; if it runs elsewhere, name the place with --namespace and "
        "--lease-name"
    )
    statuses = (policy.get("status") for policy in seen.policies)
    said = any(isinstance(status, dict) and status.get("conditions") for status in statuses)
    last = "; what is said below is what it said last" if said else ""
    if not seen.lease_seen:
        return _by_statuses(seen, now, start)
    if seen.lease is None:
        if seen.operator_pods:
            return f"{seen.operator_pods} running, without a lease", ()
        text = f"no operator is seen: there is no lease {lease}{last}"
        return "does not run", (HealthFinding(text, start, Level.TROUBLE, OPERATOR_ABSENT),)
    leader = _leader(seen, seen.lease, now)
    if leader is not None:
        usual = (namespace, lease_name) == (DEFAULT_NAMESPACE, DEFAULT_LEASE)
        return f"runs; {leader} leads{'' if usual else f' in {namespace} (lease {lease_name})'}", ()
    spec = seen.lease.get("spec") or {}
    ended = "released, and nobody has taken it since"
    if spec.get("holderIdentity") and spec.get("renewTime"):
        ended = f"last renewed {duration(now - datetime.fromisoformat(spec['renewTime']).timestamp())} ago"
    text = f"no operator leads: the lease {lease} was {ended}{last}"
    return "does not run", (HealthFinding(text, start, Level.TROUBLE, OPERATOR_ABSENT),)


def _by_statuses(seen: StatusObservation, now: float, advice: str) -> tuple[str, tuple[HealthFinding, ...]]:
    """Judge by the age of statuses whether an operator runs: for who may not see its lease."""
    ages = [age for age in (_status_age_seconds(policy, now) for policy in seen.policies) if age is not None]
    if not ages or min(ages) < STATUS_OLD_SECONDS:
        return "not known: its lease may not be seen", ()
    text = (
        "no operator is seen: an operator writes every status each five minutes, and the newest is "
        f"{duration(min(ages))} old; what is said below is what it said last"
    )
    return "does not run", (HealthFinding(text, advice, Level.TROUBLE, OPERATOR_ABSENT),)


def _status_age_seconds(policy: Json, now: float) -> float | None:
    status = policy.get("status")
    try:
        return now - datetime.fromisoformat(str((status or {}).get("observedTime"))).timestamp()
    except (ValueError, AttributeError):  # none, or a text that somebody else wrote
        return None


def _leader(seen: StatusObservation, lease: Json, now: float) -> str | None:
    if seen.lease_renewed is None:
        return lease_holder(lease, now)
    return str((lease.get("spec") or {}).get("holderIdentity")) if seen.lease_renewed else None


def _policy_health(
    policy: Json, placeholders: Sequence[ObservedPlaceholder] | None, namespace: str, *, absent: bool
) -> PolicyHealth:
    """Return the verdict on a policy; absent: no operator runs, which is said once and not of each policy."""
    name = str(policy["metadata"]["name"])
    generation = int(policy["metadata"].get("generation") or 0)
    try:
        status = msgspec.convert(policy.get("status") or {}, SlackPolicyStatus, strict=False)
    except msgspec.ValidationError as error:
        return _unreadable(name, str(error))
    conditions, shapes = status.conditions or (), status.shapes or ()
    observed_generation = status.observed_generation or 0
    ready, satisfied = (_is_true(conditions, kind) for kind in ("Ready", "SlackSatisfied"))
    state = slack_state(((said.type, said.reason, _is_wrong(said)) for said in conditions), namespace)
    findings = list(_findings(conditions, namespace))
    if not conditions:
        headline = "never looked at"
        if not absent:
            text = "no operator has written a status yet"
            findings.append(HealthFinding(text, "see below whether the operator runs", Level.TROUBLE, "NoStatus"))
    elif observed_generation < generation:
        ready, satisfied, headline = False, False, "changed since the operator looked"
        text = f"the spec is of generation {generation}, the status of {observed_generation}"
        advice = "wait some seconds; if it stays, see below whether the operator runs"
        findings.insert(0, HealthFinding(text, None if absent else advice, Level.TROUBLE, "NotObserved"))
    else:
        headline = state.words if state.calm else f"{'ready' if ready else 'not ready'}, {state.brief}"
    mine = None if placeholders is None else [pod for pod in placeholders if pod.policy == name]
    on_nodes = sum(1 for pod in mine or () if pod.node)
    unbound = sum(1 for pod in mine or () if pod.unbound)
    return PolicyHealth(
        name,
        ready,
        satisfied,
        headline,
        status,
        tuple(findings),
        sum(shape.bound or 0 for shape in shapes),
        status.pending or 0,
        state,
        bool(conditions),
        mine is not None,
        _nodes_of_shape(status, mine or ()),
        (on_nodes, len(mine) - on_nodes - unbound) if absent and mine is not None else None,
        unbound,
    )


def _unreadable(name: str, why: str) -> PolicyHealth:
    """Say whose status is not what the CRD lets in: it was written past it, or under the CRD of another version."""
    what, _, where = why.partition(" - at `$")
    text = f"its status cannot be read: {what} - at `status{where or '`'}"
    advice = (
        f"see who wrote it: kubectl get slackpolicy {name} -o yaml --show-managed-fields; and apply the CRDs of the "
        "operator's version"
    )
    state = SlackState("StatusUnreadable", Level.TROUBLE, "its status cannot be read", advice)
    finding = HealthFinding(text, advice, Level.TROUBLE, state.name)
    return PolicyHealth(
        name, None, None, state.words, SlackPolicyStatus(), (finding,), 0, 0, state, True, pods_seen=False
    )


def _nodes_of_shape(status: SlackPolicyStatus, placeholders: Sequence[ObservedPlaceholder]) -> dict[str, Counter[str]]:
    """Return where the placeholders are that the status counts; not of a shape that has moved since it was written."""
    nodes: dict[str, Counter[str]] = {}
    for pod in placeholders:
        if pod.node:
            nodes.setdefault(pod.shape, Counter())[pod.node] += 1
    counted = {shape.name: shape.bound for shape in status.shapes or ()}
    return {shape: found for shape, found in nodes.items() if found.total() == counted.get(shape)}


def _is_true(conditions: Sequence[SlackCondition], kind: str) -> bool:
    return any(condition.status == "True" for condition in conditions if condition.type == kind)


def _is_wrong(condition: SlackCondition) -> bool:
    return is_trouble(condition.type, condition.status)


def _findings(conditions: Sequence[SlackCondition], namespace: str) -> list[HealthFinding]:
    """Each cause once, whatever number of conditions it has turned: what they say of it, and one remedy."""
    grouped: dict[str, list[SlackCondition]] = {}
    for condition in conditions:
        if _is_wrong(condition):
            grouped.setdefault(condition.reason, []).append(condition)
    found = []
    for name, same in grouped.items():
        known = reason(name)
        types = ", ".join(f"{condition.type}={condition.status}" for condition in same)
        times = [condition.last_update_time or condition.last_transition_time for condition in same]
        since = min(times)
        level = known.level if known is not None and known.level is not Level.GOOD else Level.TROUBLE
        text = f"{types} {name}: {'; '.join(dict.fromkeys(condition.message for condition in same))}"
        advice = known.advice.replace("NAMESPACE", namespace) or None if known is not None else None
        found.append(HealthFinding(text, advice, level, name, since))
    return found


def not_known(health: PolicyHealth, policy: Json, lease: Json | None, now: float, namespace: str) -> PolicyHealth:
    """Of a policy that nobody looks after only its pods are known; what its status says is what was said last."""
    since = _last_sign(policy, lease)
    words = "no operator keeps its status up"
    if since is not None:
        words = f"not known since {since} ({age_text(since, now) or 'no time'})"
    elif health.looked_at:
        words = "not known since the operator has gone"
    absent = SlackState(OPERATOR_ABSENT, Level.TROUBLE, words, advice_on(OPERATOR_ABSENT, namespace))
    return replace(
        health,
        ready=None,
        satisfied=None,
        headline=words if health.looked_at else health.headline,
        findings=tuple(
            replace(finding, text=f"said last: {finding.text}", level=Level.NOTE) for finding in health.findings
        ),
        nodes_of_shape={},
        state=absent,
        said_last=health.headline if health.looked_at else None,
        unknown_since=since,
    )


def _last_sign(policy: Json, lease: Json | None) -> str | None:
    """When a leader was last there: its last renewal of the lease, else its last write of the status. RFC 3339."""
    renewed = ((lease or {}).get("spec") or {}).get("renewTime")
    if renewed:
        return f"{str(renewed).partition('.')[0].removesuffix('Z')}Z"
    observed = (policy.get("status") or {}).get("observedTime")
    if observed:
        return str(observed)
    managed = policy["metadata"].get("managedFields") or ()
    return max((str(m["time"]) for m in managed if m.get("subresource") == "status" and m.get("time")), default=None)
