"""Late pods on a real API server: what the controller's token may evict, and that budgets and versions count.

The rights and the admission policy are the chart's. kwok carries no container out: the tests say what a kubelet would.
"""

from collections.abc import Iterator

import msgspec
import pytest

from e2e.harness.api import Json
from e2e.harness.cluster import access, kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.cluster.certificates import Authority
from e2e.harness.cluster.cleanup import cleaned
from e2e.harness.objects import make_namespace, pod, wait_until
from e2e.harness.product.helm import NAMESPACE
from e2e.harness.product.throttler import AGENT_ACCOUNT, NAME, rendered
from slack.kube.connection import Connection
from slack.kube.errors import ApiError
from slack.kube.kubeconfig import connect
from slack.throttler.reports.messages import LatePod
from slack_operator.throttler.controller.late_pods import LatePods

SHOP = "late-shop"
POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


@pytest.fixture(scope="module")
def manifests(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> list[Json]:
    authority = Authority.create(backend.run_folder / "eviction-authority")
    folder = tmp_path_factory.mktemp("helm")
    return rendered(folder, authority, "--set=throttler.agent.deleteLatePods=true")


@pytest.fixture(scope="module")
def controller(backend: Backend, manifests: list[Json]) -> Iterator[Connection]:
    """A connection with the controller's rights, and with the chart's policy in force."""
    with cleaned(backend.api):
        for namespace in (NAMESPACE, SHOP):
            make_namespace(backend.api, namespace)
        for node in ("late-1", "late-2"):
            backend.api.create(kwok.node(node))
        for item in manifests:
            if item["kind"] in POLICIES:
                backend.api.apply(item)
        yield from _connected(backend, manifests, NAME, (NAME, f"{NAME}-evictions"))


@pytest.fixture(scope="module")
def agent(backend: Backend, manifests: list[Json], controller: Connection) -> Iterator[Connection]:
    """A connection with an agent's rights."""
    yield from _connected(backend, manifests, AGENT_ACCOUNT, (AGENT_ACCOUNT,))


def _connected(backend: Backend, manifests: list[Json], account: str, names: tuple[str, ...]) -> Iterator[Connection]:
    roles = [item for item in manifests if item["metadata"]["name"] in names and item["kind"].endswith("Role")]
    identity = backend.service_account(NAMESPACE, account)
    access.grant_manifests(backend.api, identity, roles, NAMESPACE)
    connection = connect(identity.kubeconfig, None)
    yield connection
    connection.close()


def a_late_pod(backend: Backend, name: str, *, namespace: str = SHOP, node: str = "late-1") -> Json:
    """Make a gated pod on a node whose container runs and is not ready, as its kubelet would say."""
    manifest = pod(name, namespace=namespace, nodeName=node)
    (container,) = manifest["spec"]["containers"]
    container["readinessProbe"] = {"exec": {"command": ["false"]}}
    container["env"] = [{"name": "RESOURCE_SLACK_START_PERMIT", "value": "GO"}]
    gate = {"name": "throttler-gate", "image": container["image"], "restartPolicy": "Always"}
    manifest["spec"]["initContainers"] = [gate]
    manifest["metadata"]["labels"] = {"app": name}
    made = backend.api.create(manifest)
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    wait_until(lambda: backend.api.get(path)["status"]["phase"] == "Running", 60, "kwok to have it run")
    backend.api.patch(f"{path}/status", {"status": {"containerStatuses": [status(container["name"], ready=False)]}})
    return made


def status(name: str, *, ready: bool) -> Json:
    state = {"running": {"startedAt": "2026-05-04T10:00:00Z"}}
    rest = {"image": "i", "imageID": "i", "restartCount": 0, "containerID": "containerd://1", "started": True}
    return {"name": name, "ready": ready, "state": state, **rest}


def late(made: Json) -> LatePod:
    metadata = made["metadata"]
    return LatePod(
        uid=metadata["uid"],
        container=made["spec"]["containers"][0]["name"],
        namespace=metadata["namespace"],
        pod=metadata["name"],
        container_id="containerd://1",
    )


def outcome(connection: Connection, made: Json, node: str = "late-1") -> str:
    """What becomes of a pod that the agent of a node calls late."""
    outcomes: list[str] = []
    part = LatePods(
        server=connection,
        decode=msgspec.json.decode,
        count=outcomes.append,
        may_write=lambda: True,
        deletes=lambda node: True,
        stale=lambda: None,
    )
    part.asked(node, [late(made)])
    assert part.check_next()
    return outcomes[0]


def eviction(made: Json, **preconditions: str) -> Json:
    metadata = {"name": made["metadata"]["name"], "namespace": made["metadata"]["namespace"]}
    body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    return body | ({"deleteOptions": {"preconditions": preconditions}} if preconditions else {})


def evict(connection: Connection, made: Json, **preconditions: str) -> None:
    path = f"/api/v1/namespaces/{made['metadata']['namespace']}/pods/{made['metadata']['name']}/eviction"
    connection.request("POST", path, body=eviction(made, **preconditions), verb="create")


def goes(backend: Backend, made: Json) -> bool:
    path = f"/api/v1/namespaces/{made['metadata']['namespace']}/pods/{made['metadata']['name']}"
    found = backend.api.find(path)
    return found is None or "deletionTimestamp" in found["metadata"]


@pytest.fixture(scope="module")
def in_force(backend: Backend, controller: Connection) -> None:
    """Wait until the API server judges by the policy, which it takes a moment to know."""
    made = a_late_pod(backend, "first")

    def refused() -> bool:
        path = f"/api/v1/namespaces/{SHOP}/pods/first/eviction"
        try:
            controller.request("POST", path, query={"dryRun": "All"}, body=eviction(made), verb="create")
        except ApiError as error:
            return "must name the uid" in error.message
        return False

    wait_until(refused, 60, "the chart's policy to be in force")


def test_a_late_pod_is_evicted(backend: Backend, controller: Connection, in_force: None) -> None:
    made = a_late_pod(backend, "late")
    assert outcome(controller, made) == "evicted"
    wait_until(lambda: goes(backend, made), 30, "it to go")


def test_a_pod_that_is_ready_or_elsewhere_stays(backend: Backend, controller: Connection, in_force: None) -> None:
    made = a_late_pod(backend, "ready")
    assert outcome(controller, made, node="late-2") == "not_needed"
    name = made["spec"]["containers"][0]["name"]
    path = f"/api/v1/namespaces/{SHOP}/pods/ready"
    backend.api.patch(f"{path}/status", {"status": {"containerStatuses": [status(name, ready=True)]}})
    assert outcome(controller, made) == "not_needed"
    assert not goes(backend, made)


def test_a_budget_holds_an_eviction_back_until_it_allows_it(
    backend: Backend, controller: Connection, in_force: None
) -> None:
    made = a_late_pod(backend, "guarded")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guarded", "namespace": SHOP},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
    }
    backend.api.create(budget)
    path = f"/apis/policy/v1/namespaces/{SHOP}/poddisruptionbudgets/guarded"
    wait_until(lambda: backend.api.get(path).get("status", {}).get("observedGeneration"), 60, "the budget to be known")
    assert outcome(controller, made) == "blocked"
    assert not goes(backend, made)
    backend.api.delete(path)
    wait_until(lambda: outcome(controller, made) in ("evicted", "not_needed") and goes(backend, made), 30, "it to go")


def test_a_pod_that_has_changed_since_it_was_read_is_not_evicted(
    backend: Backend, controller: Connection, in_force: None
) -> None:
    made = a_late_pod(backend, "changing")
    with pytest.raises(ApiError) as refused:
        evict(controller, made, uid=made["metadata"]["uid"], resourceVersion=made["metadata"]["resourceVersion"])
    assert refused.value.conflict
    assert not goes(backend, made)


def test_the_policy_bounds_the_controllers_token(backend: Backend, controller: Connection, in_force: None) -> None:
    made = a_late_pod(backend, "bound")
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    for preconditions in ({}, {"uid": uid}, {"resourceVersion": version}):
        with pytest.raises(ApiError) as refused:
            evict(controller, made, **preconditions)
        assert (refused.value.status, "must name the uid" in refused.value.message) == (403, True)
    for namespace in ("kube-system", NAMESPACE):
        other = a_late_pod(backend, "bound", namespace=namespace)
        assert outcome(controller, other) == "refused"
        assert not goes(backend, other)
        backend.api.delete(f"/api/v1/namespaces/{namespace}/pods/bound", grace_seconds=0)
    with pytest.raises(ApiError) as refused:
        controller.request("DELETE", f"/api/v1/namespaces/{SHOP}/pods/bound", body={}, verb="delete")
    assert refused.value.status == 403


def test_an_agents_token_can_end_no_pod(backend: Backend, agent: Connection, in_force: None) -> None:
    made = a_late_pod(backend, "safe")
    path = f"/api/v1/namespaces/{SHOP}/pods/safe"
    uid, version = made["metadata"]["uid"], backend.api.get(path)["metadata"]["resourceVersion"]
    with pytest.raises(ApiError) as refused:
        evict(agent, made, uid=uid, resourceVersion=version)
    assert refused.value.status == 403
    with pytest.raises(ApiError) as refused:
        agent.request("DELETE", path, body={}, verb="delete")
    assert refused.value.status == 403
    assert not goes(backend, made)
