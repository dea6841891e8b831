"""Takes away what a test made, so that one cluster serves a whole session.

What is there when a test begins stays; what came since goes: our custom resources first (their controller must not make
pods anew), then workloads, pods, nodes and cluster-scoped odds and ends. Finalizers are cut: nobody is left to act on
them. Namespaces are emptied and finalized here as well: their controller takes five seconds before it begins.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from e2e.harness.api import Api, ApiError, Json
from e2e.harness.objects import wait_until

# In the order of deletion. Kinds that this cluster does not serve are passed over.
_COLLECTIONS = (
    "/apis/resource-slack.io/v1alpha1/slackpolicies",
    "/apis/autoscaling/v2/horizontalpodautoscalers",
    "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers",
    "/apis/resource-slack.io/v1alpha1/slackscales",
    "/apis/resource-slack.io/v1alpha1/slackhistories",
    "/apis/resource-slack.io/v1alpha1/cpuauditpolicies",
    "/apis/resource-slack.io/v1alpha1/throttlepolicies",
    "/apis/resource-slack.io/v1alpha1/activationpools",
    "/apis/resource-slack.io/v1alpha1/activationquotas",
    "/apis/karpenter.sh/v1/nodepools",
    "/apis/karpenter.sh/v1/nodeclaims",
    "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/replicasets",
    "/apis/batch/v1/cronjobs",
    "/apis/batch/v1/jobs",
    "/apis/policy/v1/poddisruptionbudgets",
    "/api/v1/podtemplates",
    "/api/v1/resourcequotas",
    "/api/v1/limitranges",
    "/api/v1/pods",
    "/api/v1/nodes",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/api/v1/namespaces",
)


@contextmanager
def cleaned(api: Api) -> Iterator[None]:
    """Run a test, then delete what came while it ran."""
    before = {entry["metadata"]["uid"] for path in _served(api) for entry in api.items(path)}
    try:
        yield
    finally:
        clean(api, before)


def clean(api: Api, keep: set[str], timeout: float = 180) -> None:
    """Delete everything in the known collections whose uid is not in `keep`, and wait until it is gone."""

    def remaining() -> list[str]:
        left = [
            (path, entry)
            for path in _served(api)
            for entry in api.items(path)
            if entry["metadata"]["uid"] not in keep and not _of_a_kept_daemon_set(entry, keep)
        ]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda found: _remove(api, *found), left))
        return [f"{path.rpartition('/')[2]}/{entry['metadata']['name']}" for path, entry in left]

    wait_until(lambda: not remaining(), timeout, "the test's objects to be gone", state=remaining, every=0.2)


def _of_a_kept_daemon_set(entry: Json, keep: set[str]) -> bool:
    """Say whether a pod would only be made again: kind's cluster rolls its own DaemonSets out while tests run."""
    owners = entry["metadata"].get("ownerReferences") or []
    return any(owner["kind"] == "DaemonSet" and owner["uid"] in keep for owner in owners)


def _remove(api: Api, collection: str, entry: Json) -> None:
    metadata = entry["metadata"]
    prefix, _, plural = collection.rpartition("/")
    if "namespace" in metadata:
        prefix += f"/namespaces/{metadata['namespace']}"
    path = f"{prefix}/{plural}/{metadata['name']}"
    if plural == "namespaces" and "deletionTimestamp" in metadata:
        _finish(api, metadata["name"])
        return
    # A pod that its owner's end deletes with a grace waits for a kubelet whose node may be gone by now.
    if "deletionTimestamp" not in metadata or metadata.get("deletionGracePeriodSeconds"):
        api.delete(path, grace_seconds=0)
    if metadata.get("finalizers"):
        try:
            api.patch(path, {"metadata": {"finalizers": None}})
        except ApiError as error:
            if error.status != 404:
                raise


def _finish(api: Api, namespace: str) -> None:
    """Let a namespace that is being deleted go, once nothing is left in it; else delete what is."""
    with ThreadPoolExecutor(8) as pool:
        if any(pool.map(lambda resource: _emptied(api, namespace, *resource), _namespaced(api))):
            return
    found = api.find(f"/api/v1/namespaces/{namespace}")
    if found is None:
        return
    found["spec"]["finalizers"] = []
    try:
        api.request("PUT", f"/api/v1/namespaces/{namespace}/finalize", found)
    except ApiError as error:
        if error.status not in (404, 409):  # its controller was there before, or is at work: the next look tells
            raise


def _emptied(api: Api, namespace: str, prefix: str, plural: str) -> bool:
    """Delete what a namespace has of a resource; return whether there was any."""
    path = f"{prefix}/namespaces/{namespace}/{plural}"
    try:
        if not api.items(path, limit="1"):
            return False
        api.request("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
    except ApiError as error:
        if error.status == 404:  # a kind whose CRD has just gone
            return False
        if error.status != 409:
            raise
    return True


def _namespaced(api: Api) -> list[tuple[str, str]]:
    """Return all resources that are in namespaces and can be deleted together: prefix and plural."""
    prefixes = ["/api/v1"]
    prefixes += [f"/apis/{group['preferredVersion']['groupVersion']}" for group in api.get("/apis")["groups"]]
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda prefix: (prefix, api.find(prefix) or {}), prefixes)
        return [
            (prefix, entry["name"])
            for prefix, answer in answers
            for entry in answer.get("resources", [])
            if entry["namespaced"] and {"list", "deletecollection"} <= set(entry.get("verbs") or ())
        ]


def _served(api: Api) -> list[str]:
    """Return the collections that this API server has: kinds of CRDs come and go with the suites."""
    served = set()
    for prefix in {path.rpartition("/")[0] for path in _COLLECTIONS}:
        answer = api.find(prefix) or {}
        served |= {f"{prefix}/{entry['name']}" for entry in answer.get("resources", [])}
    return [path for path in _COLLECTIONS if path in served]
