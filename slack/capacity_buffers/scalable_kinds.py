"""The kinds that a scalableRef may name: those of Kubernetes, and those that a user lists."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SCALABLE_EXAMPLE = '[{"apiGroup": "argoproj.io", "version": "v1alpha1", "kind": "Rollout", "resource": "rollouts"}]'


@dataclass(frozen=True, slots=True)
class ScalableKind:
    """How objects of a kind are read."""

    api_version: str
    plural: str
    has_template: bool = False
    """Whether they are read whole, as their template is where all workloads have it; else by /scale."""
    is_watched: bool = False


BUILT_IN_KINDS: Mapping[tuple[str, str], ScalableKind] = {
    ("apps", "Deployment"): ScalableKind("apps/v1", "deployments", has_template=True, is_watched=True),
    ("apps", "ReplicaSet"): ScalableKind("apps/v1", "replicasets", has_template=True, is_watched=True),
    ("apps", "StatefulSet"): ScalableKind("apps/v1", "statefulsets", has_template=True, is_watched=True),
    ("batch", "Job"): ScalableKind("batch/v1", "jobs", has_template=True, is_watched=True),
    ("", "ReplicationController"): ScalableKind("v1", "replicationcontrollers", has_template=True),
}
SCALABLE_GROUPS = {"Deployment": "apps", "ReplicaSet": "apps", "StatefulSet": "apps", "Job": "batch"}
"""Of a reference that names none, as Karpenter takes it."""


def parse_scalable_kinds(rows: Sequence[Any]) -> dict[tuple[str, str], ScalableKind]:
    """Read the kinds that a user lists, each with apiGroup, version, kind and resource.

    Raises:
        ValueError: naming what is wrong.
    """
    found = {}
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise ValueError(f"[{number}]: expected apiGroup, version, kind and resource, found {row!r}")
        for name in ("apiGroup", "version", "kind", "resource"):
            if not isinstance(row.get(name), str) or not row[name]:
                raise ValueError(f"[{number}].{name}: expected a text, such as in {SCALABLE_EXAMPLE}")
        group, version = row["apiGroup"], row["version"]
        found[group, row["kind"]] = ScalableKind(f"{group}/{version}", row["resource"])
    return found
