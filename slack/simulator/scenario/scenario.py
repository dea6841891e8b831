"""A scenario file as a typed value: the cluster, what runs on it, and which slack is kept; checked with paths.

Keys are camelCase as in SlackPolicy; amounts are Kubernetes quantities, times are durations (`10m`) or numbers whose
name ends in Seconds. Every constant of a modelled component has its upstream default and its upstream name.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from slack.cluster.hold import Hold
from slack.errors import InvalidInput
from slack.planner.policy.fields import Rate
from slack.planner.policy.spec import DEFAULT_RATE
from slack.simulator.scenario import horizon, reachability, sizes, validation_errors
from slack.simulator.scenario.autoscaler_settings import ClusterAutoscaler, Karpenter, NoAutoscaler
from slack.simulator.scenario.distributions import Model
from slack.simulator.scenario.inventory import OWNER_KINDS, NodeGroup, ScenarioWorkload
from slack.simulator.scenario.slack_kinds import Policies, Slack
from slack.simulator.scenario.times import Duration, PeriodSeconds, PositiveDuration, PositiveSeconds, RunTime
from slack.simulator.scenario.upstream import Upstream, also

KIND = "Scenario"
FIRST_YEAR, LAST_YEAR = 1970, 9996
"""Schedules look days around a run of up to a year, and Python's calendar ends with 1 and 9999."""


class InvalidScenario(InvalidInput):
    """A scenario that cannot be run; each problem names the field's path and what would be right."""


class Scheduler(Model):
    """kube-scheduler."""

    scoring: Annotated[
        Literal["leastAllocated", "mostAllocated"],
        also({"LeastAllocated": "leastAllocated", "MostAllocated": "mostAllocated"}),
        Upstream("NodeResourcesFitArgs.scoringStrategy.type", "LeastAllocated"),
    ] = "leastAllocated"
    """Which nodes it prefers: the emptiest, or the fullest."""
    pods_per_second: Annotated[
        float,
        Field(ge=0.01, le=100_000),
        Upstream(differs="upstream has no such constant; its clients are limited to --kube-api-qps 50, burst 100"),
    ] = 100.0
    """Scheduling cycles a second."""
    async_preemption: Annotated[bool, Upstream("SchedulerAsyncPreemption", "true", "on since 1.33")] = True
    """Victims are deleted beside the cycles, one after the other; otherwise each holds up the next cycle."""
    preemption_seconds: Annotated[
        float,
        Field(ge=0, le=10),
        Upstream(
            differs="no upstream constant; 0.075 was measured in bursts of 50 to 400 pods on two cores for everything, "
            "0.04 with asyncPreemption off"
        ),
    ] = 0.075
    """How long the deletion of each victim of a preemption takes."""
    bind_seconds: Annotated[float, Field(ge=0, le=60), Upstream(differs="no upstream constant; measured")] = 0.05
    """From the decision to the binding seen by everybody."""
    pod_initial_backoff_seconds: Annotated[
        PeriodSeconds, Upstream("KubeSchedulerConfiguration.podInitialBackoffSeconds", "1")
    ] = 1.0
    """How long a pod that found no place is left alone after its first attempt; twice as long after each further."""
    pod_max_backoff_seconds: Annotated[
        PeriodSeconds, Upstream("KubeSchedulerConfiguration.podMaxBackoffSeconds", "10")
    ] = 10.0
    """The longest of these times."""
    pop_from_backoff_q: Annotated[bool, Upstream("SchedulerPopFromBackoffQ", "true")] = True
    """An idle scheduler takes pods that are still backing off. On since 1.33."""
    max_in_unschedulable: Annotated[
        PositiveDuration, Upstream("DefaultPodMaxInUnschedulablePodsDuration (scheduling_queue.go)", "5m")
    ] = timedelta(minutes=5)
    """Pods that no event has woken are tried again after this time."""


class Operator(Model):
    """resource-slack's own loop."""

    interval: PositiveDuration = timedelta(seconds=10)
    """A plan is made at least so often."""
    debounce_seconds: PeriodSeconds = 0.2
    """A plan is made so soon after a relevant change."""
    relevant_change: Rate = 0.02
    """A change of the real pods' requests by this share is relevant; smaller ones wait for the interval (a saving of
    the model's, the operator heeds each)."""
    make_way: bool = True
    """Whether placeholders leave together for a burst, before the scheduler preempts them one by one: --make-way."""
    make_way_seconds: PositiveSeconds = 0.1
    """From the first pod of a burst until its placeholders have gone. Measured: 0.06 s where a Deployment is scaled,
    0.3 s where pods come without an owner that counts them."""
    hold: Hold = Hold.AUTO
    """The operator's --hold: the form of placeholders of policies that name none. Auto: Unbound where there is an
    autoscaler, else Bound."""
    soft_taint: bool = False
    """Whether the fewest nodes that hold all unbound placeholders get a taint PreferNoSchedule: --soft-taint."""
    default_rate: Rate = DEFAULT_RATE
    """The operator's --extra-capacity-min-rate: the rate of policies that name none."""


def _no_number(value: object) -> object:
    if isinstance(value, int | float):
        raise ValueError(f"{value!r} is no time; write one such as 2026-01-05T00:00:00Z")
    return value


def _one_line(name: str) -> str:
    if not name.isprintable() or not name.strip():
        raise ValueError(f"{validation_errors.value_text(name)} is not one line of letters, digits, signs and blanks")
    return name


Autoscaler = Annotated[ClusterAutoscaler | Karpenter | NoAutoscaler, Field(discriminator="kind")]


class Scenario(Model):
    """One run: a cluster, its load, its slack."""

    api_version: Literal["resource-slack.io/v1alpha1"] = "resource-slack.io/v1alpha1"
    """Always resource-slack.io/v1alpha1."""
    kind: Literal["Scenario"] = "Scenario"
    """Always Scenario."""
    name: Annotated[str, Field(min_length=1, max_length=120), AfterValidator(_one_line)] = "scenario"
    """For tables and pictures: one line of letters, digits, signs and blanks."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Everything random comes from it."""
    starts_at: Annotated[datetime, BeforeValidator(_no_number)] = datetime(2026, 1, 5, tzinfo=UTC)
    """What a policy's schedule takes for the start (a Monday by default), with its offset."""
    duration: RunTime = timedelta(hours=24)
    """How long it runs, warm-up included; at most 366 days (8784h)."""
    warm_up: Duration = timedelta(0)
    """How long nothing is measured."""
    currency: Annotated[str, Field(max_length=8), AfterValidator(_one_line)] = ""
    """What pricePerHour is in, such as EUR; for tables and pictures."""
    node_groups: tuple[NodeGroup, ...]
    """Which nodes there can be; at least one group."""
    workloads: tuple[ScenarioWorkload, ...]
    """What runs; at least one workload."""
    scheduler: Scheduler = Scheduler()
    """kube-scheduler's settings."""
    autoscaler: Autoscaler = ClusterAutoscaler()
    """Who adds and removes nodes."""
    operator: Operator = Operator()
    """resource-slack's settings."""
    slack: Slack = Policies()
    """Which slack is kept."""
    instant_seconds: PositiveSeconds = 2.0
    """A pod bound within this time of its creation has started at once."""
    timeline_rows: Annotated[int, Field(ge=2, le=100_000)] = 1440
    """At most so many rows of the timeline."""
    max_pods: Annotated[int, Field(ge=1)] = 5_000_000
    """A run that creates more pods than this is refused while it runs: a mistake of units, most likely."""


def parse_scenario(document: object, *, source: str) -> Scenario:
    """Check one scenario document (as decoded from YAML or JSON).

    Args:
        document: a mapping with nodeGroups, workloads and what else is wanted.
        source: what to call it in complaints: a file's name.

    Raises:
        InvalidScenario: with every problem found, each naming the field's path.
    """
    if not isinstance(document, Mapping):
        raise InvalidScenario((f"expected a {KIND} object, found {type(document).__name__}",), source)
    try:
        scenario = Scenario.model_validate(dict(document))
    except ValidationError as error:
        raise InvalidScenario(validation_errors.problems(error.errors(), Scenario), source) from None
    problems = problems_of(scenario)
    if problems:
        raise InvalidScenario(problems, source)
    return scenario


def problems_of(scenario: Scenario) -> tuple[str, ...]:
    """Find what no single field shows: names given twice, pods that fit no node group, a warm-up without an end."""
    found = [*_of_names(scenario), *_of_times(scenario)]
    found += sizes.problems(scenario.node_groups, scenario.workloads, scenario.max_pods, scenario.duration)
    found += reachability.problems(scenario.node_groups, scenario.workloads, scenario.slack)
    found += horizon.problems(scenario.workloads, scenario.duration)
    if isinstance(scenario.autoscaler, ClusterAutoscaler):
        found += _of_expander(scenario.autoscaler, {group.name for group in scenario.node_groups})
    if scenario.scheduler.pod_initial_backoff_seconds > scenario.scheduler.pod_max_backoff_seconds:
        found.append("scheduler.podInitialBackoffSeconds: is above podMaxBackoffSeconds")
    return tuple(found)


def warnings_of(scenario: Scenario) -> tuple[str, ...]:
    """Find what can be played and is hardly meant, each with its field: arrivals after the end, unknown owners."""
    return (*horizon.warnings(scenario.workloads, scenario.duration), *_of_owners(scenario))


def _of_owners(scenario: Scenario) -> Iterator[str]:
    """Owners of other kinds are there (custom resources, in recordings), and are mistakes of spelling otherwise."""
    for index, workload in enumerate(scenario.workloads):
        if workload.owner_kind and workload.owner_kind not in OWNER_KINDS:
            yield (
                f"workloads[{index}].ownerKind: {workload.owner_kind!r} is none of {', '.join(OWNER_KINDS)}; it is "
                f"taken for the kind of a custom resource"
            )


def _of_expander(autoscaler: ClusterAutoscaler, groups: set[str]) -> Iterator[str]:
    field, priorities = "autoscaler.expanderPriorities", autoscaler.expander_priorities
    if autoscaler.expander == "priority" and not priorities:
        example = f"{min(groups, default='general')}: 10"
        yield f"{field}: expander priority needs it; give a priority by node group, such as {example}"
    if autoscaler.expander != "priority" and priorities:
        yield f"{field}: only expander priority reads it, and the expander is {autoscaler.expander}; leave one out"
    yield from (f"{field}.{name}: there is no such node group" for name in priorities if name not in groups)


def _of_names(scenario: Scenario) -> Iterator[str]:
    for field, names in (
        ("nodeGroups", [g.name for g in scenario.node_groups]),
        ("workloads", [f"{w.namespace}/{w.name}" for w in scenario.workloads]),
    ):
        if not names:
            yield f"{field}: is empty; name at least one"
        seen: set[str] = set()
        for index, name in enumerate(names):
            if name in seen:
                yield f"{field}[{index}].name: {name!r} is given twice"
            seen.add(name)


def _of_times(scenario: Scenario) -> Iterator[str]:
    if scenario.warm_up >= scenario.duration:
        yield "warmUp: is not shorter than duration"
    if scenario.starts_at.tzinfo is None:
        yield "startsAt: needs an offset, such as 2026-01-05T00:00:00Z"
    elif not FIRST_YEAR <= scenario.starts_at.year <= LAST_YEAR:
        yield f"startsAt: is too far away; write a year from {FIRST_YEAR} to {LAST_YEAR}"
