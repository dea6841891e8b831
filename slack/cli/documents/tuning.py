"""What `tune` prints, and `record`, which writes the trace that it plays."""

from typing import Any, Literal

import msgspec

from slack.cli.documents.record import ApiVersion, Record
from slack.cli.documents.simulation import RatePoint


class Tuning(Record):
    """`tune`; `policies` are SlackPolicies, as Kubernetes has them."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["Tuning"]
    instant_start: float
    seeds: list[int]
    currency: str
    reached: bool
    chosen: RatePoint | None
    surer: RatePoint | None
    curve: list[RatePoint]
    given_up: list[float]
    policies: list[dict[str, Any]]
    left_out_pods: int


class Recording(Record):
    """`record`: what the file holds; `complete` is false where a server failed before the end."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["Recording"]
    file: str
    pods: int
    nodes: int
    recorded_seconds: float
    complete: bool
    notes: list[str]
