"""What `throttler` and its subcommands print."""

from typing import Literal

import msgspec

from slack.cli.documents.record import ApiVersion, Record


class StartLimits(Record):
    """What a ThrottlePolicy comes to on a node; null for what is off. Shares are of 1."""

    slots: int | None
    namespace_slots: int | None
    max_load1: float | None
    max_cpu: float | None
    max_cpu_pressure: float | None
    max_io_pressure: float | None
    force_after_seconds: float | None
    gap_seconds: float
    start_timeout_seconds: float | None
    delete_late: bool
    no_probe_hold_seconds: float
    fail_open_after_seconds: float
    average_over_seconds: float
    gate_restarts: bool
    by_priority: bool


class SlotsOfSize(Record):
    """How many containers start at once on a node of so many cores; null: no limit."""

    cores: int
    slots: int | None


class CheckedStart(Record):
    """One document: limits of a policy, or levels of a pod, each level with the containers that may start at once.
    `never_gated` says why a pod has no levels: all of its containers start at once."""

    kind: Literal[
        "ThrottlePolicy",
        "MinionConfig",
        "Pod",
        "PodTemplate",
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "ReplicaSet",
        "ReplicationController",
        "Job",
        "CronJob",
    ]
    name: str
    cores: float | None
    limits: StartLimits | None
    slots_by_cores: list[SlotsOfSize] | None
    levels: list[list[str]] | None
    never_gated: str | None


class ThrottlerCheck(Record):
    """`throttler check`."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["ThrottlerCheck"]
    items: list[CheckedStart]


class StartEvent(Record):
    """Something that happened to a container; `at` is seconds from the scenario's beginning."""

    at: float
    pod: str
    container: str
    event: Literal["start", "ready", "failed"]
    forced: bool
    reason: str


class StartRun(Record):
    """One run of a scenario. `limit` is null without a gate, `makespan_seconds` where not all became ready."""

    name: str
    limit: int | None
    containers: int
    ready: int
    failures: int
    most: int
    makespan_seconds: float | None
    mean_ready_seconds: float | None
    order: list[str]
    events: list[StartEvent]


class StartSimulationList(Record):
    """`throttler simulate`."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["StartSimulationList"]
    items: list[StartRun]


class StartCounts(Record):
    """How many gated containers are in which state."""

    downloading: int
    blocked: int
    pending: int
    starting: int
    ready: int
    failed: int


class ThrottlePolicySeen(Record):
    """A ThrottlePolicy, as its status has it; null where that says nothing."""

    name: str
    ready: bool | None
    reason: str
    message: str
    nodes_selected: int | None
    nodes_reporting: int | None
    nodes_silent: int | None
    counts: StartCounts | None
    forced: int | None
    opened: int | None
    longest_wait_seconds: int | None


class StartingContainer(Record):
    """A container that is not ready. `position` 1 is next; `until_unix_seconds` is when its state ends for sure."""

    namespace: str
    pod: str
    container: str
    state: Literal["downloading", "blocked", "pending", "starting", "ready", "failed"]
    since_unix_seconds: float | None
    start: int
    position: int | None
    forced: bool
    reason: str
    until_unix_seconds: float | None


class StartingNode(Record):
    """What the agent of a node reports. No policy: nothing is held back there; no slots: no limit."""

    name: str
    at_unix_seconds: float
    policy: str | None
    policy_generation: int
    cores: float
    slots: int | None
    counts: StartCounts
    granted: int
    forced: int
    timed_out: int
    opened: int
    containers: list[StartingContainer]
    left_out: int


class SilentAgent(Record):
    """A node whose agent does not report any more, or does not see the node's pods, with `reason`; null: it has not
    reported since this controller leads."""

    name: str
    policy: str | None
    heard_unix_seconds: float | None
    reason: str


class ThrottlerStatus(Record):
    """`throttler status`."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["ThrottlerStatus"]
    good: bool
    at_unix_seconds: float
    policies: list[ThrottlePolicySeen]
    nodes: list[StartingNode]
    silent: list[SilentAgent]
    not_seen: list[str]


class StartEnd(Record):
    """Something that would end a container's state; null: not at a time that is known."""

    text: str
    at_unix_seconds: float | None


class ContainerStart(Record):
    """A container. No state: it is not gated, or its agent was not heard. Of `ends`, whichever comes first."""

    name: str
    gated: bool
    state: Literal["downloading", "blocked", "pending", "starting", "ready", "failed"] | None
    since_unix_seconds: float | None
    position: int | None
    forced: bool
    depends_on: list[str]
    reason: str
    ends: list[StartEnd]
    kubelet: str


class ThrottlerExplanation(Record):
    """`throttler explain`. No backend: it is not gated; `slots_taken` is of its node, as `slots`."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["ThrottlerExplanation"]
    at_unix_seconds: float
    namespace: str
    pod: str
    node: str | None
    backend: Literal["file", "configmap"] | None
    agent: Literal["reports", "silent", "unheard", "unknown", "not-asked"]
    heard_unix_seconds: float | None
    policy: str | None
    slots: int | None
    slots_taken: int | None
    fail_open_after_seconds: float | None
    reasons: list[str]
    containers: list[ContainerStart]
    not_seen: list[str]


class Released(Record):
    """A pod that waited for keys of a ConfigMap, and what became of it."""

    namespace: str
    pod: str
    containers: list[str]
    config_map: str
    outcome: Literal["WouldStart", "MayStart", "Left"]
    reason: str | None


class ThrottlerRelease(Record):
    """`throttler release`."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["ThrottlerRelease"]
    yes: bool
    items: list[Released]
