"""What `plan` and `explain` print."""

from typing import Literal

import msgspec

from slack.cli.documents.record import Amounts, ApiVersion, Record


class Change(Record):
    """How many placeholders come, stay and go."""

    add: int
    keep: int
    remove: int


class PlannedShape(Record):
    """Placeholders of one size."""

    name: str
    role: Literal["cover", "fill", "mirror", "demand"]
    count: int
    requests: Amounts
    for_: list[str] = msgspec.field(name="for")
    change: Change


class BindingLimit(Record):
    """A limit that binds: of a ceiling more is wanted than it allows, of a floor less; replicas are in `wanted_by`."""

    limit: Literal["ceiling", "floor"]
    at: Amounts
    wanted: Amounts
    text: str


class WantedBy(Record):
    """The field of a policy that sets how much of some resources is wanted; of the others it says nothing."""

    source: Literal["rate", "ladder", "floor", "replicas", "nodes", "objective", "demand"]
    resources: list[str]
    window: str | None
    rate: float | None
    base: Amounts | None
    floor: Amounts | None
    replicas: int | None
    instant_start: float | None
    text: str


class Cost(Record):
    """What placeholders cost: nodes always, money where nodes have prices."""

    node_hours_per_hour: float
    node_hours_per_month: float
    currency: str
    per_hour: float | None
    per_month: float | None
    node_per_hour: float | None
    unpriced_nodes: int
    text: str


class Spared(Record):
    """What the pods of a day that took a placeholder's place would have waited; null where no operator has told it."""

    pods: int
    seconds: int
    text: str


class Uncovered(Record):
    """A pod for which no capacity is kept."""

    pod: str
    reason: str


class Condition(Record):
    """As in a SlackPolicy's status."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


class PlannedFor(Record):
    """What an objective asks for, and why this much; `known` is false where the rate holds in its place."""

    instant_start: float
    known: bool
    why: str


class PolicyPlanned(Record):
    """One policy's plan."""

    policy: str
    nodes: int
    base: Amounts
    desired: Amounts
    asked: Amounts
    wanted_by: list[WantedBy]
    binding: list[BindingLimit]
    planned: Amounts
    """Requests of all placeholders that the plan heads for, and `buffered`."""
    buffered: Amounts | None
    """What CapacityBuffers keep that counts; null unless the policy counts them and there are some."""
    objective: PlannedFor | None
    new_nodes: int
    cost: Cost | None
    reserved_cost: Cost | None
    spared: Spared | None
    shapes: list[PlannedShape]
    uncovered: list[Uncovered]
    conditions: list[Condition]


class PlanList(Record):
    """`plan`."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["PlanList"]
    items: list[PolicyPlanned]


class ExplainedRoom(Record):
    """A placeholder in whose place a pod could go."""

    policy: str
    shape: str
    role: str
    requests: Amounts
    count: int
    bound: int
    pending: int
    nodes: dict[str, int]
    avoided: int
    made_as: str
    release_nodes: Literal["Label", "MarkerPod", "Off"] | None


class ExplainedStart(Record):
    """How the workload's newest pod started; seconds are since its creation."""

    pod: str
    bound_seconds: float | None
    ready_seconds: float | None
    pull_seconds: float
    pulled_bytes: int
    text: str


class Explanation(Record):
    """`explain`."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["Explanation"]
    workload: str
    pods: int
    requests: Amounts
    ready: bool
    rooms: list[ExplainedRoom]
    reasons: list[str]
    warnings: list[str]
    unknown: list[str]
    cut: list[str]
    start: ExplainedStart | None
