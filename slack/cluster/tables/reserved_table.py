"""Workload objects that are annotated: reserved for (S7) or excluded (R6). All others are forgotten at once.

ReplicaSets of Deployments and Jobs of CronJobs are passed over: their controllers copy annotations down, and the
owner speaks for them. Owners of other API groups are not watched; what they make speaks for them (`speaking`). Owned
by `ClusterColumns`.
"""

from collections.abc import Iterable
from typing import NamedTuple

from slack.cluster import wire
from slack.cluster.freshness import NO_VERSION, version_number
from slack.cluster.identity import SHORT_KINDS, is_excluded, workload_of_owner
from slack.cluster.labels import ANNOTATION_RESERVE
from slack.cluster.requests import effective_requests
from slack.cluster.tables.interning import LONGEST_RESERVE, ConstraintTable, RequestTable, vector_of

WorkloadKey = tuple[str, str, str]
"""(namespace, short kind, name), as `identity.workload_of` gives it for pods."""

_COPIES = {("ReplicaSet", "Deployment"), ("Job", "CronJob")}


class ReservedRecord(NamedTuple):
    """What of an annotated workload is kept."""

    workload: WorkloadKey
    """What its pods belong to: a Rollout, where the object is one of its ReplicaSets."""
    uid: str
    version: int
    reserve: str
    excluded: bool
    replicas: int
    requests: int
    constraints: int
    labels: tuple[tuple[str, str], ...]


class ReservedTable:
    """Annotated workload objects, by their namespace, short kind and name."""

    def __init__(self, requests: RequestTable, constraints: ConstraintTable) -> None:
        self._requests = requests
        self._constraints = constraints
        self.records: dict[WorkloadKey, ReservedRecord] = {}
        self._seen: dict[str, set[WorkloadKey]] = {}
        self.version = 0

    def apply(self, event: str, kind: str, item: wire.Workload) -> bool:
        """Apply one event; return whether it was news.

        Raises:
            ValueError: when a quantity or a scheduling constraint of the template cannot be read.
        """
        metadata = item.metadata
        key = (metadata.namespace or "", SHORT_KINDS[kind], metadata.name)
        seen = self._seen.get(key[1])
        held = self.records.get(key)
        uid, version = metadata.uid or "", version_number(metadata.resource_version)
        if event == "DELETED":
            if held is None or (uid and held.uid and uid != held.uid):
                return False
            return self._drop(key)
        if held is not None and version != NO_VERSION and version < held.version and (seen is None or key in seen):
            return False
        if seen is not None:
            seen.add(key)
        owner = metadata.controller()
        reserve = metadata.annotation(ANNOTATION_RESERVE)
        if (owner is not None and (kind, owner.kind) in _COPIES) or not (reserve or is_excluded(metadata)):
            return self._drop(key) if held is not None else False
        return self._put(key, kind, item, uid, version)

    def begin(self, kind: str) -> None:
        """Start a re-list of one kind."""
        self._seen[SHORT_KINDS[kind]] = set()

    def keep(self, kind: str, namespace: str, name: str) -> None:
        """Keep a workload as it is known, although the re-list cannot show what it is now."""
        short = SHORT_KINDS[kind]
        if (seen := self._seen.get(short)) is not None:
            seen.add((namespace, short, name))

    def end(self, kind: str) -> bool:
        """Drop what the re-list did not show; return whether anything was dropped."""
        short = SHORT_KINDS[kind]
        seen = self._seen.pop(short, None)
        gone = [key for key in self.records if seen is not None and key[1] == short and key not in seen]
        for key in gone:
            self._drop(key)
        return bool(gone)

    def _put(self, key: WorkloadKey, kind: str, item: wire.Workload, uid: str, version: int) -> bool:
        replicas, template = _template(item)
        spec = (template.spec if template else None) or wire.PodSpec()
        amounts = vector_of(effective_requests(spec))
        constraints = self._constraints.intern_spec(spec)
        requests = self._requests.intern(amounts)
        labels = (template.metadata.labels if template and template.metadata else None) or {}
        record = ReservedRecord(
            workload_of_owner(kind, item.metadata),
            uid,
            version,
            item.metadata.annotation(ANNOTATION_RESERVE)[:LONGEST_RESERVE],
            is_excluded(item.metadata),
            replicas,
            requests,
            constraints,
            tuple(sorted(labels.items())),
        )
        self._requests.retain(requests)
        self._constraints.retain(constraints)
        held = self.records.get(key)
        if held is not None:
            self._release(held)
        self.records[key] = record
        changed = held is None or (held.workload, *held[3:]) != (record.workload, *record[3:])
        self.version += changed
        return changed

    def _drop(self, key: WorkloadKey) -> bool:
        self._release(self.records.pop(key))
        self.version += 1
        return True

    def _release(self, record: ReservedRecord) -> None:
        self._requests.release(record.requests)
        self._constraints.release(record.constraints)


def speaking(records: Iterable[tuple[WorkloadKey, ReservedRecord]]) -> list[tuple[WorkloadKey, ReservedRecord]]:
    """Return one record for each workload, sorted by workload.

    A Rollout has a ReplicaSet for each revision, each with a copy of its annotations. Order of precedence:

    1. more replicas: the stable revision, with the pods;
    2. the higher resourceVersion;
    3. the name of the object.
    """
    found: dict[WorkloadKey, tuple[WorkloadKey, ReservedRecord]] = {}
    for key, record in sorted(records, key=lambda item: (item[1].replicas, item[1].version, item[0])):
        found[record.workload] = (key, record)
    return [(workload, record) for workload, (_, record) in sorted(found.items())]


def _template(item: wire.Workload) -> tuple[int, wire.PodTemplate | None]:
    """Return how many pods the object asks for, and their template; the API's default is one pod."""
    if isinstance(item, wire.CronJob):
        job = item.spec.job_template if item.spec else None
        spec: wire.JobSpec | None = job.spec if job else None
    elif isinstance(item, wire.Job):
        spec = item.spec
    else:
        wanted = item.spec
        replicas = 1 if wanted is None or wanted.replicas is None else wanted.replicas
        return replicas, wanted.template if wanted else None
    return 1 if spec is None or spec.parallelism is None else spec.parallelism, spec.template if spec else None
