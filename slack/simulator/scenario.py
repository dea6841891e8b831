"""A scenario file as a typed value: the cluster, what runs on it, and which slack is kept; checked with paths.

Keys are camelCase as in SlackPolicy; amounts are Kubernetes quantities, times are durations (`10m`) or numbers whose
name ends in Seconds. Every constant of a modelled component has its upstream default and its upstream name.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from slack.cluster.classes import Constraints, admits, reason_against
from slack.planner.fields import Duration, Rate
from slack.planner.policy import DEFAULT_RATE, problem_text
from slack.simulator.autoscalers import ClusterAutoscaler, Karpenter, NoAutoscaler
from slack.simulator.distributions import Model
from slack.simulator.inventory import NodeGroup as NodeGroup
from slack.simulator.inventory import Workload as Workload
from slack.simulator.keeping import NamedPolicy as NamedPolicy
from slack.simulator.keeping import NoSlack as NoSlack
from slack.simulator.keeping import Policies as Policies
from slack.simulator.keeping import Proportional as Proportional
from slack.simulator.keeping import Slack as Slack
from slack.simulator.keeping import Static as Static

KIND = "Scenario"
_UNIONS = frozenset({"arrivals", "life", "startUp", "start_up", "load", "autoscaler", "slack"})
"""Fields whose `kind` says which model they are; pydantic puts the kind into the path of a problem."""
_TAGS = frozenset(
    {
        *("constant", "uniform", "lognormal", "exponential", "forever", "points", "sine"),
        *("poisson", "diurnal", "bursts", "deployment", "jobs", "replay"),
        *("clusterAutoscaler", "karpenter", "none", "policies", "static", "proportional"),
    }
)


class BadScenario(ValueError):
    """A scenario that cannot be run; each problem names the field's path and what would be right."""

    def __init__(self, source: str, problems: tuple[str, ...]) -> None:
        self.source = source
        self.problems = problems
        super().__init__(f"{source}: " + "; ".join(problems))


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError("must be longer than 0s")
    return value


PositiveDuration = Annotated[Duration, AfterValidator(_positive)]


class Scheduler(Model):
    """kube-scheduler."""

    scoring: Literal["leastAllocated", "mostAllocated"] = "leastAllocated"
    """NodeResourcesFitArgs.scoringStrategy.type; LeastAllocated upstream (apis/config/v1/defaults.go)."""
    pods_per_second: Annotated[float, Field(gt=0, le=100_000)] = 100.0
    """Scheduling cycles a second; upstream has no such constant, clients are limited to qps 50, burst 100."""
    preemption_seconds: Annotated[float, Field(ge=0, le=10)] = 0.0
    """By how much each victim holds up the next cycle: nothing with SchedulerAsyncPreemption (on since 1.33), 0.04
    measured without it."""
    bind_seconds: Annotated[float, Field(ge=0, le=60)] = 0.05
    """From the decision to the binding seen by everybody; measured, no upstream constant."""
    pod_initial_backoff_seconds: Annotated[float, Field(gt=0)] = 1.0
    """KubeSchedulerConfiguration.podInitialBackoffSeconds, 1."""
    pod_max_backoff_seconds: Annotated[float, Field(gt=0)] = 10.0
    """KubeSchedulerConfiguration.podMaxBackoffSeconds, 10."""
    pop_from_backoff_q: bool = True
    """Feature SchedulerPopFromBackoffQ, on since 1.33: an idle scheduler takes pods that are still backing off."""
    max_in_unschedulable: PositiveDuration = timedelta(minutes=5)
    """DefaultPodMaxInUnschedulablePodsDuration, 5m: pods that nothing has woken are tried again."""


class Operator(Model):
    """resource-slack's own loop."""

    interval: PositiveDuration = timedelta(seconds=10)
    """S2: a plan every 10 s."""
    debounce_seconds: Annotated[float, Field(gt=0)] = 0.2
    """slack_operator.wake.DEBOUNCE_SECONDS: so soon after a relevant change."""
    relevant_change: Rate = 0.02
    """A change of the real pods' requests by this share plans before the interval is over (a model's saving)."""
    default_rate: Rate = DEFAULT_RATE
    """--extra-capacity-min-rate."""


Autoscaler = Annotated[ClusterAutoscaler | Karpenter | NoAutoscaler, Field(discriminator="kind")]


class Scenario(Model):
    """One run: a cluster, its load, its slack. `model_copy(update={"slack": ...})` makes the next of a comparison."""

    api_version: Literal["resource-slack.io/v1alpha1"] = "resource-slack.io/v1alpha1"
    """As in a SlackPolicy."""
    kind: Literal["Scenario"] = "Scenario"
    """Always Scenario."""
    name: str = "scenario"
    """For tables and pictures."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Everything random comes from it."""
    starts_at: datetime = datetime(2026, 1, 5, tzinfo=UTC)
    """What a policy's schedule takes for the start (a Monday)."""
    duration: PositiveDuration = timedelta(hours=24)
    """How long it runs, warm-up included."""
    warm_up: Duration = timedelta(0)
    """How long nothing is measured."""
    node_groups: tuple[NodeGroup, ...]
    """What nodes there can be."""
    workloads: tuple[Workload, ...]
    """What runs."""
    scheduler: Scheduler = Scheduler()
    """kube-scheduler's settings."""
    autoscaler: Autoscaler = ClusterAutoscaler()
    """Who adds and removes nodes."""
    operator: Operator = Operator()
    """resource-slack's settings."""
    slack: Slack = Policies()
    """Which slack is kept."""
    instant_seconds: Annotated[float, Field(gt=0)] = 2.0
    """A pod bound within this time of its creation has started at once."""
    timeline_rows: Annotated[int, Field(ge=2, le=100_000)] = 1440
    """At most so many rows of the timeline."""
    max_pods: Annotated[int, Field(ge=1)] = 5_000_000
    """A run that creates more pods than this is refused while it runs: a mistake of units, most likely."""


def _path(error: Mapping[str, Any]) -> dict[str, Any]:
    """Leave the kinds of unions out of a problem's path: people write `arrivals.perMinute`."""
    loc: list[Any] = []
    union = False
    for part in error["loc"]:
        if union and isinstance(part, str) and part in _TAGS:
            union = False
            continue
        union = part in _UNIONS
        loc.append(part)
    return {**error, "loc": tuple(loc)}


def _why_nowhere(requests: Mapping[str, int], constraints: Constraints, groups: tuple[NodeGroup, ...]) -> str:
    """Say why a pod fits no node group; '' when it fits one."""
    reasons = []
    for group in groups:
        if group.max == 0:
            reasons.append(f"{group.name}: max is 0")
            continue
        if not admits(constraints, group.node_class):
            reasons.append(f"{group.name}: {reason_against(constraints, group.node_class)}")
            continue
        over = [
            name
            for name, amount in requests.items()
            if amount > group.allocatable.get(name, 0) - group.daemon_requests.get(name, 0)
        ]
        if not over and group.allocatable.get("pods", 110) > group.daemon_pods:
            return ""
        reasons.append(f"{group.name}: {', '.join(over) or 'pods'} is more than a node has to give")
    return "; ".join(reasons)


def problems_of(scenario: Scenario) -> tuple[str, ...]:
    """Find what no single field shows: names given twice, pods that fit no node group, a warm-up without an end."""
    found = []
    if not scenario.node_groups:
        found.append("nodeGroups: is empty; name at least one")
    if not scenario.workloads:
        found.append("workloads: is empty; name at least one")
    for field, names in (
        ("nodeGroups", [g.name for g in scenario.node_groups]),
        ("workloads", [f"{w.namespace}/{w.name}" for w in scenario.workloads]),
    ):
        found += [f"{field}[{i}].name: {n!r} is given twice" for i, n in enumerate(names) if n in names[:i]]
    if scenario.warm_up >= scenario.duration:
        found.append("warmUp: is not shorter than duration")
    if scenario.starts_at.tzinfo is None:
        found.append("startsAt: needs an offset, such as 2026-01-05T00:00:00Z")
    for i, workload in enumerate(scenario.workloads):
        why = _why_nowhere(workload.requests, workload.constraints, scenario.node_groups)
        if why:
            found.append(f"workloads[{i}].requests: its pods fit no node group ({why})")
    slack = scenario.slack
    if isinstance(slack, Static | Proportional):
        constraints = Constraints(
            node_selector=tuple(sorted(slack.node_selector.items())),
            tolerations=tuple(sorted(t.toleration() for t in slack.tolerations)),
        )
        why = _why_nowhere(slack.requests, constraints, scenario.node_groups)
        if why:
            found.append(f"slack.requests: its pods fit no node group ({why})")
    if isinstance(scenario.autoscaler, ClusterAutoscaler):
        known = {g.name for g in scenario.node_groups}
        strange = [n for n in scenario.autoscaler.expander_priorities if n not in known]
        found += [f"autoscaler.expanderPriorities.{n}: there is no such node group" for n in strange]
    if scenario.scheduler.pod_initial_backoff_seconds > scenario.scheduler.pod_max_backoff_seconds:
        found.append("scheduler.podInitialBackoffSeconds: is above podMaxBackoffSeconds")
    return tuple(found)


def parse_scenario(document: object, *, source: str) -> Scenario:
    """Check one scenario document (as decoded from YAML or JSON).

    Args:
        document: a mapping with nodeGroups, workloads and what else is wanted.
        source: what to call it in complaints: a file's name.

    Raises:
        BadScenario: with every problem found, each naming the field's path.
    """
    if not isinstance(document, Mapping):
        raise BadScenario(source, (f"expected a {KIND} object, found {type(document).__name__}",))
    try:
        scenario = Scenario.model_validate(dict(document))
    except ValidationError as error:
        raise BadScenario(source, tuple(problem_text(_path(dict(e)), "") for e in error.errors())) from None
    problems = problems_of(scenario)
    if problems:
        raise BadScenario(source, problems)
    return scenario
