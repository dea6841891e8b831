"""Slack driven from outside by /scale: kubectl, and a real HorizontalPodAutoscaler on an external metric."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress

import pytest

from e2e.harness import build
from e2e.harness.api import Api, ApiError, Json
from e2e.harness.cluster import access, kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.monitoring.external_metrics import external_metrics
from e2e.harness.objects import create_all, deployment, wait_for_running, wait_until
from e2e.harness.product.operator import (
    NAMESPACE,
    POLICIES,
    Operator,
    environment,
    install,
    placeholders,
    policy,
    status,
)

SCALES = f"/apis/resource-slack.io/v1alpha1/namespaces/{NAMESPACE}/slackscales"
HPAS = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"
QUICK = {"stabilization": {"shrinkDelay": "1s"}, "cover": {"mode": "None"}}


@pytest.fixture
def loaded(cluster: Backend) -> Iterator[Backend]:
    """Four nodes with some pods, and an operator that leads."""
    create_all(cluster.api, [kwok.node(f"node-{i}") for i in range(4)])
    cluster.api.create(deployment("api", 4, cpu="500m", memory="1Gi"))
    wait_for_running(cluster.api, 4, 60)
    install(cluster)
    with Operator(cluster, name="operator-scaling") as operator:
        operator.wait_until_ready()
        yield cluster


def test_kubectl_scales_a_policy_and_the_api_server_keeps_the_bounds(loaded: Backend) -> None:
    api = loaded.api
    api.create(policy("web", extraCapacity={"replicas": 2}, **QUICK))
    _wait_for_placeholders(api, 2)
    scale = _wait_for_scale(api, f"{POLICIES}/web", 2)
    assert scale["spec"]["replicas"] == 2
    assert scale["status"]["selector"] == "resource-slack.io/placeholder=true,resource-slack.io/policy=web"
    selected = api.items(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=scale["status"]["selector"])
    assert {pod["metadata"]["uid"] for pod in selected} == {pod["metadata"]["uid"] for pod in placeholders(api)}

    assert _kubectl(loaded, "scale", "slp/web", "--replicas=5").returncode == 0
    _wait_for_placeholders(api, 5)
    assert _wait_for_scale(api, f"{POLICIES}/web", 5)["status"]["selector"] == scale["status"]["selector"]
    refused = _kubectl(loaded, "scale", "slp/web", "--replicas=5001")
    assert refused.returncode == 1
    assert "should be less than or equal to 5000" in refused.stderr
    _kubectl(loaded, "scale", "slp/web", "--replicas=0")
    _wait_for_placeholders(api, 0)
    assert _wait_for_scale(api, f"{POLICIES}/web", 0)["spec"].get("replicas", 0) == 0

    api.create(policy("rated", extraCapacity={"minRate": 0.1}))
    with pytest.raises(ApiError, match=r"spec replicas field .* does not exist"):
        api.get(f"{POLICIES}/rated/scale")


def test_cover_and_mirrors_count_in_the_replicas_that_are_told(loaded: Backend) -> None:
    api = loaded.api
    api.create(policy("web", extraCapacity={"replicas": 4}, stabilization={"shrinkDelay": "1s"}))
    _wait_for_scale(api, f"{POLICIES}/web", 4)
    roles = {shape["role"] for shape in status(api, "web")["shapes"]}
    assert "cover" in roles, "part of the four is room of the size that pods have"


def test_a_horizontal_pod_autoscaler_drives_slack_by_an_external_metric(loaded: Backend) -> None:
    if not isinstance(loaded, ControlPlane):
        pytest.skip("the metrics are served on this machine's loopback, where kind's API server does not reach them")
    api = loaded.api
    with external_metrics(loaded) as metrics:
        metrics["queue_depth"] = 38.0
        api.create(policy("web", extraCapacity={"replicas": 1}, **QUICK))
        api.create(policy("direct", nodeSelector={"none": "here"}, extraCapacity={"replicas": 1}))
        api.create(_scale("web", 1))
        api.create(_hpa("web", "SlackScale"))
        api.create(_hpa("direct", "SlackPolicy"))

        _wait_for_replicas(api, "web", 4)
        _wait_for_placeholders(api, 4)
        _wait_for_scale(api, f"{SCALES}/web", 4)
        found = wait_until(lambda: _current(api, "web", 4), 60, "the autoscaler to see them", every=0.5)
        assert found
        metrics["queue_depth"] = 9.0
        _wait_for_replicas(api, "web", 1)
        _wait_for_placeholders(api, 1)
        ready = api.get(f"{SCALES}/web")["status"]["conditions"][0]
        assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "True", "Followed")

        failed = _conditions(api, "direct")["AbleToScale"]
        assert (failed["status"], failed["reason"]) == ("False", "FailedGetScale"), "a SlackPolicy is in no namespace"


def test_who_may_scale_one_slackscale_may_do_no_more_and_a_wrong_one_says_so(loaded: Backend) -> None:
    api = loaded.api
    api.create(policy("web", extraCapacity={"minRate": 0}, **QUICK))
    api.create(_scale("web", 1))
    api.create(_scale("nobody", 1))
    assert wait_until(lambda: _reason(api, "nobody") == "NoSuchPolicy", 30, "the condition")
    wait_until(lambda: _replicas(api, "web") == 1, 30, "a policy without replicas to get them")
    api.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "scaler", "namespace": NAMESPACE},
            "rules": [
                {
                    "apiGroups": ["resource-slack.io"],
                    "resources": ["slackscales/scale"],
                    "resourceNames": ["web"],
                    "verbs": ["get", "patch", "update"],
                }
            ],
        }
    )
    team = loaded.user("team")
    access.grant(api, team, "scaler", NAMESPACE, "Role")
    wait_until(lambda: _may(team.api, f"{SCALES}/web/scale", 3), 20, "the right to be known")
    _wait_for_placeholders(api, 3)
    assert not _may(team.api, f"{SCALES}/nobody/scale", 3)
    assert not _may(team.api, f"{POLICIES}/web/scale", 3)

    api.patch(f"{POLICIES}/web", {"spec": {"extraCapacity": {"replicas": 1}}})
    wait_until(lambda: _replicas(api, "web") == 3, 30, "the SlackScale to win over a hand")


def _scale(name: str, replicas: int) -> Json:
    return {
        "apiVersion": "resource-slack.io/v1alpha1",
        "kind": "SlackScale",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": replicas},
    }


def _hpa(name: str, kind: str) -> Json:
    metric = {"metric": {"name": "queue_depth"}, "target": {"type": "AverageValue", "averageValue": "10"}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "scaleTargetRef": {"apiVersion": "resource-slack.io/v1alpha1", "kind": kind, "name": name},
            "minReplicas": 1,
            "maxReplicas": 20,
            "metrics": [{"type": "External", "external": metric}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    }


def _kubectl(cluster: Backend, *args: str) -> subprocess.CompletedProcess[str]:
    program = build.ensure(["kubectl"])["kubectl"]
    around = {**environment(), "KUBECONFIG": str(cluster.kubeconfig)}
    return subprocess.run([program, *args], env=around, capture_output=True, text=True, check=False, timeout=60)


def _replicas(api: Api, name: str) -> int | None:
    found: int | None = api.get(f"{POLICIES}/{name}")["spec"].get("extraCapacity", {}).get("replicas")
    return found


def _wait_for_replicas(api: Api, name: str, count: int) -> None:
    def told() -> Json:
        return {"policy": _replicas(api, name), "autoscaler": _conditions(api, name)}

    # Two periods of the autoscaler's 15 s, and up to 30 s until its discovery knows a kind that has just come.
    wait_until(lambda: _replicas(api, name) == count, 120, f"policy {name} to have {count} replicas", state=told)


def _wait_for_placeholders(api: Api, count: int) -> None:
    wait_until(
        lambda: len(placeholders(api, bound=True)) == count == len(placeholders(api)),
        60,
        f"{count} placeholders on nodes",
        state=lambda: status(api, "web"),
    )


def _wait_for_scale(api: Api, path: str, count: int) -> Json:
    """Wait until /scale tells a number of replicas that are there; return what it answers."""

    def there() -> Json | None:
        with suppress(ApiError):
            found = api.get(f"{path}/scale")
            return found if found["status"]["replicas"] == count else None
        return None

    found = wait_until(there, 90, f"/scale to tell {count} replicas", state=lambda: api.get(path).get("status"))
    return found or {}


def _conditions(api: Api, name: str) -> dict[str, Json]:
    found = (api.get(f"{HPAS}/{name}").get("status") or {}).get("conditions") or []
    return {entry["type"]: entry for entry in found}


def _current(api: Api, name: str, count: int) -> bool:
    found = api.get(f"{HPAS}/{name}").get("status") or {}
    return found.get("currentReplicas") == found.get("desiredReplicas") == count


def _reason(api: Api, name: str) -> str:
    conditions: list[Json] = (api.get(f"{SCALES}/{name}").get("status") or {}).get("conditions") or []
    return conditions[0]["reason"] if conditions else ""


def _may(api: Api, path: str, replicas: int) -> bool:
    try:
        api.patch(path, {"spec": {"replicas": replicas}})
    except ApiError as error:
        if error.status != 403:
            raise
        return False
    return True
