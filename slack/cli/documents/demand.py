"""What `demand` and its subcommands print for programs."""

from typing import Any, Literal

import msgspec

from slack.cli.documents.record import ApiVersion, Record


class PoolRow(Record):
    """One ActivationPool; null where its status does not say. `starving`: messages wait, and it has no container."""

    namespace: str
    name: str
    wanted: int | None
    ready: int | None
    creating: int | None
    unmet: int | None
    queued: int | None
    in_flight: int | None
    oldest_ms: int | None
    arrivals: float | None
    completions: float | None
    throttled: bool
    starving: bool
    ready_reason: str
    problem: str


class DemandTop(Record):
    """`demand top`."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["DemandTop"]
    items: list[PoolRow]


class DemandExplanation(Record):
    """`demand explain`. `decision` and `throttle` are those of the pool's status."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["DemandExplanation"]
    pool: PoolRow
    decision: dict[str, Any] | None
    throttle: dict[str, Any] | None
    conditions: list[dict[str, Any]]
    text: list[str]


class ReplayedPool(Record):
    """What a run came to for one pool; `unmet` and `queued` are the most at any tick."""

    namespace: str
    name: str
    created: int
    ended: int
    refused_ticks: int
    unmet: int
    queued: int


class DemandReplay(Record):
    """`demand replay`. `differing_ticks`: at which the rules answer otherwise than the recording has it."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["DemandReplay"]
    ticks: int
    seconds: float
    guards: str
    created: int
    ended: dict[str, int]
    refused_ticks: int
    differing_ticks: int
    items: list[ReplayedPool]
