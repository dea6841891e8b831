"""The chart as Helm reads it: linted, rendered under several values, each manifest judged by the real API server."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import build
from e2e.harness.api import Api, Json
from e2e.harness.autoscalers.karpenter import install_crds
from e2e.harness.cluster import kwok, rbac
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, make_namespace, wait_until
from e2e.harness.product.helm import CHART, NAMESPACE, PLAIN, RELEASE, Helm, plain
from e2e.harness.product.operator import CRDS
from slack.cluster.amounts import NO_CORES, NO_RESOURCE, TOO_FEW_BYTES
from slack.cluster.rates import NEEDS_CEILING
from slack.process.settings import load
from slack.process.values import host_port
from slack_operator.settings import OperatorSettings

A_NUMBER = "a number such as 0.1, which is ten percent"
EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))
CERTIFICATES = "--set=audit.tls.secretName=cert," + ",".join(
    f"throttler.tls.{field}" for field in ("secretName=cert", "authority=PEM", "agentSecretName=agent-cert")
)
PODS = {
    "operator": "operator",
    "audit.agent": "audit-agent",
    "audit.controller": "audit-controller",
    "throttler.agent": "throttler-agent",
    "throttler.controller": "throttler-controller",
    "scorer": "scorer",
    "loadWatcher": "load-watcher",
    "demand.controller": "demand-controller",
}
"""The component of each part of the values that is a workload."""
SHARED = {
    "nodeSelector": {"pool": "infra"},
    "tolerations": [{"key": "infra", "operator": "Exists"}],
    "probes": {"liveness": {"timeoutSeconds": 9}},
    "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
    "dnsPolicy": "Default",
}
"""What each of them takes."""
SETS: dict[str, list[str]] = {
    "defaults": [],
    # Rendered without a cluster, auditor and throttler want certificates that are there.
    **{file.stem: ["--kube-version=1.36", f"--values={file}", CERTIFICATES] for file in EXAMPLES},
    "everything": [
        f"--values={CHART / 'examples' / 'production.yaml'}",
        "--set=operator.web.enabled=true,operator.web.listen=0.0.0.0:8081,operator.web.tokenSecret.name=page",
        "--set=operator.web.service=true,operator.quotaForPriorityClass=true",
        "--set=image.pullSecrets[0].name=mine,operator.nodeSelector.pool=infra,operator.podLabels.team=platform",
        "--set=operator.tolerations[0].key=infra,operator.tolerations[0].operator=Exists,operator.logLevel=debug",
        f"--set=image.digest=sha256:{'0' * 64},operator.networkPolicy.apiServerCIDRs[0]=10.0.0.1/32",
        "--set=operator.podDisruptionBudget.maxUnavailable=50%,fullnameOverride=slack",
        "--set=commonLabels.team=platform,revisionHistoryLimit=3,operator.placeholderUser=image",
        "--set=operator.placeholders.labels.team=platform,operator.placeholders.imagePullSecrets[0].name=mine",
        "--set=operator.placeholders.limits=Requests,operator.placeholders.securityContext.runAsUser=1000",
        "--set=operator.extraArgs[0]=--log-level=info,operator.extraEnv[0].name=HTTPS_PROXY,operator.extraEnv[0].value=p",
        "--set=operator.extraVolumes[0].name=ca,operator.extraVolumes[0].configMap.name=ca",
        "--set=operator.extraVolumeMounts[0].name=ca,operator.extraVolumeMounts[0].mountPath=/etc/ca",
        "--set=operator.serviceAccount.create=false,operator.serviceAccount.name=mine",
    ],
    "every component": [
        "--kube-version=1.36",
        CERTIFICATES,
        "--set=audit.enabled=true,throttler.enabled=true,scorer.enabled=true,loadWatcher.enabled=true",
        "--set=demand.enabled=true,demand.broker.url=nats://nats.media:4222",
        "--set-json=extraObjects=["
        + '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-more"}}]',
        *(f"--set-json={path}={value}" for path in PODS for value in [json.dumps(SHARED)]),
    ],
    "on the nodes' network": [
        "--kube-version=1.36",
        CERTIFICATES,
        "--set=audit.enabled=true,throttler.enabled=true,scorer.enabled=true,loadWatcher.enabled=true",
        *(f"--set={path}.hostNetwork=true" for path in PODS),
    ],
    "without what is on": [
        "--set=rbac.aggregateClusterRoles=false,networkPolicy.ingress=false,crds.upgrade=false",
        "--set=operator.podDisruptionBudget.enabled=false",
    ],
    "pod monitor": ["--set=operator.metrics.podMonitor.enabled=true,operator.metrics.service=false"],
    "warm nodes": ["--set=operator.warm.enabled=true,operator.warm.bytesPerSecond=50000000"],
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
        ("operator.extraCapacityMinRate=10%", f"'/operator/extraCapacityMinRate': value must be '{A_NUMBER}'"),
        (
            "policies.web.extraCapacity.minRate=10%",
            f"/extraCapacity/minRate': value must be '{A_NUMBER}'",
        ),
        ("operator.extraCapacityMinRate=11", "'/operator/extraCapacityMinRate': maximum: got 11, want 10"),
        ("operator.extraCapacityMinRate=2", f"/extraCapacityMinRate': value must be 'at most 1: {NEEDS_CEILING}'"),
        ("policies.web.extraCapacity.minRate=10", f"/extraCapacity': value must be 'bounded: {NEEDS_CEILING}'"),
        ("policies.web.extraCapacity.minRate=1.5", NEEDS_CEILING),
        ("operator.extraCapacityMinRate=10.5", "'/operator/extraCapacityMinRate': value must be 'at most 1:"),
        ("commonLabels.bad!key=x", "'/commonLabels': additional properties 'bad!key' not allowed"),
        ("commonLabels.team=a b", "'/commonLabels/team': 'a b' does not match pattern"),
        ("operator.podLabels.-x=1", "'/operator/podLabels': additional properties '-x' not allowed"),
        ("policies.web.extraCapacity.ceiling.mem=2Gi", f"ceiling': value must be '{NO_RESOURCE}'"),
        ("policies.web.extraCapacity.ceiling.cpu=2Gi", f"ceiling': value must be '{NO_CORES}'"),
        ("policies.web.extraCapacity.ceiling.memory=64", f"ceiling': value must be '{TOO_FEW_BYTES}'"),
        ("policies.web.reserve.ceiling.memory=64m", f"/reserve/ceiling': value must be '{TOO_FEW_BYTES}'"),
        ("operator.interval=10", "'/operator/interval'"),
        ("operator.interval=0s", "'/operator/interval': '0s' does not match pattern"),
        ("operator.interval=0h00m0s", "'/operator/interval': '0h00m0s' does not match pattern"),
        ("operator.interval=10s1m", "'/operator/interval': '10s1m' does not match pattern"),
        ("operator.web=null", "'/operator': missing property 'web'"),
        ("operator.web.listen=8081", "'/operator/web/listen': got number, want string"),
        ("operator.web.listen=0.0.0.0:0", "'/operator/web/listen': '0.0.0.0:0' does not match pattern"),
        ("operator.metrics.serviceMonitor=null", "'/operator/metrics': missing property 'serviceMonitor'"),
        ("operator.networkPolicy.apiServerCIDRs[0]=999.1.1.1/99", "'/operator/networkPolicy/apiServerCIDRs/0'"),
        ("operator.networkPolicy.apiServerCIDRs[0]=10.0.0.0/33", "'/operator/networkPolicy/apiServerCIDRs/0'"),
        ("operator.networkPolicy.apiServerCIDRs[0]=fd00::/129", "'/operator/networkPolicy/apiServerCIDRs/0'"),
        ("operator.metrics.prometheusRule.runbooksUrl=wiki", "'/operator/metrics/prometheusRule/runbooksUrl'"),
        ("image=null", "missing property 'image'"),
        ("operator.web.loadWatcher=watcher:2020", "'/operator/web/loadWatcher': 'watcher:2020' does not match pattern"),
        ("scorer.scale=500", "'/scorer/scale': maximum: got 500, want 100"),
        ("scorer.algorithms[0].name=Packing", "'/scorer/algorithms/0/name': value must be one of 'TargetLoadPacking'"),
        ("scorer.scheduler.httpTimeout=soon", "'/scorer/scheduler/httpTimeout': 'soon' does not match pattern"),
        ("loadWatcher.provider=datadog", "'/loadWatcher/provider': value must be one of 'metrics-server'"),
        ("loadWatcher.persistence=state", "'/loadWatcher/persistence': 'state' does not match pattern"),
        ("nameOverride=Foo Bar", "'/nameOverride': 'Foo Bar' does not match pattern"),
        ("fullnameOverride=9lives", "'/fullnameOverride': '9lives' does not match pattern"),
        ("operator.logLevel=verbose", "'/operator/logLevel': value must be one of"),
        ("operator.podDisruptionBudget.maxUnavailable=0", "'/operator/podDisruptionBudget/maxUnavailable'"),
        ("image.tagg=1", "'/image': additional properties 'tagg' not allowed"),
        ("throttle.enabled=true", "additional properties 'throttle' not allowed"),
        ("policies.Web.granularity=5", "'/policies': additional properties 'Web' not allowed"),
        ("policies.web.minRate=0.1", "'/policies/web': additional properties 'minRate' not allowed"),
        ("policies.web.extraCapacity.minrate=0.1", "/minrate': value must be 'under minRate: this field is unknown'"),
        (
            "policies.web.node_selector.a=b",
            "'/policies/web/node_selector': value must be 'under nodeSelector",
        ),
        ("policies.web.cover.mode=All", "'/policies/web/cover/mode': value must be one of"),
        ("commonLabels.team=1", "'/commonLabels/team': got number, want string"),
        ("revisionHistoryLimit=-1", "'/revisionHistoryLimit': minimum: got -1, want 0"),
        ("revisionHistoryLimit=null", "missing property 'revisionHistoryLimit'"),
        ("operator.placeholderUser=root", "'/operator/placeholderUser': 'root' does not match pattern"),
        ("operator.placeholderUser=0", "'/operator/placeholderUser': minimum: got 0, want 1"),
        ("operator.placeholders.limits=Some", "'/operator/placeholders/limits': value must be one of"),
        ("operator.placeholders.securityContext.runAsUser=0", "/runAsUser': minimum: got 0, want 1"),
        ("operator.placeholders.securityContext.privileged=true", "additional properties 'privileged' not allowed"),
        (
            r"operator.placeholders.labels.resource-slack\.io/policy=web",
            "'/operator/placeholders/labels': value must be",
        ),
        ("operator.extraArgs[0]=web", "'/operator/extraArgs/0': 'web' does not match pattern"),
        ("operator.serviceAccount.nam=a", "additional properties 'nam' not allowed"),
        ("audit.agent.extraEnv[0].value=a", "'/audit/agent/extraEnv/0': missing property 'name'"),
        ("audit.tls.certManager.duration=90d", "'/audit/tls/certManager/duration': '90d' does not match pattern"),
        ("openCost.url=opencost:9003", "'/openCost/url': 'opencost:9003' does not match pattern"),
        ("uninstall.waitSeconds=900", "'/uninstall/waitSeconds': maximum: got 900, want 280"),
    ],
)
def test_a_bad_value_is_refused_by_its_name(helm: Helm, flag: str, words: str) -> None:
    found = helm.run("template", "resource-slack", CHART, f"--set={flag}")
    assert found.returncode != 0
    assert words in found.stderr


METRICS = "operator.metrics"
WEB = "operator.web.enabled=true,operator.web"
LOAD = "loadWatcher.enabled=true,loadWatcher"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            f"{METRICS}.serviceMonitor.enabled=true,{METRICS}.service=false",
            "operator.metrics.serviceMonitor needs operator.metrics.service=true",
        ),
        (
            f"{METRICS}.serviceMonitor.enabled=true,{METRICS}.podMonitor.enabled=true",
            "operator.metrics.podMonitor is instead of operator.metrics.serviceMonitor",
        ),
        (
            r"operator.podLabels.app\.kubernetes\.io/name=mine",
            "operator.podLabels: app.kubernetes.io/name is the chart's own",
        ),
        (r"commonLabels.app\.kubernetes\.io/name=mine", "commonLabels: app.kubernetes.io/name is the chart's own"),
        ("operator.extraEnv[0].name=POD_NAME", "operator.extraEnv: POD_NAME is the chart's own"),
        ("operator.serviceAccount.create=false", "operator.serviceAccount.name is needed"),
        ("operator.hold=Bound,operator.bound.enabled=false", "operator.hold: Bound needs operator.bound.enabled=true"),
        (f"{WEB}.listen=0.0.0.0:8081", "operator.web.tokenSecret.name is needed: operator.web.listen 0.0.0.0:8081"),
        (f"{WEB}.listen=[::]:8081", "operator.web.tokenSecret.name is needed"),
        (f"{WEB}.listen=0.0.0.0:8080,operator.web.tokenSecret.name=page", "operator.web.listen: port 8080 is that of"),
        (f"{WEB}.service=true", "operator.web.service needs an operator.web.listen that others reach"),
        ("scorer.enabled=true", "scorer.loadWatcher is needed: loadWatcher.enabled is false"),
        (f"{LOAD}.provider=prometheus", "loadWatcher.address is needed: loadWatcher.provider is prometheus"),
        (f"{LOAD}.address=http://prometheus:9090", "loadWatcher.address has no meaning: loadWatcher.provider is met"),
        (
            f"{LOAD}.provider=influxdb,loadWatcher.address=http://influxdb:8086,loadWatcher.username=reader",
            "loadWatcher.tokenSecret is needed: loadWatcher.username is given",
        ),
    ],
)
def test_values_that_do_not_go_together_are_refused_by_name(helm: Helm, flags: str, words: str) -> None:
    found = helm.run("template", "resource-slack", CHART, f"--set={flags}")
    assert found.returncode != 0
    assert words in found.stderr


@pytest.mark.parametrize(
    "flag",
    [
        "operator.extraCapacityMinRate=0.2",
        "operator.extraCapacityMinRate=1.0",
        "operator.interval=1h30m",
        "operator.networkPolicy.apiServerCIDRs={10.0.0.1/32,fd00::/8,::1/128,::ffff:10.0.0.1/128}",
        "operator.web.listen=[::1]:8081,operator.web.enabled=true",
        "operator.resources.limits=null",
        "operator.tolerations=null",
        "operator.podSecurityContext=null",
        "operator.placeholderUser=1000680000",
        "operator.placeholders.labels.team=platform",
        "policies=null",
        "openCost.url=http://opencost.opencost:9003/metrics",
    ],
)
def test_a_good_value_is_taken(helm: Helm, flag: str) -> None:
    assert helm.template(f"--set={flag}")


def test_numbers_of_policies_may_be_given_as_helm_reads_them_from_the_command_line(helm: Helm) -> None:
    web = "policies.web"
    flags = f"{web}.extraCapacity.minRate=0.2,{web}.extraCapacity.ladder[0].minRate=0.5,{web}.cover.coverage=0.9"
    flags += f",{web}.extraCapacity.floor.cpu=1.5,{web}.stabilization.shapeTolerance=0.1"
    (policy,) = [manifest for manifest in helm.template(f"--set={flags}") if manifest["kind"] == "SlackPolicy"]
    assert policy["spec"] == {
        "extraCapacity": {"minRate": 0.2, "ladder": [{"minRate": 0.5}], "floor": {"cpu": "1.5"}},
        "cover": {"coverage": 0.9},
        "stabilization": {"shapeTolerance": 0.1},
    }


def texts(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what Kubernetes wants as text: names, namespaces and labels, wherever they are."""
    if isinstance(node, list):
        for item in node:
            yield from texts(item, path)
    elif isinstance(node, dict):
        for key, value in node.items():
            if path.endswith(("abels", "annotations")) or key in {"name", "namespace", "image", "priorityClassName"}:
                yield f"{path}.{key}", value
            elif key in {"resourceNames", "args", "values"}:
                yield from ((f"{path}.{key}", item) for item in value)
            yield from texts(value, f"{path}.{key}")


# What YAML takes for a number or a truth value when it is not quoted.
UNTEXTUAL = [
    '--set-json=policies={"1": {}, "true": {}, "1e3": {}}',
    "--set-string=image.repository=1,image.tag=1,operator.priorityClassName=12",
    "--set=operator.quotaForPriorityClass=true,operator.web.enabled=true",
    "--set-string=operator.web.listen=0.0.0.0:81,operator.web.tokenSecret.name=12,operator.web.tokenSecret.key=1",
]


@pytest.mark.parametrize(
    ("flags", "way"),
    [
        ([], "Label"),
        (["--kube-version=1.29"], "MarkerPod"),  # it has no admission policy that would bound the right
        (["--set=operator.releaseNodes=MarkerPod"], "MarkerPod"),
        (["--set=operator.releaseNodes=Off", "--kube-version=1.29"], "Off"),
        (["--set=operator.releaseNodes=true"], "Label"),  # as earlier charts had it
        (["--set=operator.releaseNodes=false"], "Off"),  # and as YAML reads Off without quotes
    ],
)
def test_the_operator_gets_the_rights_of_one_way_to_release_nodes(helm: Helm, flags: list[str], way: str) -> None:
    manifests = helm.template(*flags)
    (operator,) = (item for item in manifests if item["kind"] == "Deployment")
    assert f"--release-nodes={way}" in operator["spec"]["template"]["spec"]["containers"][0]["args"]
    rights = rbac.granted(manifests)
    found = {(right.resource, right.verb) for right in rights if right.resource in ("nodes", "karpenter.sh/nodeclaims")}
    reads = {("nodes", "list"), ("nodes", "watch")}
    claims = set() if way == "Off" else {("karpenter.sh/nodeclaims", "list"), ("karpenter.sh/nodeclaims", "watch")}
    assert found == reads | claims | ({("nodes", "patch")} if way == "Label" else set())
    creates = {right.place for right in rights if (right.resource, right.verb) == ("pods", "create")}
    assert creates == ({NAMESPACE} if way == "MarkerPod" else set())
    assert ("ValidatingAdmissionPolicy" in {item["kind"] for item in manifests}) == (way == "Label")


@pytest.mark.parametrize("release", ["123", "1.5", "resource-slack"])
def test_what_looks_like_a_number_stays_text(helm: Helm, release: str) -> None:
    manifests = helm.template(*UNTEXTUAL, namespace="123", release=release)
    found = [(path, value) for manifest in manifests for path, value in texts(manifest)]
    assert {value for _, value in found} >= {"1", "true", "1e3", "12", "123", release, "1:1"}
    assert [(path, value) for path, value in found if not isinstance(value, str)] == []


def test_labels_and_annotations_of_users_are_merged_with_the_charts(helm: Helm) -> None:
    text = helm.text(
        r"--set=operator.podAnnotations.kubectl\.kubernetes\.io/default-container=proxy",
        "--set=operator.podAnnotations.team=platform,operator.podLabels.team=platform",
    )
    assert text.count("kubectl.kubernetes.io/default-container") == 1
    (found,) = [manifest for manifest in yaml.safe_load_all(text) if manifest and manifest["kind"] == "Deployment"]
    pod = found["spec"]["template"]["metadata"]
    assert pod["annotations"] == {"kubectl.kubernetes.io/default-container": "proxy", "team": "platform"}
    assert pod["labels"].items() >= {"team": "platform", "app.kubernetes.io/name": "resource-slack"}.items()


AUDITED = "--set=audit.enabled=true,audit.tls.secretName=cert"


def every_pod(manifests: list[Json]) -> dict[str, Json]:
    """Pod templates by their component."""
    kinds = {"Deployment", "DaemonSet", "Job"}
    templates = [manifest["spec"]["template"] for manifest in manifests if manifest["kind"] in kinds]
    return {template["metadata"]["labels"]["app.kubernetes.io/component"]: template for template in templates}


def test_common_labels_are_on_every_object_and_pod_and_in_no_selector(helm: Helm) -> None:
    monitors = f"{METRICS}.serviceMonitor.enabled=true,{METRICS}.serviceMonitor.labels.team=prometheus"
    plain = helm.template(AUDITED, f"--set={monitors}")
    labelled = helm.template(AUDITED, f"--set={monitors}", "--set=commonLabels.team=platform")
    own = "prometheus"  # more exactly said, so it wins
    for manifest in labelled:
        wanted = own if manifest["kind"] == "ServiceMonitor" else "platform"
        assert manifest["metadata"]["labels"]["team"] == wanted, manifest["metadata"]["name"]
    assert {template["metadata"]["labels"]["team"] for template in every_pod(labelled).values()} == {"platform"}
    assert [manifest.get("spec", {}).get("selector") for manifest in plain] == [
        manifest.get("spec", {}).get("selector") for manifest in labelled
    ]


def test_no_pod_names_what_openshifts_restricted_scc_gives_out(helm: Helm) -> None:
    pods = every_pod(helm.template(AUDITED))
    assert set(pods) == {"operator", "uninstall", "crds", "audit-agent", "audit-controller"}
    for component, template in pods.items():
        spec = template["spec"]
        contexts = [spec["securityContext"], *(container["securityContext"] for container in spec["containers"])]
        given_out = {"runAsUser", "runAsGroup", "fsGroup", "supplementalGroups", "seLinuxOptions"}
        assert not [given_out & context.keys() for context in contexts if given_out & context.keys()], component
        assert "hostPath" not in str(spec["volumes"]) or component == "audit-agent"
        # without a group of the pod's own a file for the group alone is root's
        assert "'defaultMode': 288" not in str(spec["volumes"])


def test_accounts_arguments_variables_volumes_and_contexts_are_the_users_to_choose(helm: Helm) -> None:
    parts = {"operator": "operator", "audit-agent": "audit.agent", "audit-controller": "audit.controller"}
    flags = [
        f"--set={path}.serviceAccount.create=false,{path}.serviceAccount.name=mine-{number},{path}.extraArgs[0]=--log-level=debug,"
        f"{path}.extraEnv[0].name=HTTPS_PROXY,{path}.extraEnv[0].value=proxy,"
        f"{path}.extraVolumes[0].name=ca,{path}.extraVolumes[0].configMap.name=ca,"
        f"{path}.extraVolumeMounts[0].name=ca,{path}.extraVolumeMounts[0].mountPath=/etc/ca,"
        f"{path}.podSecurityContext.runAsUser=1000680000,{path}.securityContext.seccompProfile.type=RuntimeDefault"
        for number, path in enumerate(parts.values())
    ]
    manifests = helm.template(AUDITED, *flags, "--set=revisionHistoryLimit=2")
    pods = every_pod(manifests)
    for number, component in enumerate(parts):
        spec = pods[component]["spec"]
        (container,) = spec["containers"]
        assert spec["serviceAccountName"] == f"mine-{number}"
        assert container["args"][-1] == "--log-level=debug"
        assert {"name": "HTTPS_PROXY", "value": "proxy"} in container["env"]
        assert {"name": "ca", "configMap": {"name": "ca"}} in spec["volumes"]
        assert {"name": "ca", "mountPath": "/etc/ca"} in container["volumeMounts"]
        assert spec["securityContext"]["runAsUser"] == 1_000_680_000
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (hook,) = pods["uninstall"]["spec"]["containers"]
    assert hook["env"] == [{"name": "HTTPS_PROXY", "value": "proxy"}]
    assert {"name": "ca", "mountPath": "/etc/ca"} in hook["volumeMounts"]
    bound = {subject["name"] for manifest in manifests for subject in manifest.get("subjects", [])}
    jobs = {"resource-slack-uninstall", "resource-slack-crds"}
    assert bound == {"mine-0", "mine-2", *jobs}  # agents have no right
    made = {manifest["metadata"]["name"] for manifest in manifests if manifest["kind"] == "ServiceAccount"}
    assert made == jobs
    assert "--agent-service-account=mine-1" in pods["audit-controller"]["spec"]["containers"][0]["args"]
    limits = {m["spec"]["revisionHistoryLimit"] for m in manifests if m["kind"] in {"Deployment", "DaemonSet"}}
    assert limits == {2}


def test_an_account_that_the_chart_makes_has_the_users_annotations(helm: Helm) -> None:
    annotated = r"operator.serviceAccount.annotations.eks\.amazonaws\.com/role-arn=arn"
    accounts = [item for item in helm.template(f"--set={annotated}") if item["kind"] == "ServiceAccount"]
    by_name = {account["metadata"]["name"]: account["metadata"].get("annotations", {}) for account in accounts}
    assert by_name["resource-slack"] == {"eks.amazonaws.com/role-arn": "arn"}


@pytest.mark.parametrize("flags", SETS.values(), ids=SETS)
def test_rendering_twice_gives_the_same(helm: Helm, flags: list[str]) -> None:
    assert helm.text(*flags) == helm.text(*flags)


def alert_rules(manifests: list[Json]) -> list[Json]:
    (found,) = [manifest for manifest in manifests if manifest["kind"] == "PrometheusRule"]
    return [rule for group in found["spec"]["groups"] for rule in group["rules"] if "alert" in rule]


def test_a_runbook_is_an_absolute_address(helm: Helm) -> None:
    def addresses(*flags: str) -> list[str]:
        on = "--set=operator.metrics.prometheusRule.enabled=true"
        return [rule["annotations"]["runbook_url"] for rule in alert_rules(helm.template(on, *flags))]

    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    home = f"{chart['home']}/blob/v{chart['appVersion']}/docs/runbooks"
    here = addresses()
    assert here
    assert all(link.startswith(f"{home}/") for link in here)
    for url in ("https://wiki.example.com/slack", "https://wiki.example.com/slack/"):
        there = addresses(f"--set=operator.metrics.prometheusRule.runbooksUrl={url}")
        assert there == [link.replace(home, "https://wiki.example.com/slack") for link in here]


@pytest.mark.parametrize(
    ("flags", "absent", "board"),
    [
        ("operator.enabled=true", "ResourceSlackNotLeading", "operator"),
        ("audit.enabled=true,audit.tls.secretName=cert", "SlackAuditAbsent", "audit"),
        ("loadWatcher.enabled=true", "ResourceSlackLoadWatcherAbsent", "scorer"),
        ("demand.enabled=true,demand.broker.url=nats://nats:4222", "ResourceSlackDemandNoLeader", "demand"),
        (f"throttler.enabled=true,{CERTIFICATES.removeprefix('--set=')}", "ResourceSlackThrottlerAbsent", "throttler"),
    ],
)
def test_a_release_has_the_rules_and_dashboards_of_its_components_only(
    helm: Helm, flags: str, absent: str, board: str
) -> None:
    on = f"{METRICS}.prometheusRule.enabled=true,{METRICS}.dashboard.enabled=true"
    manifests = helm.template("--kube-version=1.36", f"--set=operator.enabled=false,{on}", f"--set={flags}")
    fires_if_absent = [rule["alert"] for rule in alert_rules(manifests) if "absent(" in rule["expr"]]
    assert fires_if_absent == [absent]
    (found,) = [item for item in manifests if item["metadata"]["name"] == f"{RELEASE}-dashboard"]
    assert set(found["data"]) == {f"resource-slack-{board}.json"}


def test_the_page_opens_to_others_with_a_token_from_a_secret(helm: Helm) -> None:
    found = {
        manifest["kind"]: manifest
        for manifest in helm.template(*SETS["everything"])
        if manifest["kind"] != "ServiceAccount"
    }
    pod = found["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {"--web", "--web-listen=0.0.0.0:8081", "--web-token-file=/var/run/resource-slack/token"} <= {
        *container["args"]
    }
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in container["args"] if "=" in flag)
    settings = load(
        OperatorSettings, {"web": True} | {name.replace("-", "_"): value for name, value in flags.items()}, {}
    )
    assert host_port(settings.web_listen) == ("0.0.0.0", 8081)
    (mount,) = [
        candidate for candidate in container["volumeMounts"] if candidate["mountPath"] == "/var/run/resource-slack"
    ]
    assert mount["readOnly"] is True
    (volume,) = [candidate for candidate in pod["volumes"] if candidate["name"] == mount["name"]]
    assert volume["secret"]["secretName"] == "page"
    assert volume["secret"]["items"] == [{"key": "token", "path": "token"}]
    assert {"name": "web", "containerPort": 8081, "protocol": "TCP"} in container["ports"]
    assert "web" in [port["targetPort"] for port in found["Service"]["spec"]["ports"]]
    assert "web" in [port["port"] for rule in found["NetworkPolicy"]["spec"]["ingress"] for port in rule["ports"]]


@pytest.mark.parametrize(
    ("flags", "address", "port"),
    [
        ("loadWatcher.enabled=true", "http://resource-slack-load:2020", 2020),
        ("operator.web.loadWatcher=https://watcher.ops.svc:2443", "https://watcher.ops.svc:2443", 2443),
        ("operator.web.loadWatcher=https://watcher.ops.svc", "https://watcher.ops.svc", 443),
        ("scorer.enabled=false", None, None),
    ],
)
def test_the_page_asks_the_load_watcher_that_is_named_or_this_releases(
    helm: Helm, flags: str, address: str | None, port: int | None
) -> None:
    policies = "operator.networkPolicy.enabled=true,loadWatcher.networkPolicy.enabled=true"
    manifests = helm.template(f"--set={WEB}.listen=127.0.0.1:8081,{policies},{flags}")
    deployment = next(
        item for item in manifests if item["kind"] == "Deployment" and item["metadata"]["name"] == RELEASE
    )
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    told = [word for word in arguments if word.startswith("--web-load-watcher=")]
    assert told == ([f"--web-load-watcher={address}"] if address else [])
    networks = {item["metadata"]["name"]: item["spec"] for item in manifests if item["kind"] == "NetworkPolicy"}
    out = [rule["port"] for part in networks[RELEASE]["egress"] for rule in part["ports"]]
    assert out == [53, 53, *([port] if port else []), 443, 6443]
    if port == 2020:
        into = networks[f"{RELEASE}-load"]["ingress"][0]["from"]
        components = [part["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for part in into]
        assert components == ["scorer", "operator"]


@pytest.mark.parametrize(
    ("url", "port"), [("http://opencost.opencost:9003/metrics", 9003), ("https://costs.example.com/metrics", 443)]
)
def test_the_operator_asks_opencost_and_may_connect_to_it(helm: Helm, url: str, port: int) -> None:
    flags = f"operator.networkPolicy.enabled=true,openCost.url={url},prices.currency=USD"
    found = {item["kind"]: item for item in helm.template(f"--set={flags}") if item["metadata"]["name"] == RELEASE}
    words = found["Deployment"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert f"--open-cost={url}" in words
    assert any(word.startswith("--prices=") and '"currency":"USD"' in word for word in words)
    ports = [rule["port"] for part in found["NetworkPolicy"]["spec"]["egress"] for rule in part["ports"]]
    assert ports == [53, 53, port, 443, 6443]


def test_the_page_on_loopback_opens_no_port(helm: Helm) -> None:
    found = {manifest["kind"]: manifest for manifest in helm.template("--set=operator.web.enabled=true")}
    (container,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert "--web-listen=127.0.0.1:8081" in container["args"]
    assert [port["name"] for port in container["ports"]] == ["metrics"]
    assert [port["name"] for port in found["Service"]["spec"]["ports"]] == ["metrics"]


HOOKS = "helm.sh/hook"


def hooks(manifests: list[Json], when: str = "post-delete") -> list[Json]:
    return [item for item in manifests if item["metadata"].get("annotations", {}).get(HOOKS) == when]


@pytest.mark.parametrize("flag", ["operator.enabled=true", "operator.enabled=false"])
def test_uninstalling_cleans_up_whether_the_operator_is_on_or_off(helm: Helm, flag: str) -> None:
    manifests = helm.template(f"--set={flag}")
    assert {hook["kind"] for hook in hooks(manifests)} == {
        "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Job"
    }  # fmt: skip
    assert hooks(manifests) == hooks(helm.template())
    assert hooks(helm.template("--set=uninstall.enabled=false", f"--set={flag}")) == []


def test_a_hook_that_cannot_run_ends_before_helm_gives_up(helm: Helm) -> None:
    (job,) = [manifest for manifest in hooks(helm.template()) if manifest["kind"] == "Job"]
    assert 2 * 60 < job["spec"]["activeDeadlineSeconds"] < 300  # twice uninstall.waitSeconds; Helm's --timeout
    assert job["spec"]["ttlSecondsAfterFinished"] >= 600
    assert {hook["metadata"]["annotations"][f"{HOOKS}-delete-policy"] for hook in hooks(helm.template())} == {
        "before-hook-creation,hook-succeeded"
    }
    readme = (CHART / "README.md").read_text()
    labels = {"app.kubernetes.io/component": "uninstall", "app.kubernetes.io/instance": RELEASE}
    assert all(hook["metadata"]["labels"].items() >= labels.items() for hook in hooks(helm.template()))
    assert ",".join(f"{name}={value}" for name, value in labels.items()) in readme  # what deletes them by hand


def test_crds_are_changed_before_an_upgrade_by_a_job_that_may_touch_no_others(helm: Helm) -> None:
    before = hooks(helm.template(), "pre-upgrade")
    assert [item["kind"] for item in before] == ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Job"]
    (rule,) = before[1]["rules"]
    assert set(rule["resourceNames"]) == {f"{path.stem}.resource-slack.io" for path in CRDS.glob("*.yaml")}
    assert "delete" not in rule["verbs"]
    (container,) = before[3]["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["upgrade-crds"]
    assert before[3]["spec"]["activeDeadlineSeconds"] < 300  # Helm's --timeout
    assert hooks(helm.template("--set=crds.upgrade=false"), "pre-upgrade") == []


def test_every_pod_runs_on_linux_and_takes_what_its_values_say(helm: Helm) -> None:
    linux = {"kubernetes.io/os": "linux"}
    pods = every_pod(helm.template(*SETS["every component"]))
    assert set(pods) == {*PODS.values(), "uninstall", "crds"}
    for component, template in pods.items():
        spec = template["spec"]
        assert spec["nodeSelector"] == {**linux, "pool": "infra"}, component
        assert {"key": "infra", "operator": "Exists"} in spec["tolerations"], component
        if component in PODS.values():
            assert (spec["dnsPolicy"], spec["dnsConfig"]["options"][0]["name"]) == ("Default", "ndots"), component
            probe = spec["containers"][0]["livenessProbe"]
            assert probe["timeoutSeconds"] == 9, component
            assert probe["periodSeconds"] >= 20, "times that are not given stay the chart's"
    windows = r"--set=operator.nodeSelector.kubernetes\.io/os=windows"
    assert every_pod(helm.template(windows))["operator"]["spec"]["nodeSelector"] == {"kubernetes.io/os": "windows"}


def test_what_is_replicated_is_spread_and_has_a_budget(helm: Helm) -> None:
    zone = '[{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}]'
    replicated = {path: name for path, name in PODS.items() if path in {"operator", "scorer"} or "controller" in path}
    del replicated["audit.controller"]  # one at a time: agents report to the holder of the lease
    spread = [f"--set-json={path}.topologySpreadConstraints={zone}" for path in replicated]
    manifests = helm.template(*SETS["every component"], *spread)
    pods = every_pod(manifests)
    budgets = [item["spec"] for item in manifests if item["kind"] == "PodDisruptionBudget"]
    for component in replicated.values():
        labels = pods[component]["metadata"]["labels"].items()
        (budget,) = [found for found in budgets if found["selector"]["matchLabels"].items() <= labels]
        assert budget["maxUnavailable"] == 1
        own, users = pods[component]["spec"]["topologySpreadConstraints"]
        assert own["topologyKey"] == "kubernetes.io/hostname"
        assert own["labelSelector"]["matchLabels"].items() <= labels
        assert users["labelSelector"] == own["labelSelector"], "without one it would count no pod"
    assert len(budgets) == len(replicated)


def test_a_strategy_replaces_the_charts_whole(helm: Helm) -> None:
    flags = [*SETS["every component"], '--set-json=operator.strategy={"type": "Recreate"}']
    flags += ['--set-json=audit.agent.updateStrategy={"type": "OnDelete"}']
    by_name = {item["metadata"]["name"]: item["spec"] for item in helm.template(*flags) if "spec" in item}
    assert by_name[RELEASE]["strategy"] == {"type": "Recreate"}
    assert by_name[f"{RELEASE}-audit-agent"]["updateStrategy"] == {"type": "OnDelete"}


def test_pods_accept_connections_at_the_ports_of_their_containers_only(helm: Helm) -> None:
    meshes = {4143, 4191, 15008, 15020, 15021, 15090}
    of_the_stock_scheduler = {"scorer": {10259}}
    manifests = helm.template(*SETS["every component"])
    policies = [item["spec"] for item in manifests if item["kind"] == "NetworkPolicy"]
    pods = {name: pod for name, pod in every_pod(manifests).items() if name in PODS.values()}
    for component, pod in pods.items():
        labels = pod["metadata"]["labels"].items()
        (policy,) = [found for found in policies if found["podSelector"]["matchLabels"].items() <= labels]
        assert policy["policyTypes"] == ["Ingress"], "where pods connect to is not known to the chart"
        assert not any("from" in rule for rule in policy["ingress"])
        opened = {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
        ports = {port["containerPort"] for one in pod["spec"]["containers"] for port in one.get("ports", ())}
        assert opened == ports | meshes | of_the_stock_scheduler.get(component, set()), component
    assert len(policies) == len(pods)
    for flag in (
        "operator.hostNetwork=true",
        "networkPolicy.ingress=false",
        "operator.extraArgs[0]=--listen=[::]:9090",
    ):
        assert "NetworkPolicy" not in kinds(helm.template(f"--set={flag}")), flag
    (whole,) = [
        item for item in helm.template("--set=operator.networkPolicy.enabled=true") if item["kind"] == "NetworkPolicy"
    ]
    assert whole["spec"]["policyTypes"] == ["Ingress", "Egress"], "the component's own replaces it"


def test_objects_of_the_users_own_are_templates(helm: Helm) -> None:
    text = 'apiVersion: v1\nkind: Secret\nmetadata: {name: {{ include "resource-slack.fullname" . }}-text}\n'
    flag = "--set-json=extraObjects=" + json.dumps([text])
    assert f"{RELEASE}-text" in {item["metadata"]["name"] for item in helm.template(flag)}
    more = helm.template(*SETS["every component"])
    assert f"{RELEASE}-more" in {item["metadata"]["name"] for item in more if item["kind"] == "ConfigMap"}


def notes(helm: Helm, *flags: str, release: str = "mine") -> str:
    found = helm.run("install", release, CHART, "--namespace=spare", "--dry-run=client", *flags)
    assert found.returncode == 0, found.stderr
    return found.stdout.partition("NOTES:")[2]


def test_the_notes_name_this_release(helm: Helm) -> None:
    said = notes(helm)
    assert "kubectl slack status --namespace spare\n" in said
    assert "none yet" not in said
    assert "policies: {}" not in said
    assert f"helm show crds {CHART.name}" not in said
    assert "a Job of the release changes the CRDs first, if they differ" in said
    by_hand = notes(helm, "--set=crds.upgrade=false")
    assert "helm show crds CHART | kubectl apply --server-side --force-conflicts -f -" in by_hand
    assert "charts/resource-slack/crds" not in said


def test_the_notes_name_the_leaders_pod_and_warn_of_an_image_that_nobody_can_pull(helm: Helm) -> None:
    said = notes(helm, "--set=operator.web.enabled=true")
    assert "get lease resource-slack -o jsonpath='{.spec.holderIdentity}')" in said
    assert 'port-forward "${leader%_*}" 8081' in said
    assert "WARNING: the image resource-slack:" in said
    assert "docker build -t REGISTRY/resource-slack:" in said
    assert "docker push REGISTRY/resource-slack:" in said
    example = notes(helm, "--set=image.repository=registry.example.com/slack,image.tag=v9")
    assert "WARNING: the image registry.example.com/slack:v9 cannot be pulled: example.com is a placeholder" in example
    assert "docker build -t REGISTRY/resource-slack:v9 ." in example
    for good in ("ghcr.io/acme/resource-slack", "acme/resource-slack", "registry.corp:5000/resource-slack"):
        assert "cannot be pulled" not in notes(helm, f"--set=image.repository={good}")


def test_the_notes_say_which_policy_keeps_room(helm: Helm) -> None:
    none = notes(helm)
    assert "NO ROOM IS KEPT while the cluster has no SlackPolicy" in none
    assert "kubectl apply -f -" in none
    built_in = notes(helm, "--set=operator.builtInPolicy=true,operator.extraCapacityMinRate=0.2")
    assert "the built-in policy (operator.builtInPolicy): 20 % of what pods request" in built_in
    own = notes(helm, '--set-json=policies={"web": {}, "batch": {}}')
    assert "the policies of this release: batch, web." in own
    assert "Deleting the last SlackPolicy of the\n   cluster ends slack." in own
    both = notes(helm, '--set-json=policies={"web": {}}', "--set=operator.builtInPolicy=true")
    assert "a built-in one keeps 10 % of what pods request (operator.builtInPolicy)." in both
    for said in (built_in, own, both):
        assert "NO ROOM IS KEPT" not in said


def test_the_notes_say_what_stays_where_the_operator_is_off(helm: Helm) -> None:
    command = "resource-slack uninstall --yes --namespace spare --lease-name resource-slack"
    off = notes(helm, "--set=operator.enabled=false")
    assert "no placeholder is kept" not in off
    assert "placeholders that are there stay" in off
    assert command in off
    assert "`helm uninstall mine -n spare`" in off
    assert command in notes(helm, "--set=uninstall.enabled=false")


def kinds(manifests: list[Json]) -> set[str]:
    return {manifest["kind"] for manifest in manifests}


def rules(manifests: list[Json]) -> list[Json]:
    return [rule for manifest in manifests if manifest["kind"] == "ClusterRole" for rule in manifest["rules"]]


def test_what_is_off_is_not_rendered(helm: Helm) -> None:
    usual = kinds(helm.template())
    assert {"ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap"}.isdisjoint(usual)
    off = "--set=operator.enabled=false,rbac.aggregateClusterRoles=false"
    assert kinds(helm.template(off, "--no-hooks")) == {"PriorityClass"}
    assert kinds(helm.template(off, "--set=uninstall.enabled=false,crds.upgrade=false")) == {"PriorityClass"}
    assert "Job" not in kinds(helm.template("--set=uninstall.enabled=false,crds.upgrade=false"))
    assert "PriorityClass" not in kinds(helm.template("--set=priorityClass.create=false"))


def test_a_right_goes_with_what_needs_it(helm: Helm) -> None:
    def grants(resource: str, verb: str, *flags: str) -> bool:
        return any(resource in rule["resources"] and verb in rule["verbs"] for rule in rules(helm.template(*flags)))

    assert grants("pods/status", "patch")
    assert not grants("pods/status", "patch", "--set=operator.rescueStuckPreemptors=false")
    assert not grants("pods/status", "patch", "--set=operator.bound.enabled=false")
    assert not grants("limitranges", "list", "--set=operator.bound.enabled=false")
    usual, warm = (
        [rule for item in helm.template(*flags) if item["kind"] == "Role" for rule in item["rules"]]
        for flags in ((), ("--set=operator.warm.enabled=true",))
    )
    assert [rule for rule in warm if rule not in usual] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["resource-slack-warm"], "verbs": ["patch"]},
    ]
    unbound = [rule for item in helm.template("--set=operator.bound.enabled=false") for rule in item.get("rules", ())]
    assert not any("resourcequotas" in rule["resources"] and "create" in rule["verbs"] for rule in unbound)


def test_a_setting_that_changes_is_a_new_pod(helm: Helm) -> None:
    def template(*flags: str) -> Json:
        (found,) = [manifest for manifest in helm.template(*flags) if manifest["kind"] == "Deployment"]
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
    make_namespace(cluster.api, "media")  # that of the example of demand, which says so
    for flag in MONITORING:
        cluster.api.apply(flag)

    def served() -> bool:
        answer = cluster.api.find(f"/apis/{PROMETHEUS_OPERATOR}/v1") or {}
        return len({entry["kind"] for entry in answer.get("resources", [])}) == len(MONITORING)

    wait_until(served, 20, "the monitoring kinds to be served")
    yield cluster
    for flag in MONITORING:
        cluster.api.delete(cluster.api.path_of(flag))


def dry_run(api: Api, manifest: Json) -> Any:
    path = f"{api.path_of(manifest)}?fieldManager=e2e&force=true&dryRun=All&fieldValidation=Strict"
    return api.request("PATCH", path, manifest, "application/apply-patch+yaml")


def test_the_api_server_takes_every_manifest(monitored: Backend, helm: Helm) -> None:
    judged: set[str] = set()
    for flags in SETS.values():
        for manifest in helm.template(*flags):
            dry_run(monitored.api, manifest)
            judged.add(manifest["kind"])
    for manifest in helm.template(*UNTEXTUAL, release="123"):
        dry_run(monitored.api, manifest)
    assert {"Deployment", "Job", "NetworkPolicy", "PodDisruptionBudget", "SlackPolicy", "ResourceQuota"} <= judged
    assert {"ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap"} <= judged
    assert monitored.api.find(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/resource-slack") is None


def test_every_pod_of_the_chart_is_let_into_a_restricted_namespace(monitored: Backend, helm: Helm) -> None:
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    monitored.api.patch(f"/api/v1/namespaces/{NAMESPACE}", label)
    templates = [
        manifest["spec"]["template"] for manifest in helm.template() if manifest["kind"] in {"Deployment", "Job"}
    ]
    assert len(templates) == 3
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
    found = {
        manifest["kind"]: manifest
        for manifest in helm.template(*SETS["everything"])
        if manifest["kind"] != "ServiceAccount"
    }
    template = found["Deployment"]["spec"]["template"]
    ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
    service_ports = {port["name"] for port in found["Service"]["spec"]["ports"]}
    assert {endpoint["port"] for endpoint in found["ServiceMonitor"]["spec"]["endpoints"]} <= service_ports
    (pod_monitor,) = [manifest for manifest in helm.template(*SETS["pod monitor"]) if manifest["kind"] == "PodMonitor"]
    assert {endpoint["port"] for endpoint in pod_monitor["spec"]["podMetricsEndpoints"]} <= ports
    (usual,) = [manifest for manifest in helm.template() if manifest["kind"] == "Deployment"]
    usual_labels = usual["spec"]["template"]["metadata"]["labels"].items()
    assert pod_monitor["spec"]["selector"]["matchLabels"].items() <= usual_labels
    assert found["NetworkPolicy"]["spec"]["ingress"][0]["ports"][0]["port"] in ports
    labels = template["metadata"]["labels"].items()
    assert found["Service"]["spec"]["selector"].items() <= labels
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
