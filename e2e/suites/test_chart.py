"""The chart as Helm reads it: linted, rendered under several values, each manifest judged by the real API server."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import build, kwok
from e2e.harness.api import Api, Json
from e2e.harness.backend import Backend
from e2e.harness.helm import CHART, NAMESPACE, PLAIN, Helm, plain
from e2e.harness.karpenter import install_crds
from e2e.harness.objects import create_all, make_namespace, wait_until
from e2e.harness.operator import CRDS

EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))
SETS: dict[str, list[str]] = {
    "defaults": [],
    **{file.stem: [f"--values={file}"] for file in EXAMPLES},
    "everything": [
        f"--values={CHART / 'examples' / 'production.yaml'}",
        "--set=operator.metrics.podMonitor.enabled=true,operator.web.enabled=true,operator.quotaForPriorityClass=true",
        "--set=image.pullSecrets[0].name=mine,operator.nodeSelector.pool=infra,operator.podLabels.team=platform",
        "--set=operator.tolerations[0].key=infra,operator.tolerations[0].operator=Exists,operator.logLevel=debug",
        f"--set=image.digest=sha256:{'0' * 64},operator.networkPolicy.apiServerCIDRs[0]=10.0.0.1/32",
        "--set=operator.podDisruptionBudget.maxUnavailable=50%,fullnameOverride=slack",
    ],
    "without uninstall": ["--set=uninstall.enabled=false,operator.rescueStuckPreemptors=false"],
    "without the operator": ["--set=operator.enabled=false"],
}
PROMETHEUS_OPERATOR = "monitoring.coreos.com"


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"))


@pytest.mark.parametrize("flags", SETS.values(), ids=SETS)
def test_lint_has_nothing_to_say(helm: Helm, flags: list[str]) -> None:
    found = helm.run("lint", "--strict", CHART, *flags)
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_plain_manifests_are_the_charts(tmp_path: Path) -> None:
    assert PLAIN.read_text() == plain(tmp_path), "run: make deploy"


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("operator.replica=3", "'/operator': additional properties 'replica' not allowed"),
        ("operator.replicas=two", "'/operator/replicas': got string, want integer"),
        ("operator.extraCapacityMinRate=10%", "'/operator/extraCapacityMinRate': got string, want number"),
        ("operator.interval=10", "'/operator/interval'"),
        ("operator.logLevel=verbose", "'/operator/logLevel': value must be one of"),
        ("operator.podDisruptionBudget.maxUnavailable=0", "'/operator/podDisruptionBudget/maxUnavailable'"),
        ("image.tagg=1", "'/image': additional properties 'tagg' not allowed"),
        ("throttler.enabled=true", "additional properties 'throttler' not allowed"),
        ("policies.Web.granularity=5", "'/policies': additional properties 'Web' not allowed"),
        ("policies.web.minRate=0.1", "'/policies/web': additional properties 'minRate' not allowed"),
        ("policies.web.cover.mode=All", "'/policies/web/cover/mode': value must be one of"),
        ("uninstall.waitSeconds=900", "'/uninstall/waitSeconds': maximum: got 900, want 280"),
    ],
)
def test_a_bad_value_is_refused_by_its_name(helm: Helm, flag: str, words: str) -> None:
    found = helm.run("template", "resource-slack", CHART, f"--set={flag}")
    assert found.returncode != 0
    assert words in found.stderr


def test_a_service_monitor_without_a_service_is_refused(helm: Helm) -> None:
    flags = "--set=operator.metrics.serviceMonitor.enabled=true,operator.metrics.service=false"
    found = helm.run("template", "resource-slack", CHART, flags)
    assert found.returncode != 0
    assert "operator.metrics.serviceMonitor needs operator.metrics.service=true" in found.stderr


def kinds(manifests: list[Json]) -> set[str]:
    return {one["kind"] for one in manifests}


def rules(manifests: list[Json]) -> list[Json]:
    return [rule for one in manifests if one["kind"] == "ClusterRole" for rule in one["rules"]]


def test_what_is_off_is_not_rendered(helm: Helm) -> None:
    usual = kinds(helm.template())
    assert {"ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap", "NetworkPolicy"}.isdisjoint(usual)
    assert kinds(helm.template("--set=operator.enabled=false")) == {"PriorityClass"}
    assert "Job" not in kinds(helm.template("--set=uninstall.enabled=false"))
    assert "PriorityClass" not in kinds(helm.template("--set=priorityClass.create=false"))


def test_a_right_goes_with_what_needs_it(helm: Helm) -> None:
    def grants(resource: str, verb: str, *flags: str) -> bool:
        return any(resource in rule["resources"] and verb in rule["verbs"] for rule in rules(helm.template(*flags)))

    assert grants("pods/status", "patch")
    assert not grants("pods/status", "patch", "--set=operator.rescueStuckPreemptors=false")
    assert not grants("priorityclasses", "create")
    assert grants("priorityclasses", "create", "--set=priorityClass.create=false")


def test_a_setting_that_changes_is_a_new_pod(helm: Helm) -> None:
    def template(*flags: str) -> Json:
        (found,) = [one for one in helm.template(*flags) if one["kind"] == "Deployment"]
        spec: Json = found["spec"]["template"]
        return spec

    assert template("--set=operator.interval=30s") != template()
    assert template("--set=operator.replicas=3") == template()


def crd(kind: str, plural: str, spec: Json) -> Json:
    """Return a CRD with only the fields that the chart may write, so that a misspelt one is refused."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{PROMETHEUS_OPERATOR}"},
        "spec": {
            "group": PROMETHEUS_OPERATOR,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                }
            ],
        },
    }


STRING: Json = {"type": "string"}
STRINGS: Json = {"type": "object", "additionalProperties": STRING}
ENDPOINTS: Json = {
    "type": "array",
    "items": {"type": "object", "properties": dict.fromkeys(("port", "path", "interval"), STRING)},
}
SELECTOR: Json = {"type": "object", "properties": {"matchLabels": STRINGS}}
RULE: Json = {
    "type": "object",
    "required": ["expr"],
    "properties": {
        **dict.fromkeys(("alert", "record", "expr", "for", "keep_firing_for"), STRING),
        "labels": STRINGS,
        "annotations": STRINGS,
    },
}
GROUP: Json = {
    "type": "object",
    "required": ["name", "rules"],
    "properties": {"name": STRING, "interval": STRING, "rules": {"type": "array", "items": RULE}},
}
MONITORING: list[Json] = [
    crd(
        "ServiceMonitor",
        "servicemonitors",
        {"type": "object", "properties": {"selector": SELECTOR, "endpoints": ENDPOINTS}},
    ),
    crd(
        "PodMonitor",
        "podmonitors",
        {"type": "object", "properties": {"selector": SELECTOR, "podMetricsEndpoints": ENDPOINTS}},
    ),
    crd(
        "PrometheusRule",
        "prometheusrules",
        {"type": "object", "properties": {"groups": {"type": "array", "items": GROUP}}},
    ),
]


@pytest.fixture
def monitored(cluster: Backend) -> Iterator[Backend]:
    """A cluster that knows SlackPolicies and, in outline, the Prometheus Operator's kinds."""
    install_crds(cluster.api, CRDS)
    make_namespace(cluster.api, NAMESPACE)
    for one in MONITORING:
        cluster.api.apply(one)

    def served() -> bool:
        answer = cluster.api.find(f"/apis/{PROMETHEUS_OPERATOR}/v1") or {}
        return len({entry["kind"] for entry in answer.get("resources", [])}) == len(MONITORING)

    wait_until(served, 20, "the monitoring kinds to be served")
    yield cluster
    for one in MONITORING:
        cluster.api.delete(cluster.api.path_of(one))


def dry_run(api: Api, manifest: Json) -> Any:
    path = f"{api.path_of(manifest)}?fieldManager=e2e&force=true&dryRun=All&fieldValidation=Strict"
    return api.request("PATCH", path, manifest, "application/apply-patch+yaml")


def test_the_api_server_takes_every_manifest(monitored: Backend, helm: Helm) -> None:
    judged: set[str] = set()
    for flags in SETS.values():
        for manifest in helm.template(*flags):
            dry_run(monitored.api, manifest)
            judged.add(manifest["kind"])
    assert {"Deployment", "Job", "NetworkPolicy", "PodDisruptionBudget", "SlackPolicy", "ResourceQuota"} <= judged
    assert {"ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap"} <= judged
    assert monitored.api.find(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/resource-slack") is None


def test_every_pod_of_the_chart_is_let_into_a_restricted_namespace(monitored: Backend, helm: Helm) -> None:
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    monitored.api.patch(f"/api/v1/namespaces/{NAMESPACE}", label)
    templates = [one["spec"]["template"] for one in helm.template() if one["kind"] in {"Deployment", "Job"}]
    assert len(templates) == 2
    for number, template in enumerate(templates):
        spec = {**template["spec"], "serviceAccountName": "default"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"try-{number}", "namespace": NAMESPACE},
            "spec": spec,
        }
        dry_run(monitored.api, pod)


def test_what_scrapes_finds_the_metrics_port(helm: Helm) -> None:
    found = {one["kind"]: one for one in helm.template(*SETS["everything"]) if one["kind"] != "ServiceAccount"}
    template = found["Deployment"]["spec"]["template"]
    ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
    service_ports = {port["name"] for port in found["Service"]["spec"]["ports"]}
    assert {one["port"] for one in found["ServiceMonitor"]["spec"]["endpoints"]} <= service_ports
    assert {one["port"] for one in found["PodMonitor"]["spec"]["podMetricsEndpoints"]} <= ports
    assert found["NetworkPolicy"]["spec"]["ingress"][0]["ports"][0]["port"] in ports
    labels = template["metadata"]["labels"].items()
    assert found["Service"]["spec"]["selector"].items() <= labels
    assert found["PodMonitor"]["spec"]["selector"]["matchLabels"].items() <= labels
    assert found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"].items() <= labels
    assert (
        found["ServiceMonitor"]["spec"]["selector"]["matchLabels"].items()
        <= found["Service"]["metadata"]["labels"].items()
    )


def test_the_plain_manifests_are_applied_by_kubectl_as_they_are(cluster: Backend) -> None:
    create_all(cluster.api, [kwok.node("node-0")])
    kubectl = build.ensure(["kubectl"])["kubectl"]
    folders = [f"--filename={CRDS}", f"--filename={PLAIN.parent}"]

    def run(*arguments: str) -> None:
        command = [str(kubectl), f"--kubeconfig={cluster.kubeconfig}", *arguments, *folders]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    run("apply", "--validate=strict")
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/resource-slack"
    wait_until(lambda: cluster.api.get(path)["status"].get("readyReplicas") == 2, 60, "two operators")
    run("delete", "--timeout=60s")
