"""What the API server's audit log tells of a burst: when pods were made and bound, and who deleted placeholders.

Objects' own timestamps have whole seconds; the log's have microseconds, and reading it costs the cluster nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from e2e.harness.cluster.audit_log import AuditEntry
from e2e.harness.product.operator import NAMESPACE, USER

PODS_NAMESPACE = "default"
SCHEDULER = "system:kube-scheduler"
KUBELETS = "kwok"
"""It carries out what somebody else has asked for, at times before the API server does."""
REPLICA_SETS = "system:serviceaccount:kube-system:replicaset-controller"
RULE: dict[str, Any] = {
    "level": "RequestResponse",  # a pod that its owner makes gets its name from the server
    "verbs": ["create"],
    "namespaces": [PODS_NAMESPACE],
    "resources": [{"group": "", "resources": ["pods"]}],
    "omitManagedFields": True,
}


@dataclass(frozen=True, slots=True)
class Record:
    """One burst, by the log."""

    created: dict[str, float]
    """When the request for each pod came, by its name."""
    bound: dict[str, float]
    """When the scheduler's binding was answered."""
    deleted: Mapping[str, str]
    """Who asked for a placeholder to go, by its name."""
    made: tuple[float, ...]
    """When placeholders were made."""

    @property
    def waits(self) -> list[float]:
        """Return seconds from creation to binding, sorted."""
        return sorted(max(at - self.created[name], 0.0) for name, at in self.bound.items() if name in self.created)

    @property
    def unbound(self) -> int:
        """How many pods were made and not bound."""
        return len(self.created.keys() - self.bound.keys())

    @property
    def made_anew(self) -> int:
        """How many placeholders were made before the last pod was bound."""
        last = max(self.bound.values(), default=0.0)
        return sum(at < last for at in self.made)


def read(entries: Iterable[AuditEntry]) -> Record:
    """Read the entries since just before a burst; pods of the burst are all that are made in their namespace."""
    created: dict[str, float] = {}
    bound: dict[str, float] = {}
    asked: dict[str, str] = {}
    gone: set[str] = set()
    made: list[float] = []
    for entry in sorted(entries, key=lambda entry: entry.time):
        at = (entry.verb, entry.resource, entry.namespace)
        if at == ("delete", "pods", NAMESPACE) and entry.user != KUBELETS:
            asked.setdefault(entry.name, entry.user)  # several may ask: whoever came first decided it
        if not 200 <= entry.code < 300 or entry.dry_run:
            continue
        if at == ("create", "pods", PODS_NAMESPACE):
            created[entry.name] = _seconds(entry.time)
        elif at == ("create", "pods/binding", PODS_NAMESPACE):
            bound[entry.name] = _seconds(entry.answered)
        elif at == ("delete", "pods", NAMESPACE):
            gone.add(entry.name)
        elif at == ("create", "pods", NAMESPACE):
            made.append(_seconds(entry.answered))
    return Record(created, bound, {name: asked.get(name, KUBELETS) for name in gone}, tuple(made))


def by_whom(deleted: Mapping[str, str]) -> tuple[int, int, int]:
    """Return how many placeholders scheduler, operator and ReplicaSet controller deleted.

    Raises:
        ValueError: somebody else did.
    """
    counts = Counter(deleted.values())
    if others := counts.keys() - {SCHEDULER, USER, REPLICA_SETS}:
        raise ValueError(f"placeholders were deleted by {', '.join(sorted(others))}")
    return counts[SCHEDULER], counts[USER], counts[REPLICA_SETS]


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
