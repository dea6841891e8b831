"""Every document by its command, and the JSON schema that is made of it; tests hold commands to it."""

from typing import Any, Literal

import msgspec

from slack.cli.documents.audit import AUDIT_DOCUMENTS
from slack.cli.documents.demand import DemandExplanation, DemandReplay, DemandTop
from slack.cli.documents.planning import Explanation, PlanList
from slack.cli.documents.record import ApiVersion, Record
from slack.cli.documents.scorer import DecisionList, NodeScores
from slack.cli.documents.simulation import RateCurve, RatePoint, SimulationList
from slack.cli.documents.status import Status
from slack.cli.documents.throttler import (
    StartSimulationList,
    ThrottlerCheck,
    ThrottlerExplanation,
    ThrottlerRelease,
    ThrottlerStatus,
)
from slack.cluster.labels import API_VERSION


class Uninstalled(Record):
    """What became of an object; in another run without --yes it says what would."""

    kind: str
    namespace: str | None
    name: str
    outcome: Literal[
        "Deleted", "WasGone", "WouldBeDeleted", "ScaledToZero", "WouldBeScaledToZero", "Unlabelled",
        "WouldBeUnlabelled", "Kept", "Left",
    ]  # fmt: skip
    reason: str | None


class UninstallList(Record):
    """`uninstall`; `pods_left` are placeholders that were still on their way out when it stopped to wait."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["UninstallList"]
    namespace: str
    yes: bool
    pods_left: int
    items: list[Uninstalled]


class CrdOutcome(Record):
    """What became of a CustomResourceDefinition."""

    name: str
    outcome: Literal["Created", "Changed", "Unchanged", "Newer"]


class CrdUpgradeList(Record):
    """`upgrade-crds`."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["CrdUpgradeList"]
    items: list[CrdOutcome]


class Version(Record):
    """`version`."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["Version"]
    version: str
    python: str


class LoadMoment(Record):
    """What there was at a moment."""

    seconds: float
    bound: int
    waiting: int
    placeholders: int
    nodes: int


class Load(Record):
    """`load`."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["Load"]
    pods: int
    unbound: int
    instant: int
    p50_seconds: float | None
    p99_seconds: float | None
    ready: int
    ready_p50_seconds: float | None
    ready_p99_seconds: float | None
    displaced: int
    nodes_before: int
    nodes_most: int
    nodes_now: int
    nodes_gone_seconds: float | None
    waits_for: str
    notes: list[str]
    timeline: list[LoadMoment]


class WindowUse(Record):
    """What a node uses of one resource over one window."""

    window: Literal["15m", "10m", "5m"]
    type: Literal["cpu", "memory", "network", "disk"]
    average_percent: float | None
    deviation_percent: float | None


class NodeLoad(Record):
    """What a load watcher knows of a node; no verdict means that its analyser has nothing against it."""

    node: str
    age_seconds: float | None
    verdicts: list[str]
    windows: list[WindowUse]


class NodeLoadList(Record):
    """`load-watcher show`."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["NodeLoadList"]
    source: str
    window_end_unix_seconds: int
    error: str | None
    unmatched: list[str]
    items: list[NodeLoad]


class NamedOnly(Record):
    """The metadata of an object that no server has seen."""

    name: str


class MigratedPolicy(Record):
    """A SlackPolicy as `kubectl apply` takes it; its spec is held to the CRD."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["SlackPolicy"]
    metadata: NamedOnly
    spec: dict[str, Any]


class MigratedList(Record):
    """Several of them, as `kubectl get -o json` prints several."""

    api_version: Literal["v1"] = msgspec.field(name="apiVersion")
    kind: Literal["List"]
    items: list[MigratedPolicy]


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


DOCUMENTS: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "plan": (PlanList,),
    "explain": (Explanation,),
    "status": (Status,),
    "simulate": (SimulationList, RateCurve),
    "tune": (Tuning,),
    "load": (Load,),
    "score": (NodeScores, DecisionList),
    "load-watcher": (NodeLoadList,),
    "migrate": (MigratedPolicy, MigratedList),
    "uninstall": (UninstallList,),
    "upgrade-crds": (CrdUpgradeList,),
    "record": (Recording,),
    "version": (Version,),
    "demand-top": (DemandTop,),
    "demand-explain": (DemandExplanation,),
    "demand-replay": (DemandReplay,),
    "throttler-status": (ThrottlerStatus,),
    "throttler-explain": (ThrottlerExplanation,),
    "throttler-check": (ThrottlerCheck,),
    "throttler-simulate": (StartSimulationList,),
    "throttler-release": (ThrottlerRelease,),
    **AUDIT_DOCUMENTS,
}
"""By command, what it prints."""
_CALLED = {
    "score": "scorer score",
    "load-watcher": "load-watcher show",
    "audit-explain": "audit explain",
    "audit-kernel": "audit kernel",
    "demand-top": "demand top",
    "demand-explain": "demand explain",
    "demand-replay": "demand replay",
    "throttler-status": "throttler status",
    "throttler-explain": "throttler explain",
    "throttler-check": "throttler check",
    "throttler-simulate": "throttler simulate",
    "throttler-release": "throttler release",
}
"""Commands of several words."""


def schema(command: str) -> dict[str, Any]:
    """Return the JSON schema of what a command prints for machines."""
    kinds = DOCUMENTS[command]
    found, definitions = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    body = found[0] if len(found) == 1 else {"oneOf": list(found)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://resource-slack.io/schemas/{API_VERSION.partition('/')[2]}/{command}.json",
        "title": f"resource-slack {_CALLED.get(command, command)} -o json",
        **body,
        "$defs": definitions,
    }
