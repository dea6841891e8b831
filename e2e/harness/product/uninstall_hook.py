"""The Job that `helm uninstall` waits for, played: no container runs here, so its command is a process started here."""

from typing import Any

from e2e.harness.api import Api, Json
from e2e.harness.cluster import kwok
from e2e.harness.objects import wait_until
from e2e.harness.product.helm import NAMESPACE

HOOK = "resource-slack-uninstall"
"""The Job's name, and its service account's."""
JOB = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{HOOK}"


def arguments(workload: Json) -> list[str]:
    """Return the arguments of a workload's one container."""
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    found: list[Any] = container["args"]
    return [str(argument) for argument in found]


def complete(api: Api, job: Json) -> None:
    """Let kwok end the Job's pod, as its container's exit code 0 would."""
    selector = f"batch.kubernetes.io/job-name={job['metadata']['name']}"
    pods_path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    (pod,) = wait_until(lambda: api.items(pods_path, labelSelector=selector), 20, "the hook's pod")
    api.patch(f"{pods_path}/{pod['metadata']['name']}", {"metadata": {"annotations": {kwok.RUN_SECONDS: "0"}}})
