"""Every document by its command, and the JSON schema that is made of it; tests hold commands to it."""

from typing import Any

import msgspec

from slack.cli.documents.audit import AUDIT_DOCUMENTS
from slack.cli.documents.demand import DemandExplanation, DemandReplay, DemandTop
from slack.cli.documents.installation import UninstallList, Version
from slack.cli.documents.load import Load
from slack.cli.documents.loadwatcher import NodeLoadList
from slack.cli.documents.migration import MigratedList, MigratedPolicy
from slack.cli.documents.planning import Explanation, PlanList
from slack.cli.documents.scorer import DecisionList, NodeScores
from slack.cli.documents.simulation import RateCurve, SimulationList
from slack.cli.documents.status import Status
from slack.cli.documents.throttler import (
    StartSimulationList,
    ThrottlerCheck,
    ThrottlerExplanation,
    ThrottlerRelease,
    ThrottlerStatus,
)
from slack.cli.documents.tuning import Recording, Tuning
from slack.cluster.labels import API_VERSION

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
