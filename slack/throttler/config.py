"""ThrottlePolicy as a typed value, and the study's own MinionConfig: checked, with the field's path in each complaint.

The CRD is made of these models, so the API server refuses what they refuse. `spec: {}` is a
good policy. Null turns a limit off; a field that is absent has its default, which bends to what is given: a minRate
that nobody wrote is never above maxRate.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final, Self

from pydantic import Field, ValidationError, model_validator

from slack.schema.documents import InvalidDocument, problem_text
from slack.schema.policy_object import PolicyObject, SpecModel
from slack.schema.values import Labels
from slack.throttler.fields import AveragedOver, FailOpenAfter, Hold, MaxShare, Number, PerCore, Share, Switch, Timeout
from slack.throttler.limits import Limits

KIND = "ThrottlePolicy"
MINION_KIND = "MinionConfig"
MINION_VERSION = "v1beta1"
RATES_CROSSED: Final = "minRate is above maxRate"
SPELT_TWICE: Final = "maxLoadAverageMulitplier and maxLoadAverageMultiplier are the same; give one"
_DEFAULT_MIN_RATE = Decimal("0.1")
_DEFAULT_MAX_RATE = Decimal(10)
_MISSPELT = "maxLoadAverageMulitplier"


class InvalidThrottlePolicy(InvalidDocument):
    """A ThrottlePolicy or MinionConfig that cannot be used; each problem names the field and what would be right."""


class TimeoutAction(StrEnum):
    """What becomes of a container that takes too long to start."""

    RELEASE = "Release"
    DELETE = "Delete"


class StartTimeout(SpecModel):
    """A container that is not ready so long after its grant is `failed`, and its slot is free: else containers that
    hang would hold all slots."""

    after: Timeout = timedelta(minutes=5)
    """From the grant, not from the pod's creation; from 1s to 24h."""
    then: TimeoutAction = TimeoutAction.RELEASE
    """Release: the container runs on without a slot, and is ready when it is. Delete: its pod is evicted, so far as
    PodDisruptionBudgets allow."""


class ThrottlePolicySpec(SpecModel):
    """How many containers start at once on the nodes of the policy. Every field has a default; null turns a limit
    off."""

    node_selector: Labels = Field(default_factory=dict)
    """Labels of the nodes; without any, all nodes. A node that two policies select has the more specific one."""
    max_starting_containers_per_core: PerCore | None = Fraction(3)
    """At most so many containers per core start at once on a node, whatever their pods; a number or a fraction such as
    "1/3". Rounded down, at least one."""
    max_load_average_multiplier: Number | None = Decimal("1.5")
    """Nothing starts while the load average of one minute is so many times the cores, or more."""
    max_load_average_mulitplier: Number | None = Field(default=None, exclude=True)
    """maxLoadAverageMultiplier as the study spells it."""
    max_cpu: Share | None = Field(default=Decimal("0.8"), alias="maxCPU")
    """Nothing starts while the CPUs are busy for so much of the time, or more; see averageOver."""
    max_cpu_pressure: Share | None = Field(default=None, alias="maxCPUPressure")
    """Nothing starts while tasks wait for a CPU for so much of the time (PSI, some avg10), or more. Off by default."""
    max_io_pressure: Share | None = Field(default=Decimal("0.4"), alias="maxIOPressure")
    """Nothing starts while tasks wait for I/O for so much of the time (PSI, some avg10), or more."""
    min_rate: Number | None = _DEFAULT_MIN_RATE
    """At least so many starts a second while any container waits for a slot, whatever the limits above: "0.1" is one
    in ten seconds. Dependencies and maxRate hold nevertheless."""
    max_rate: Number | None = _DEFAULT_MAX_RATE
    """At most so many starts a second, whatever else: "10" is one in 100 ms."""
    average_over: AveragedOver = timedelta(seconds=10)
    """Over which time the share of busy CPUs is taken; from 1s to 5m."""
    start_timeout: StartTimeout = StartTimeout()
    """How long a container may take to start, and what then."""
    no_probe_hold: Hold = timedelta(seconds=5)
    """A container without startup and readiness probe counts as starting for so long; from 0s to 10m."""
    fail_open_after: FailOpenAfter = timedelta(seconds=60)
    """After so long without an answer of an agent that sees its pods a gate lets all containers start, also those that
    are restarted; from 5s to 1h."""
    max_share: MaxShare = 1.0
    """Share of a node's slots that one namespace may hold; at least one slot."""
    gate_restarts: Switch = True
    """Whether a container that is restarted waits for a slot again."""
    by_priority: Switch = False
    """Whether containers of pods with a higher priority start first; of equal ones, those that have waited longest."""

    @model_validator(mode="before")
    @classmethod
    def _as_the_study_spells_it(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or _MISSPELT not in given:
            return given
        if given[_MISSPELT] is not None and given.get("maxLoadAverageMultiplier") is not None:
            raise ValueError(SPELT_TWICE)
        return given

    @model_validator(mode="after")
    def _rates(self) -> Self:
        both = {"min_rate", "max_rate"} <= self.model_fields_set
        if both and self.min_rate is not None and self.max_rate is not None and self.min_rate > self.max_rate:
            raise ValueError(RATES_CROSSED)
        return self

    def limits(self, cores: int | float) -> Limits:
        """Return what the policy comes to on a node of so many cores."""
        exact = Decimal(str(cores))
        per_core, multiplier = self.max_starting_containers_per_core, self.load_average_multiplier
        slots = None if per_core is None else max(1, int(per_core * Fraction(exact)))
        lowest, highest = self.rates
        return Limits(
            slots=slots,
            namespace_slots=self.namespace_slots(slots),
            max_load1=None if multiplier is None else float(multiplier * exact),
            max_cpu=_float(self.max_cpu),
            max_cpu_pressure=_float(self.max_cpu_pressure),
            max_io_pressure=_float(self.max_io_pressure),
            force_after_seconds=None if lowest is None else float(1 / lowest),
            gap_seconds=0.0 if highest is None else float(1 / highest),
            start_timeout_seconds=self.start_timeout.after.total_seconds(),
            delete_late=self.start_timeout.then is TimeoutAction.DELETE,
            no_probe_hold_seconds=self.no_probe_hold.total_seconds(),
            fail_open_after_seconds=self.fail_open_after.total_seconds(),
            average_over_seconds=self.average_over.total_seconds(),
            gate_restarts=self.gate_restarts,
            by_priority=self.by_priority,
        )

    def namespace_slots(self, slots: int | None) -> int | None:
        """Return how many of a node's slots one namespace may hold; None: all."""
        return None if slots is None or self.max_share >= 1 else max(1, int(Decimal(str(self.max_share)) * slots))

    @property
    def load_average_multiplier(self) -> Decimal | None:
        """The multiplier, whichever way it is spelt."""
        misspelt = "max_load_average_mulitplier" in self.model_fields_set
        given = "max_load_average_multiplier" in self.model_fields_set and self.max_load_average_multiplier is not None
        return self.max_load_average_mulitplier if misspelt and not given else self.max_load_average_multiplier

    @property
    def rates(self) -> tuple[Decimal | None, Decimal | None]:
        """minRate and maxRate; one that was not given bends to the one that was."""
        lowest, highest = self.min_rate, self.max_rate
        if lowest is not None and highest is not None and lowest > highest:
            return (lowest, lowest) if "min_rate" in self.model_fields_set else (highest, highest)
        return lowest, highest

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether the policy is about a node with these labels."""
        return all(labels.get(key) == value for key, value in self.node_selector.items())

    def may_select(self, labels: Mapping[str, str]) -> bool:
        """Whether the policy can be about a node with these labels and others that are not known."""
        return all(labels.get(key, value) == value for key, value in self.node_selector.items())


def _float(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


class ThrottlePolicy(PolicyObject):
    """A ThrottlePolicy with its identity."""

    spec: ThrottlePolicySpec = ThrottlePolicySpec()
    """The spec."""


def parse_throttle_policy(document: object, *, source: str) -> ThrottlePolicy:
    """Check one ThrottlePolicy document, as decoded from YAML or JSON.

    Raises:
        InvalidThrottlePolicy: with every problem found, each naming the field's path.
    """
    return ThrottlePolicy.parse(document, kind=KIND, source=source, such_as="maxRate", bad=InvalidThrottlePolicy)


class _Throttling(SpecModel):
    """The block `throttling` of a MinionConfig: the study's keys, and no others."""

    max_starting_containers_per_core: Number | None = None
    max_load_average_multiplier: Number | None = None
    max_load_average_mulitplier: Number | None = None
    max_cpu: Share | None = Field(default=None, alias="maxCPU")
    min_rate: Number | None = None
    max_rate: Number | None = None


class _Minion(SpecModel):
    """The document around it."""

    throttling: _Throttling


def parse_minion_config(document: object, *, source: str) -> ThrottlePolicySpec:
    """Read a MinionConfig as the study prints it; what it does not say is as in `spec: {}`.

    Raises:
        InvalidThrottlePolicy: with every problem found, each naming the field's path.
    """
    found = (document.get("kind"), document.get("apiVersion")) if isinstance(document, Mapping) else (None, None)
    if not isinstance(document, Mapping) or found != (MINION_KIND, MINION_VERSION):
        raise InvalidThrottlePolicy((f"expected kind {MINION_KIND} and apiVersion {MINION_VERSION}",), source)
    inner = {key: value for key, value in document.items() if key not in ("kind", "apiVersion")}
    try:
        _Minion.model_validate(inner, by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidThrottlePolicy(tuple(problem_text(dict(e), "", _Minion) for e in error.errors()), source) from None
    try:
        return ThrottlePolicySpec.model_validate(inner["throttling"], by_alias=True, by_name=False)
    except ValidationError as error:
        told = tuple(problem_text(dict(e), "throttling", ThrottlePolicySpec) for e in error.errors())
        raise InvalidThrottlePolicy(told, source) from None


@dataclass(frozen=True, slots=True)
class Choice:
    """Which policy a node has."""

    policy: ThrottlePolicy | None
    """None: no policy selects it, and nothing is throttled there."""
    yielded: tuple[str, ...] = ()
    """Names of the policies that select it too and are less specific."""
    conflicts: tuple[str, ...] = ()
    """Names of the policies that are as specific and younger: only a user can mend that."""


def choose(policies: Iterable[ThrottlePolicy], labels: Mapping[str, str]) -> Choice:
    """Choose the policy of a node by its labels: the most selector keys, then the oldest, then by name."""
    selecting = sorted(
        (policy for policy in policies if policy.spec.selects(labels)),
        key=lambda policy: (-len(policy.spec.node_selector), policy.created_seconds, policy.name),
    )
    if not selecting:
        return Choice(None)
    first, rest = selecting[0], selecting[1:]
    keys = len(first.spec.node_selector)
    return Choice(
        first,
        tuple(policy.name for policy in rest if len(policy.spec.node_selector) < keys),
        tuple(policy.name for policy in rest if len(policy.spec.node_selector) == keys),
    )


def first_fail_open_after(policies: Sequence[ThrottlePolicy], labels: Mapping[str, str]) -> timedelta | None:
    """Return the time that a new gate goes by, before an agent has told it the policy of its node.

    A pod that is being created has no node yet. Of the policies that its node may have, the shortest time counts: an
    agent that is away keeps no pod down for longer than its policy says.

    Args:
        policies: all of the cluster.
        labels: what the pod demands of its node; the node may have others, too.

    Returns:
        None if no policy can be about that node.
    """
    certain = choose(policies, labels).policy
    keys = -1 if certain is None else len(certain.spec.node_selector)
    possible = [
        policy for policy in policies if len(policy.spec.node_selector) > keys and policy.spec.may_select(labels)
    ]
    if certain is not None:
        possible.append(certain)
    return min((policy.spec.fail_open_after for policy in possible), default=None)
