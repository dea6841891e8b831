"""Whose pod it is: its role, and the workload that people would name.

Only the pod itself is read, never its owners' objects: `shop/deploy/api` follows from the ReplicaSet's name less the
pod-template-hash (as the Deployment controller forms it), `ops/cronjob/nightly` from the Job's name less the schedule
suffix (cronjob/utils.go getJobName: minutes, formerly seconds, since the epoch).
"""

import re

from slack.cluster.labels import (
    ANNOTATION_DELETION_COST,
    ANNOTATION_EXCLUDE,
    ANNOTATION_STATIC_POD,
    LABEL_PLACEHOLDER,
    LABEL_SHAPE,
    LABEL_TEMPLATE_HASH,
)
from slack.cluster.wire import Metadata, Pod

REAL, DAEMON, PLACEHOLDER = 1, 2, 3
"""Roles of pods; DAEMON stands for static (mirror) pods too: neither can be displaced or moved."""

SHORT_KINDS = {
    "Deployment": "deploy",
    "ReplicaSet": "rs",
    "StatefulSet": "sts",
    "Job": "job",
    "CronJob": "cronjob",
    "DaemonSet": "ds",
    "ActivationPool": "actpool",
}

_SCHEDULED = re.compile(r"(?P<name>.+)-(?P<time>[0-9]{8,10})")
_FIRST_SCHEDULE = 25_000_000
"""Minutes: July 2017. A job called report-20240101 is below it, and so no CronJob's."""


def role_of(metadata: Metadata, placeholder_namespace: str) -> int:
    """Return REAL, DAEMON (static pods included) or PLACEHOLDER."""
    if metadata.namespace == placeholder_namespace and (
        metadata.label(LABEL_PLACEHOLDER) == "true" or metadata.label(LABEL_SHAPE)  # one may have been taken away
    ):
        return PLACEHOLDER
    if metadata.annotations and ANNOTATION_STATIC_POD in metadata.annotations:
        return DAEMON
    owner = metadata.controller()
    return DAEMON if owner is not None and owner.kind in ("DaemonSet", "Node") else REAL


def workload_of(metadata: Metadata) -> tuple[str, str, str]:
    """Return (namespace, short kind, name) of what a pod belongs to; a pod without an owner is its own workload."""
    namespace = metadata.namespace or ""
    owner = metadata.controller()
    if owner is None:
        return namespace, "pod", metadata.name
    if owner.kind == "ReplicaSet":
        suffix = "-" + metadata.label(LABEL_TEMPLATE_HASH)
        if len(suffix) > 1 and owner.name.endswith(suffix) and len(owner.name) > len(suffix):
            return namespace, "deploy", owner.name[: -len(suffix)]
    elif owner.kind == "Job" and (cron_job := cron_job_of(owner.name)) is not None:
        return namespace, "cronjob", cron_job
    return namespace, SHORT_KINDS.get(owner.kind) or owner.kind.lower(), owner.name


def cron_job_of(job: str) -> str | None:
    """Return the name of the CronJob that has made a Job, None where nobody's schedule has named it."""
    match = _SCHEDULED.fullmatch(job)
    return match["name"] if match and int(match["time"]) >= _FIRST_SCHEDULE else None


def is_excluded(metadata: Metadata) -> bool:
    """Say whether the object asks to be left out of the cover (R6)."""
    return metadata.annotation(ANNOTATION_EXCLUDE) == "true"


def deletion_cost(metadata: Metadata) -> int:
    """Return the pod-deletion-cost, 0 where it is absent or no integer (as the ReplicaSet controller takes it)."""
    try:
        return int(metadata.annotation(ANNOTATION_DELETION_COST) or 0)
    except ValueError:
        return 0


def owner_name(pod: Pod) -> str:
    """Give the name of the ReplicaSet that controls a pod."""
    owner = pod.metadata.controller()
    return owner.name if owner is not None else ""
