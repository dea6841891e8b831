"""The Deployment that a load is: pods that only wait, allowed wherever the `restricted` pod security standard holds.

A load that cannot remove its Deployment (its process is killed, its machine is gone) leaves it to Kubernetes: a Job
without pods owns the Deployment and has a deadline, which the load moves on while it runs. After the deadline the Job
fails, is deleted by its time to live, and the garbage collector deletes what it owns. Where no Job may be created, an
annotation has the deadline, for the next load and for `uninstall`.
"""

from datetime import UTC, datetime
from typing import Any

from slack.cluster.labels import LABEL_MANAGED_BY

Json = dict[str, Any]
MAKER = "resource-slack-load"
"""Not the operator's own label: nothing of a load is a placeholder."""
ANNOTATION_RUN = "resource-slack.io/load-run"
"""Which run has made it."""
ANNOTATION_UNTIL = "resource-slack.io/load-until"
"""When a load has ended, if nobody has written a later time."""
_JOB_SUFFIX = "-deadline"
_LONGEST_NAME = 63
LABEL_INSTANCE = "app.kubernetes.io/instance"


def selector(name: str) -> str:
    """Return the label selector of a load's pods."""
    return f"{LABEL_MANAGED_BY}={MAKER},{LABEL_INSTANCE}={name}"


def until_text(unix_seconds: float) -> str:
    """Return a deadline as the annotation has it."""
    return datetime.fromtimestamp(unix_seconds, UTC).isoformat(timespec="seconds")


def is_expired(seen: Json, unix_seconds: float) -> bool:
    """Whether a load's Deployment is left over: its deadline has passed. One without a deadline never is."""
    return is_over((seen["metadata"].get("annotations") or {}).get(ANNOTATION_UNTIL, ""), unix_seconds)


def is_over(until: str, unix_seconds: float) -> bool:
    """Whether a deadline, as the annotation has it, has passed. What is no time never has."""
    try:
        return datetime.fromisoformat(until).timestamp() < unix_seconds
    except (ValueError, OverflowError):
        return False


def job_name(name: str) -> str:
    """Name the Job that has the deadline of a load."""
    return name[: _LONGEST_NAME - len(_JOB_SUFFIX)].rstrip("-") + _JOB_SUFFIX


def deadline_job(name: str, namespace: str, image: str, requests: dict[str, str], mark: str, seconds: int) -> Json:
    """Return the Job that owns a load's Deployment: it makes no pod, fails after its deadline, and goes by itself."""
    pod = _pod_spec(image, requests)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(name),
            "namespace": namespace,
            "labels": {LABEL_MANAGED_BY: MAKER},
            "annotations": {ANNOTATION_RUN: mark},
        },
        "spec": {
            "parallelism": 0,
            "completions": 1,
            "backoffLimit": 0,
            "activeDeadlineSeconds": seconds,
            "ttlSecondsAfterFinished": 0,
            "template": {"spec": {**pod, "restartPolicy": "Never"}},
        },
    }


def owned_by(manifest: Json, job: Json) -> Json:
    """Return a Deployment's manifest with a Job as its owner."""
    meta = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [owner]}}


def deployment(name: str, namespace: str, image: str, requests: dict[str, str], mark: str, until: str) -> Json:
    """Return a load's Deployment, with no pod yet; `mark` says which run it is of, `until` has its deadline.

    Its pods request and have no limits, end at once, and keep no node: no PodDisruptionBudget, no volume.
    """
    labels = {LABEL_MANAGED_BY: MAKER, LABEL_INSTANCE: name}
    annotations = {ANNOTATION_RUN: mark, ANNOTATION_UNTIL: until}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations},
        "spec": {
            "replicas": 0,
            "revisionHistoryLimit": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _pod_spec(image, requests)},
        },
    }


def _pod_spec(image: str, requests: dict[str, str]) -> Json:
    container = {
        "name": "wait",
        "image": image,
        "resources": {"requests": requests},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    return {
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65535,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def mark_of(seen: Json) -> str | None:
    """Return which run has made a Deployment."""
    return (seen["metadata"].get("annotations") or {}).get(ANNOTATION_RUN)


def refusal(seen: Json) -> str | None:
    """Return why the Deployment's pods are not all made, in the API server's words; None when they are."""
    status = seen.get("status")
    for condition in (status.get("conditions") if isinstance(status, dict) else None) or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return str(condition.get("message") or condition.get("reason") or "no reason is given")
    return None
