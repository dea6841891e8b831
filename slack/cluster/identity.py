"""Whose pod it is: its role, and the workload that people would name.

Only the pod itself is read, never its owners' objects: `shop/deploy/api` follows from the ReplicaSet's name less the
pod-template-hash (as the Deployment controller forms it), `ops/cronjob/nightly` from the Job's name less the schedule
suffix (cronjob/utils.go getJobName: minutes, formerly seconds, since the epoch). Controllers of other projects write
labels that name what the user has made, so that a new revision or run has the same name as the one before.
"""

import re

from slack.cluster.labels import (
    ANNOTATION_DAEMON_POD,
    ANNOTATION_DELETION_COST,
    ANNOTATION_EXCLUDE,
    ANNOTATION_STATIC_POD,
    LABEL_DEPLOYMENT_CONFIG,
    LABEL_JOB_SET,
    LABEL_KNATIVE_SERVICE,
    LABEL_LEADER_WORKER_SET,
    LABEL_PLACEHOLDER,
    LABEL_RAY_ORIGIN,
    LABEL_RAY_SERVE,
    LABEL_ROLLOUT_HASH,
    LABEL_RUNNER_SCALE_SET,
    LABEL_SHAPE,
    LABEL_SPARK_APPLICATION,
    LABEL_SPARK_SCHEDULE,
    LABEL_TEKTON_PIPELINE,
    LABEL_TEKTON_TASK,
    LABEL_TEMPLATE_HASH,
)
from slack.cluster.wire import Metadata, Pod

REAL, DAEMON, PLACEHOLDER = 1, 2, 3
"""Roles of pods; DAEMON stands for static (mirror) pods too: neither can be displaced or moved.

Cluster Autoscaler takes pods with `ANNOTATION_DAEMON_POD` for a DaemonSet's, whoever controls them; so does this.
"""

SHORT_KINDS = {
    "Deployment": "deploy",
    "ReplicaSet": "rs",
    "StatefulSet": "sts",
    "Job": "job",
    "CronJob": "cronjob",
    "DaemonSet": "ds",
    "ActivationPool": "actpool",
}

_OF_SPARK = ((LABEL_SPARK_SCHEDULE, "scheduledsparkapplication"), (LABEL_SPARK_APPLICATION, "sparkapplication"))
_NAMED_BY: dict[str, tuple[tuple[str, str], ...]] = {
    "ReplicaSet": ((LABEL_KNATIVE_SERVICE, "ksvc"),),
    "Job": ((LABEL_JOB_SET, "jobset"),),
    "StatefulSet": ((LABEL_LEADER_WORKER_SET, "lws"),),
    "SparkApplication": _OF_SPARK,
    "Pod": _OF_SPARK,
    "RayCluster": ((LABEL_RAY_ORIGIN, "raycluster"),),
    "ReplicationController": ((LABEL_DEPLOYMENT_CONFIG, "dc"),),
    "EphemeralRunner": ((LABEL_RUNNER_SCALE_SET, "autoscalingrunnerset"),),
    "TaskRun": ((LABEL_TEKTON_PIPELINE, "pipeline"), (LABEL_TEKTON_TASK, "task")),
}
"""By the controller's kind: labels that name what is above it, the first that a pod has, and the kind of that.

A Spark executor is controlled by its driver's pod.
"""
_RAY_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]{5}"
"""Letters and digits of k8s.io/apimachinery/pkg/util/rand."""
_RAY_CLUSTER = re.compile(rf"(?P<name>.+)-raycluster-{_RAY_RANDOM}")
"""How KubeRay names the RayCluster of a RayService or RayJob (utils.GenerateRayClusterName); each update makes another.
"""
_RAY_SERVICE = re.compile(rf"(?P<name>.+)-{_RAY_RANDOM}")
"""The same from KubeRay 1.4 on, as documented (rayservice-sample-cxm7t). A user's own RayCluster may be called so, too;
only its label tells a pod of a RayService."""

_SCHEDULED = re.compile(r"(?P<name>.+)-(?P<time>[0-9]{8,10})")
_FIRST_SCHEDULE = 25_000_000
"""Minutes: July 2017. A job called report-20240101 is below it, and so no CronJob's."""


def role_of(metadata: Metadata, placeholder_namespace: str) -> int:
    """Return REAL, DAEMON (static pods included) or PLACEHOLDER."""
    if metadata.namespace == placeholder_namespace and (
        metadata.label(LABEL_PLACEHOLDER) == "true" or metadata.label(LABEL_SHAPE)  # one may have been taken away
    ):
        return PLACEHOLDER
    if metadata.annotations and (
        ANNOTATION_STATIC_POD in metadata.annotations or metadata.annotations.get(ANNOTATION_DAEMON_POD) == "true"
    ):
        return DAEMON
    owner = metadata.controller()
    return DAEMON if owner is not None and owner.kind in ("DaemonSet", "Node") else REAL


def workload_of(metadata: Metadata) -> tuple[str, str, str]:
    """Return (namespace, short kind, name) of what a pod belongs to; a pod without an owner is its own workload."""
    namespace = metadata.namespace or ""
    owner = metadata.controller()
    if owner is None:
        return namespace, "pod", metadata.name
    for label, kind in _NAMED_BY.get(owner.kind, ()):
        if name := metadata.label(label):
            return namespace, kind, name
    if owner.kind == "ReplicaSet":
        for label, kind in ((LABEL_TEMPLATE_HASH, "deploy"), (LABEL_ROLLOUT_HASH, "rollout")):
            revision = metadata.label(label)
            above = owner.name.removesuffix(f"-{revision}")
            if revision and above and above != owner.name:
                return namespace, kind, above
    elif owner.kind == "Job" and (cron_job := cron_job_of(owner.name)) is not None:
        return namespace, "cronjob", cron_job
    elif owner.kind == "RayCluster":
        match = _RAY_CLUSTER.fullmatch(owner.name)
        if match is None and metadata.label(LABEL_RAY_SERVE):
            match = _RAY_SERVICE.fullmatch(owner.name)
        return namespace, "raycluster", match["name"] if match else owner.name
    return namespace, SHORT_KINDS.get(owner.kind) or owner.kind.lower(), owner.name


def workload_of_owner(kind: str, metadata: Metadata) -> tuple[str, str, str]:
    """Return (namespace, short kind, name) that `workload_of` gives to the pods of an object, such as a ReplicaSet.

    Controllers of other projects are not watched. What they make carries their annotations, and the labels of its pods.
    """
    namespace, above = metadata.namespace or "", metadata.controller()
    if above is not None:
        for label, short in _NAMED_BY.get("ReplicaSet" if kind == "Deployment" else kind, ()):
            if name := metadata.label(label):
                return namespace, short, name
        if kind == "ReplicaSet" and above.kind == "Rollout":
            return namespace, "rollout", above.name
    if kind == "Job" and (cron_job := cron_job_of(metadata.name)) is not None:
        return namespace, "cronjob", cron_job
    return namespace, SHORT_KINDS.get(kind) or kind.lower(), metadata.name


def cron_job_of(job: str) -> str | None:
    """Return the name of the CronJob that has made a Job, None where nobody's schedule has named it."""
    match = _SCHEDULED.fullmatch(job)
    return match["name"] if match and int(match["time"]) >= _FIRST_SCHEDULE else None


def is_excluded(metadata: Metadata) -> bool:
    """Say whether the object asks to be left out of the cover (R6)."""
    return metadata.annotation(ANNOTATION_EXCLUDE) == "true"


def deletion_cost(metadata: Metadata) -> int:
    """Return the pod-deletion-cost, 0 where it is absent or no int32 (as the ReplicaSet controller takes it)."""
    try:
        cost = int(metadata.annotation(ANNOTATION_DELETION_COST) or 0)
    except ValueError:
        return 0
    return cost if -(1 << 31) <= cost < 1 << 31 else 0


def owner_name(pod: Pod) -> str:
    """Give the name of the ReplicaSet that controls a pod."""
    owner = pod.metadata.controller()
    return owner.name if owner is not None else ""
