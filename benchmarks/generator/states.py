"""One pod as a value: which it is, where it stands, how far it has come. Its text follows from that alone."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum

from benchmarks.generator.workloads import Kind, Workload

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Of generated names: no vowels and nothing that looks alike."""
_SUFFIXES = len(_LETTERS) ** 5
_STEP = 5_000_011
"""Prime to the number of suffixes: no two pods of a workload get the same."""
_LAST_MINUTE = 29_999_990
"""Of CronJobs' schedules, in minutes since the epoch."""


class Stage(IntEnum):
    """What the API server would show of a pod's life."""

    CREATED = 0
    UNSCHEDULABLE = 1
    BOUND = 2
    STARTING = 3
    RUNNING = 4
    UNREADY = 5
    SUCCEEDED = 6
    TERMINATING = 7
    ENDED = 8
    """Terminating with nothing left to wait for: the state that DELETED shows."""


@dataclass(frozen=True, slots=True)
class PodState:
    """One pod. `changed` and `created` are Unix seconds; `ended` counts namesakes (a StatefulSet's) before it."""

    workload: Workload
    ordinal: int
    node: int
    stage: Stage
    version: int
    created: int
    changed: int
    ended: int = 0


def digest(*parts: object) -> bytes:
    """Return 32 bytes that look random and follow from the parts."""
    return hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=32).digest()


def uid(data: bytes) -> str:
    """Return a UUID of version 4 out of 16 bytes."""
    text = data[:16].hex()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:32]}"


def timestamp(seconds: float) -> str:
    """Return metav1.Time's text."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def suffix(number: int) -> str:
    """Return five characters, as generateName appends them."""
    letters = []
    for _ in range(5):
        number, place = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[place])
    return "".join(letters)


def template_hash(workload: Workload, old: bool = False) -> str:
    """Return a pod-template-hash; workloads that are being rolled out have an old one too."""
    data = digest("template", workload.name, old)
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in data[:9])


def is_old_revision(workload: Workload, ordinal: int) -> bool:
    """Say whether the pod is still of the former ReplicaSet: in a tenth of the Deployments, a third of the pods."""
    return workload.kind is Kind.DEPLOYMENT and workload.number % 10 == 3 and ordinal < workload.replicas // 3


def owner_name(workload: Workload, ordinal: int) -> str:
    """Return the name of the controlling object, as far as the pod's own name begins with it."""
    if workload.kind is Kind.DEPLOYMENT:
        return f"{workload.name}-{template_hash(workload, is_old_revision(workload, ordinal))}"
    if workload.kind is Kind.CRON_JOB:
        return f"{workload.name}-{_LAST_MINUTE - workload.replicas + ordinal + 1}"
    return workload.name


def pod_name(workload: Workload, ordinal: int) -> str:
    """Return metadata.name."""
    if workload.kind is Kind.BARE:
        return workload.name
    if workload.kind is Kind.STATEFUL_SET:
        return f"{workload.name}-{ordinal}"
    return f"{owner_name(workload, ordinal)}-{suffix((workload.number * 7919 + ordinal * _STEP) % _SUFFIXES)}"
