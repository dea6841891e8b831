"""A scenario of starts on one node, as a user writes it: cores, a policy, containers, and what the node is told.

Times are seconds from the scenario's beginning, work is seconds of CPU; both may have fractions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from slack.schema.documents import InvalidDocument, problem_text
from slack.schema.policy_object import SpecModel
from slack.throttler.config import ThrottlePolicySpec
from slack.throttler.graph import Graph, InvalidGraph

MAX_CONTAINERS = 5000
_LONGEST = 86_400


class InvalidThrottleScenario(InvalidDocument):
    """A scenario that cannot be played; each problem names the field and what would be right."""


def _number(value: object) -> object:
    if isinstance(value, str | bool):
        raise ValueError(f"{value!r} is no number; write seconds such as 1.5")
    return value


Seconds = Annotated[float, BeforeValidator(_number), Field(ge=0, le=_LONGEST, allow_inf_nan=False)]
Positive = Annotated[float, BeforeValidator(_number), Field(gt=0, le=_LONGEST, allow_inf_nan=False)]
Proportion = Annotated[float, BeforeValidator(_number), Field(ge=0, le=1, allow_inf_nan=False)]


class Work(StrEnum):
    """How long a container takes to start."""

    FIXED = "Fixed"
    SHARED = "Shared"


class Cache(SpecModel):
    """Page cache that containers push out of one another's hands while they start: with n at once each takes
    1 + k x max(0, 1 - memory / (n x workingSet)) times as long, beside sharing the CPUs."""

    memory: Positive
    """What there is for the cache, in any unit."""
    working_set: Positive
    """What each container reads, in the same unit."""
    k: Positive = 2.4
    """How much dearer a miss is; 2.4 was measured with 200 MiB each in 500 MiB."""


class ContainerSpec(SpecModel):
    """A container, or several that are alike."""

    pod: Annotated[str, Field(min_length=1, max_length=253)] = "pod"
    """Its pod."""
    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Its name; unique in its pod."""
    namespace: Annotated[str, Field(min_length=1, max_length=63)] = "default"
    """Its pod's namespace; that of the pod's first container counts."""
    replicas: Annotated[int, Field(ge=1, le=MAX_CONTAINERS)] = 1
    """So many alike in the pod; with more than one they are called name-0, name-1 and so on."""
    arrival: Seconds = 0.0
    """When its pod is bound to the node."""
    pull: Seconds = 0.0
    """How long its image takes."""
    work: Positive | None = None
    """How long it takes to start, alone; without it is never ready."""
    threads: Annotated[int, Field(ge=1, le=1024)] = 1
    """How many CPUs it uses while it starts, where work is Shared."""
    depends_on: tuple[str, ...] = ()
    """Containers of its pod that must be ready before it starts."""
    needs: tuple[str, ...] = ()
    """Containers of its pod without which it does not get on, and of which the policy knows nothing."""
    priority: int = 0
    """Its pod's priority."""


class UsageStep(SpecModel):
    """What the node reads of itself from some time on; what is left out is not known, and holds nobody back."""

    at: Seconds = 0.0
    """From when."""
    cpu: Proportion | None = None
    """Share of CPU time that everything else on the node wants: 0.5 is half of the cores. If work is Shared, containers
    that start compete with it, and the node reads both together, as an average over the policy's averageOver; without
    this figure it reads the containers alone. If work is Fixed, the node reads this figure."""
    load1: Seconds | None = None
    """Load average of one minute."""
    io: Proportion | None = None
    """PSI's io, some avg10, as a share."""
    cpu_pressure: Proportion | None = None
    """PSI's cpu, some avg10, as a share."""


class StartScenario(SpecModel):
    """Containers that start on one node."""

    cores: Positive = 2.0
    """Of the node."""
    policy: ThrottlePolicySpec = ThrottlePolicySpec()
    """The spec of a ThrottlePolicy."""
    work: Work = Work.FIXED
    """Fixed: a container takes as long as its work says. Shared: those that start share the CPUs."""
    cache: Cache | None = None
    """Page cache that those that start share as well."""
    containers: Annotated[tuple[ContainerSpec, ...], Field(min_length=1, max_length=MAX_CONTAINERS)]
    """What starts."""
    usage: Annotated[tuple[UsageStep, ...], Field(max_length=MAX_CONTAINERS)] = ()
    """What the node reads of itself, in steps."""
    watchdog: Positive | None = None
    """A container that is not done so long after its start ends itself, and is started again: after 10 s, then 20 s,
    doubling up to five minutes."""
    probe_period: Seconds = 0.0
    """A container is seen to be ready at its next probe; 0 is at once."""
    start_delay: Seconds = 0.0
    """From a grant to the container's start."""
    until: Positive = 600.0
    """When the scenario ends, whatever still waits."""


@dataclass(frozen=True, slots=True)
class Member:
    """One container of a scenario, its replicas told apart."""

    spec: ContainerSpec
    name: str
    depends_on: tuple[str, ...]
    needs: tuple[str, ...]


def parse_scenario(document: object, *, source: str) -> StartScenario:
    """Check a scenario, as decoded from YAML or JSON.

    Raises:
        InvalidThrottleScenario: with every problem found, each naming the field's path.
    """
    if not isinstance(document, Mapping):
        raise InvalidThrottleScenario(
            (f"expected a scenario with containers, found {type(document).__name__}",), source
        )
    try:
        scenario = StartScenario.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidThrottleScenario(
            tuple(problem_text(dict(e), "", StartScenario) for e in error.errors()), source
        ) from None
    problems: list[str] = []
    if sum(spec.replicas for spec in scenario.containers) > MAX_CONTAINERS:
        problems.append(f"containers: more than {MAX_CONTAINERS}, replicas counted")
    else:
        for pod, members in pods_of(scenario).items():
            problems += _problems(pod, members)
    ats = [step.at for step in scenario.usage]
    if ats != sorted(set(ats)):
        problems.append("usage: steps must be in the order of `at`, each later than the one before")
    if problems:
        raise InvalidThrottleScenario(tuple(problems), source)
    return scenario


def pods_of(scenario: StartScenario) -> dict[str, tuple[Member, ...]]:
    """Return the containers by pod, in the order of declaration; a name with replicas stands for all of them."""
    found: dict[str, list[tuple[ContainerSpec, str]]] = {}
    for spec in scenario.containers:
        names = [spec.name] if spec.replicas == 1 else [f"{spec.name}-{index}" for index in range(spec.replicas)]
        found.setdefault(spec.pod, []).extend((spec, name) for name in names)
    pods: dict[str, tuple[Member, ...]] = {}
    for pod, pairs in found.items():
        of: dict[str, list[str]] = {}
        for spec, name in pairs:
            of.setdefault(spec.name, []).append(name)

        def meant(names: tuple[str, ...], of: Mapping[str, Any] = of) -> tuple[str, ...]:
            return tuple(member for name in names for member in of.get(name, (name,)))

        pods[pod] = tuple(Member(spec, name, meant(spec.depends_on), meant(spec.needs)) for spec, name in pairs)
    return pods


def _problems(pod: str, members: tuple[Member, ...]) -> list[str]:
    names = [member.name for member in members]
    problems: list[str] = []
    for field, edges in (
        ("dependsOn", {member.name: member.depends_on for member in members}),
        ("needs", {member.name: () for member in members}),
    ):
        try:
            Graph.from_dependencies(names, edges)
        except InvalidGraph as error:
            problems += [f"containers of pod {pod}: {field}: {problem}" for problem in error.problems]
    known = set(names)
    problems += [
        f"containers of pod {pod}: needs: {member.name}: no container is called {other!r}"
        for member in members
        for other in member.needs
        if other not in known
    ]
    return list(dict.fromkeys(problems))
