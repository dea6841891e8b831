"""The Deployment that a load is: pods that only wait, allowed wherever the `restricted` pod security standard holds."""

from typing import Any

from slack.cluster.labels import LABEL_MANAGED_BY

Json = dict[str, Any]
MAKER = "resource-slack-load"
"""Not the operator's own label: nothing of a load is a placeholder."""
ANNOTATION_RUN = "resource-slack.io/load-run"
"""Which run has made it."""
LABEL_INSTANCE = "app.kubernetes.io/instance"


def selector(name: str) -> str:
    """Return the label selector of a load's pods."""
    return f"{LABEL_MANAGED_BY}={MAKER},{LABEL_INSTANCE}={name}"


def deployment(name: str, namespace: str, image: str, requests: dict[str, str], mark: str) -> Json:
    """Return a load's Deployment, with no pod yet; `mark` says which run it is of.

    Its pods request and have no limits, end at once, and keep no node: no PodDisruptionBudget, no volume.
    """
    labels = {LABEL_MANAGED_BY: MAKER, LABEL_INSTANCE: name}
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
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": {ANNOTATION_RUN: mark}},
        "spec": {
            "replicas": 0,
            "revisionHistoryLimit": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [container],
                    "terminationGracePeriodSeconds": 0,
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": 65535,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                },
            },
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
