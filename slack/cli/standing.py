"""Is my slack there? What an API server shows, read as far as one may, and the verdict. Reads only.

The right to get and list SlackPolicies is enough; what else could not be seen is said and not held against anybody.
`look` asks the API server, `judge` is a function of what it found.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from slack.cli.items import Json, item, items
from slack.cli.places import DEFAULT_PLACE, OPERATOR_PODS, PLACEHOLDERS, Place, described, leaving, places, running
from slack.cli.problems import UserError
from slack.kube.errors import ApiError
from slack.kube.paths import resource_path
from slack.planner.crd import PLURAL
from slack.planner.manifests import LABEL_POLICY, LABEL_SHAPE
from slack.planner.policy import API_VERSION
from slack.process.reasons import Level, reason

if TYPE_CHECKING:
    from slack.kube.connection import Connection

_GOOD_WHEN_TRUE = frozenset({"Ready", "SlackSatisfied", "Covered", "Feasible"})
_LEASE_SECONDS = 15.0


class Condition(msgspec.Struct, rename="camel"):
    """One condition as the API has it."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""

    @property
    def wrong(self) -> bool:
        """Whether it does not say what one would like to hear."""
        return (self.status == "True") != (self.type in _GOOD_WHEN_TRUE)


class Shape(msgspec.Struct):
    """One entry of status.shapes."""

    name: str
    role: str = ""
    requests: dict[str, str] = {}
    count: int = 0
    replicas: int = 0
    bound: int = 0
    pending: int = 0
    workloads: list[str] = msgspec.field(default=[], name="for")


class Uncovered(msgspec.Struct):
    """One entry of status.uncovered."""

    pod: str = ""
    reason: str = ""


class Displaced(msgspec.Struct):
    """status.displaced"""

    total: int = 0
    since: str = ""


class Status(msgspec.Struct, rename="camel"):
    """A SlackPolicy's status, as far as it is shown."""

    observed_generation: int = 0
    nodes: int = 0
    summary: dict[str, str] = {}
    desired: dict[str, str] = {}
    reserved: dict[str, str] = {}
    pending: int = 0
    displaced: Displaced = msgspec.field(default_factory=Displaced)
    shapes: list[Shape] = []
    uncovered: list[Uncovered] = []
    burst: int = 0
    sustained: str = ""
    instant_start: str = ""
    conditions: list[Condition] = []


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One placeholder pod that is not on its way out."""

    policy: str
    shape: str
    node: str
    """'' while it is on none."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the API server showed."""

    policies: tuple[Json, ...]
    crd: bool
    placeholders: tuple[Placeholder, ...] | None
    """None when they may not be seen."""
    lease: Json | None
    lease_seen: bool
    operator_pods: int | None
    """Operator pods that run; None when they may not be seen."""
    unseen: tuple[str, ...]
    """What could not be looked at, and why."""
    elsewhere: tuple[Place, ...] = ()
    """Where else something of ours is; only looked for where no lease is."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be."""

    text: str
    advice: str
    level: Level
    reason: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class PolicyStanding:
    """How one policy stands."""

    name: str
    ready: bool
    headline: str
    status: Status
    findings: tuple[Finding, ...]
    bound: int
    pending: int
    nodes_of_shape: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By shape: placeholders by node; empty when the pods may not be seen."""

    @property
    def good(self) -> bool:
        """Whether nobody has to do anything about it."""
        return all(one.level is not Level.TROUBLE for one in self.findings)


@dataclass(frozen=True, slots=True)
class Standing:
    """The whole answer."""

    policies: tuple[PolicyStanding, ...]
    operator_runs: bool | None
    """None when it may not be seen."""
    operator: str
    """In words: whether it runs."""
    operator_findings: tuple[Finding, ...]
    unseen: tuple[str, ...]
    built_in: bool
    """There is no SlackPolicy: the operator keeps its built-in one, which has no status."""
    built_in_bound: int
    """Its placeholders that are on nodes."""
    built_in_findings: tuple[Finding, ...]

    @property
    def good(self) -> bool:
        """Whether all slack is there, as far as it can be seen."""
        return not self.operator_findings and not self.built_in_findings and all(one.good for one in self.policies)


def look(connection: "Connection", name: str | None, *, namespace: str, lease_name: str) -> Seen:
    """Ask the API server.

    Raises:
        UserError: a policy is named that is not there.
        KubeError: no answer, or no right to see SlackPolicies.
    """
    unseen: list[str] = []

    def optional(what: str, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except ApiError as error:
            if error.status != 403:
                raise
            unseen.append(f"{what}: not allowed to see them")
            return None

    pods_path = resource_path("v1", "pods", namespace=namespace)
    policies, crd = _policies(connection, name)
    pods = optional(f"pods in {namespace}", lambda: items(connection, pods_path, PLACEHOLDERS))
    operators = None if pods is None else items(connection, pods_path, OPERATOR_PODS)
    before = len(unseen)
    lease_path = resource_path("coordination.k8s.io/v1", "leases", namespace=namespace, name=lease_name)
    lease = optional(f"leases in {namespace}", lambda: item(connection, lease_path))
    lease_seen = len(unseen) == before
    elsewhere = places(connection) if lease is None and lease_seen else ()
    return Seen(
        policies,
        crd,
        None if pods is None else tuple(_placeholder(pod) for pod in pods if not leaving(pod)),
        lease,
        lease_seen,
        None if operators is None else sum(running(pod) for pod in operators),
        tuple(unseen),
        tuple(one for one in elsewhere if (one.namespace, one.lease_name) != (namespace, lease_name)),
    )


def look_around(
    connection: "Connection", name: str | None, *, namespace: str | None, lease_name: str | None
) -> tuple[Seen, str, str]:
    """Look at the place that is named. Without a name: at the usual one, or the only other one where an operator is.

    Returns:
        what is seen, and the namespace and the lease's name that it is of.

    Raises:
        UserError, KubeError: as `look`.
    """
    at_namespace, at_lease = namespace or DEFAULT_PLACE[0], lease_name or DEFAULT_PLACE[1]
    seen = look(connection, name, namespace=at_namespace, lease_name=at_lease)
    if namespace is None and lease_name is None and seen.elsewhere:
        with_operator = [one for one in seen.elsewhere if one.operator_pods]
        best = with_operator or ([] if seen.placeholders else list(seen.elsewhere))
        if len(best) == 1:
            at_namespace, at_lease = best[0].namespace, best[0].lease_name
            seen = look(connection, name, namespace=at_namespace, lease_name=at_lease)
    return seen, at_namespace, at_lease


def _policies(connection: "Connection", name: str | None) -> tuple[tuple[Json, ...], bool]:
    if name is not None:
        found = item(connection, resource_path(API_VERSION, PLURAL, name=name))
        if found is not None:
            return (found,), True
    try:
        known = items(connection, resource_path(API_VERSION, PLURAL))
    except ApiError as error:
        if not error.not_found or name is not None:
            raise
        return (), False
    if name is None:
        return tuple(sorted(known, key=lambda one: str(one["metadata"]["name"]))), True
    names = ", ".join(str(one["metadata"]["name"]) for one in known)
    raise UserError(f"slackpolicy {name}: there is none of this name; there are: {names or 'none'}")


def _placeholder(pod: Json) -> Placeholder:
    labels = pod["metadata"].get("labels", {})
    node = pod.get("spec", {}).get("nodeName") or ""
    return Placeholder(labels.get(LABEL_POLICY, ""), labels.get(LABEL_SHAPE, ""), node)


def judge(seen: Seen, *, now: float, namespace: str, lease_name: str) -> Standing:
    """Say how everything stands.

    Args:
        seen: what the API server showed.
        now: Unix seconds, to compare the lease's time with.
        namespace: of the lease, for the words.
        lease_name: for the words.
    """
    operator, findings = _operator(seen, now, namespace, lease_name)
    built_in = not seen.policies and (not seen.crd or not findings)
    return Standing(
        tuple(_standing(one, seen.placeholders, namespace) for one in seen.policies),
        None if not seen.lease_seen else not findings,
        operator,
        findings,
        seen.unseen,
        built_in,
        sum(1 for one in seen.placeholders or () if one.node),
        _built_in_findings(seen, namespace) if built_in and not findings else (),
    )


def _built_in_findings(seen: Seen, namespace: str) -> tuple[Finding, ...]:
    """The built-in policy has no status: only placeholders that are there and on nodes show that it does its work."""
    waiting = sum(1 for one in seen.placeholders or () if not one.node)
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
    return (Finding(text, advice, Level.TROUBLE, name),)


def _operator(seen: Seen, now: float, namespace: str, lease_name: str) -> tuple[str, tuple[Finding, ...]]:
    lease = f"{namespace}/{lease_name}"
    start = (
        f"another release? {described(seen.elsewhere)}"
        if seen.elsewhere
        else "start it (kubectl get deployments -A -l app.kubernetes.io/name=resource-slack); "
        "if it runs elsewhere, name the place with --namespace and --lease-name"
    )
    if not seen.lease_seen:
        return "not known: its lease may not be seen", ()
    if seen.lease is None:
        if seen.operator_pods:
            return f"{seen.operator_pods} running, without a lease", ()
        text = f"no operator is seen: there is no lease {lease}; what is said below is what it said last"
        return "does not run", (Finding(text, start, Level.TROUBLE, "OperatorAbsent"),)
    spec = seen.lease.get("spec") or {}
    holder, renewed = str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or "")
    age = now - datetime.fromisoformat(renewed).timestamp() if renewed else float("inf")
    if holder and age < float(spec.get("leaseDurationSeconds") or _LEASE_SECONDS):
        where = "" if (namespace, lease_name) == DEFAULT_PLACE else f" in {namespace} (lease {lease_name})"
        return f"runs; {holder} leads{where}", ()
    last = f"last renewed {duration(age)} ago" if renewed and holder else "released, and nobody has taken it since"
    text = f"no operator leads: the lease {lease} was {last}; what is said below is what it said last"
    return "does not run", (Finding(text, start, Level.TROUBLE, "OperatorAbsent"),)


def _standing(policy: Json, placeholders: Sequence[Placeholder] | None, namespace: str) -> PolicyStanding:
    name = str(policy["metadata"]["name"])
    generation = int(policy["metadata"].get("generation") or 0)
    status = msgspec.convert(policy.get("status") or {}, Status, strict=False)
    spec = policy.get("spec") or {}
    dry_run = bool(spec.get("dryRun"))
    ready = next((one.status == "True" for one in status.conditions if one.type == "Ready"), False)
    findings = list(_findings(status.conditions, namespace, dry_run=dry_run))
    if not status.conditions:
        headline = "never looked at"
        text = "no operator has written a status yet"
        findings.append(Finding(text, "see below whether the operator runs", Level.TROUBLE, "NoStatus"))
    elif status.observed_generation < generation:
        ready, headline = False, "changed since the operator looked"
        text = f"the spec is of generation {generation}, the status of {status.observed_generation}"
        advice = "wait some seconds; if it stays, see below whether the operator runs"
        findings.insert(0, Finding(text, advice, Level.TROUBLE, "NotObserved"))
    elif dry_run:
        headline = "dry run: nothing is written for it"
    else:
        headline = "ready" if ready else "not ready"
    mine = None if placeholders is None else [one for one in placeholders if one.policy == name]
    nodes: dict[str, Counter[str]] = {}
    for one in mine or ():
        if one.node:
            nodes.setdefault(one.shape, Counter())[one.node] += 1
    if mine is None:  # then as the operator last said
        bound, pending = sum(shape.bound for shape in status.shapes), status.pending
    else:
        bound = sum(1 for one in mine if one.node)
        pending = len(mine) - bound
    return PolicyStanding(name, ready, headline, status, tuple(findings), bound, pending, nodes)


def _findings(conditions: Sequence[Condition], namespace: str, *, dry_run: bool) -> list[Finding]:
    """Each thing once: where a policy is blocked, several conditions say so in the same words."""
    grouped: dict[tuple[str, str], list[Condition]] = {}
    for one in conditions:
        if one.wrong:
            grouped.setdefault((one.reason, one.message), []).append(one)
    for key in [key for key in grouped if key[0] == "PlaceholdersPending"]:
        if dry_run:
            del grouped[key]  # nobody is to make them
        elif {one.type for one in grouped[key]} == {"SlackSatisfied"} and any(
            other.type == "Ready" for others in grouped.values() for other in others
        ):
            del grouped[key]
    found = []
    for (name, message), same in grouped.items():
        known = reason(name)
        types = ", ".join(f"{one.type}={one.status}" for one in same)
        since = min((one.last_transition_time for one in same if one.last_transition_time), default="")
        level = known.level if known is not None and known.level is not Level.GOOD else Level.TROUBLE
        text = f"{types} {name}: {message}"
        advice = known.advice.replace("NAMESPACE", namespace) if known is not None else ""
        found.append(Finding(text, advice, level, name, since))
    return found


def duration(seconds: float) -> str:
    """Write an age as kubectl does: 40s, 12m, 5h, 3d."""
    for size, unit, least in ((86400, "d", 2 * 86400), (3600, "h", 2 * 3600), (60, "m", 120)):
        if seconds >= least:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"
