"""The throttler in the chart: rendered, judged by the real API server, upgraded with the certificates that it has."""

import base64
from pathlib import Path

import pytest
from cryptography import x509

from e2e.harness.api import Json
from e2e.harness.autoscalers.karpenter import install_crds
from e2e.harness.cluster.backend import Backend
from e2e.harness.cluster.certificates import Authority
from e2e.harness.objects import make_namespace
from e2e.harness.product.helm import CHART, NAMESPACE, Helm
from e2e.harness.product.operator import CRDS
from e2e.harness.product.throttler import of_kind
from e2e.suites.test_chart import dry_run
from slack.process.settings import load
from slack.process.values import host_port
from slack_operator.throttler.agent.settings import ThrottlerAgentSettings
from slack_operator.throttler.controller.settings import ThrottlerControllerSettings

# What is rendered without a cluster has certificates that somebody else makes.
SECRETS = "--set=throttler.tls.secretName=cert,throttler.tls.authority=PEM,throttler.tls.agentSecretName=agent-cert"
ON = ["--kube-version=1.36", "--set=throttler.enabled=true", SECRETS]
ALONE = ["--kube-version=1.36", f"--values={CHART / 'examples' / 'throttler.yaml'}", SECRETS]
BY_CERT_MANAGER = ["--set=throttler.enabled=true,throttler.tls.certManager.enabled=true"]
BY_POLICY = [*ON, "--set=throttler.injection=AdmissionPolicy,throttler.tls.agentAuthority=PEM"]
BY_KEYS = [*ON, "--kube-version=1.31", "--set=throttler.backend=configmap"]
EVERYTHING = [
    *ON,
    "--set=throttler.networkPolicy.enabled=true,throttler.agent.deleteLatePods=true,throttler.failOpenAfter=1m30s",
    "--set=throttler.policies.default.startTimeout.then=Delete,throttler.policies.default.maxShare=0.5",
    "--set=throttler.agent.podLabels.team=a,throttler.controller.podAnnotations.team=a,throttler.agent.port=7999",
]


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"))


def given(manifest: Json) -> dict[str, object]:
    """The settings that a pod's arguments give."""
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    flags = (flag.removeprefix("--").partition("=") for flag in container["args"][2:])
    return {name.replace("-", "_"): value if equals else True for name, equals, value in flags}


@pytest.mark.parametrize(
    "flags",
    [ON, ALONE, EVERYTHING, BY_POLICY, BY_CERT_MANAGER, ["--set=throttler.enabled=true"], BY_KEYS],
    ids=["on", "alone", "everything", "policy", "cert-manager", "certificates of the chart's", "keys"],
)
def test_lint_has_nothing_to_say(helm: Helm, flags: list[str]) -> None:
    found = helm.run("lint", "--strict", CHART, *(flag for flag in flags if not flag.startswith("--kube-version")))
    assert found.returncode == 0, found.stdout + found.stderr


def test_nothing_of_it_is_there_unless_it_is_asked_for(helm: Helm) -> None:
    kinds = {item["kind"] for item in helm.template()}
    assert {"DaemonSet", "ThrottlePolicy", "MutatingWebhookConfiguration", "MutatingAdmissionPolicy"}.isdisjoint(kinds)


def test_a_release_of_its_own_has_nothing_of_the_operators(helm: Helm) -> None:
    components = {item["metadata"]["labels"]["app.kubernetes.io/component"] for item in helm.template(*ALONE)}
    assert components == {"throttler-agent", "throttler-controller", "throttle-policy", "crds", "roles"}


def test_every_argument_is_a_setting_and_both_sides_mean_the_same(helm: Helm) -> None:
    manifests = helm.template(*EVERYTHING)
    agents = of_kind(manifests, "DaemonSet")
    agent = load(ThrottlerAgentSettings, given(agents), {"NODE_NAME": "node-1"})
    (deployment,) = [
        item
        for item in manifests
        if (item["kind"], item["metadata"]["name"]) == ("Deployment", "resource-slack-throttler")
    ]
    controller = load(ThrottlerControllerSettings, given(deployment), {})
    ports = {port["name"]: port for port in agents["spec"]["template"]["spec"]["containers"][0]["ports"]}
    assert host_port(agent.gates_listen)[1] == ports["gates"]["containerPort"]
    assert controller.agent_port == ports["gates"]["hostPort"] == 7999
    assert controller.fail_open_after == 90.0
    assert host_port(controller.webhook_listen)[1] == 8443


def gate_policy(manifests: list[Json]) -> Json:
    """Return the policy that gives pods their gates."""
    (found,) = [
        item
        for item in manifests
        if (item["kind"], item["metadata"]["name"]) == ("MutatingAdmissionPolicy", "resource-slack-throttler")
    ]
    return found


def test_resources_of_the_gate_reach_both_ways_of_injection(helm: Helm) -> None:
    flags = "--set=throttler.gate.resources.requests.cpu=10m,throttler.gate.resources.limits.memory=64Mi"
    manifests = helm.template(*BY_POLICY, flags)
    (deployment,) = [
        item for item in manifests if item["kind"] == "Deployment" and "throttler" in str(item["metadata"])
    ]
    controller = load(ThrottlerControllerSettings, given(deployment), {})
    assert (controller.gate_requests, controller.gate_limits) == ({"cpu": "10m"}, {"memory": "64Mi"})
    expression = str(gate_policy(manifests)["spec"]["mutations"][0]["jsonPatch"]["expression"])
    assert 'requests: {"cpu": "10m", ?"ephemeral-storage": ' in expression, "of a pod of class BestEffort"
    less = '(quantity("64Mi").isLessThan(quantity("32Mi")) ? "64Mi" : "32Mi")'
    assert f'requests: {{"cpu": "10m", "memory": {less}, ' in expression, "of any other"
    assert expression.count('{"cpu": "10m", "memory": "64Mi", ?') == 2, "a Guaranteed pod stays so"


def test_gates_are_fitted_into_limit_ranges_wherever_the_api_server_can_do_it(helm: Helm) -> None:
    served = "--api-versions=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"

    def policies(*flags: str) -> set[str]:
        found = [item for item in helm.template(*flags) if item["kind"] == "MutatingAdmissionPolicy"]
        return {item["metadata"]["name"] for item in found}

    fitted = {"resource-slack-throttler-limit-ranges"}
    assert policies(*ON) == set()
    assert policies(*ON, served) == fitted
    assert policies(*BY_POLICY) == {*fitted, "resource-slack-throttler"}
    assert policies(*BY_KEYS, served) == set(), "there is no gate"


def test_both_ways_of_injection_tell_gates_the_same_time(helm: Helm) -> None:
    found = gate_policy(helm.template(*BY_POLICY, "--set=throttler.failOpenAfter=1h1m30s"))
    assert '"THROTTLER_FAIL_OPEN_AFTER", value: "3690"' in str(found["spec"]["mutations"][0]["jsonPatch"]["expression"])


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--set=throttler.enabled=true"], "throttler.tls: without a cluster to look into"),
        ([*ON, "--set=throttler.tls.authority="], "throttler.tls.authority: is needed"),
        ([*BY_POLICY, "--set=throttler.tls.agentAuthority="], "throttler.tls.agentAuthority: is needed"),
        (
            [*ON, "--set=throttler.policies.x.startTimeout.then=Delete"],
            "throttler.policies.x.startTimeout.then: Delete",
        ),
        ([*ON, "--set=throttler.agent.hostNetwork=true,throttler.agent.port=7000"], "throttler.agent.port: on the"),
        ([*ON, "--set=throttler.policies.x.maxCpu=80%"], "maxCpu"),
        ([*ON, "--set=throttler.injection=Both"], "injection"),
        ([*ON, "--set=throttler.backend=memory"], "backend"),
        ([*BY_POLICY, "--set=throttler.backend=configmap"], "AdmissionPolicy goes with throttler.backend=file"),
        ([*ON, "--set=throttler.namespaces={Shop}"], "namespaces"),
        (
            [*BY_KEYS, "--set=throttler.agent.deleteLatePods=true"],
            "throttler.agent.deleteLatePods: needs Kubernetes 1.32 or newer, and this is v1.31",
        ),
        ([*ON, "--set=throttler.webhook.timeoutSeconds=0"], "timeoutSeconds"),
    ],
)
def test_what_cannot_work_is_refused_by_the_value_s_name(helm: Helm, flags: list[str], said: str) -> None:
    found = helm.run("template", "resource-slack", CHART, f"--namespace={NAMESPACE}", *flags)
    assert found.returncode != 0
    assert said in found.stderr


def test_agents_may_change_no_pod_and_the_controller_evicts_only_where_it_is_asked_for(helm: Helm) -> None:
    def verbs(flags: list[str], account: str) -> set[tuple[str, str]]:
        return {
            (resource, verb)
            for item in helm.template(*flags)
            if item["kind"] == "ClusterRole" and item["metadata"]["labels"]["app.kubernetes.io/component"] == account
            for rule in item["rules"]
            for resource in rule["resources"]
            if resource.startswith("pods")
            for verb in rule["verbs"]
        }

    agents = {("pods", "list"), ("pods", "watch")}
    assert (verbs(ON, "throttler-agent"), verbs(EVERYTHING, "throttler-agent")) == (agents, agents)
    assert verbs(ON, "throttler-controller") == set()
    assert verbs(EVERYTHING, "throttler-controller") == {("pods", "get"), ("pods/eviction", "create")}
    named = helm.template(*EVERYTHING, "--set=throttler.namespaces={shop,web}")
    roles = [item for item in named if item["metadata"]["name"] == "resource-slack-throttler-evictions"]
    assert {(item["kind"], item["metadata"].get("namespace")) for item in roles if "rules" in item} == {
        ("Role", "shop"),
        ("Role", "web"),
    }


def test_config_maps_and_pods_may_be_written_with_that_backend_only_and_only_where_it_is_told(helm: Helm) -> None:
    def writes(flags: list[str]) -> set[tuple[str, str, str]]:
        return {
            (item["kind"], item["metadata"].get("namespace", ""), resource)
            for item in helm.template(*flags)
            if item["kind"] in ("ClusterRole", "Role") and "throttler" in item["metadata"]["name"]
            for rule in item["rules"]
            for resource in rule["resources"]
            if resource in ("configmaps", "pods") and {"create", "patch"} & set(rule["verbs"])
        }

    assert writes(ON) == set()
    assert writes(BY_KEYS) == {("ClusterRole", "", "configmaps"), ("ClusterRole", "", "pods")}
    where = [*BY_KEYS, "--set=throttler.namespaces={shop,web}"]
    assert writes(where) == {("Role", name, what) for name in ("shop", "web") for what in ("configmaps", "pods")}
    webhooks = of_kind(helm.template(*where), "MutatingWebhookConfiguration")["webhooks"]
    only = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["shop", "web"]}
    assert all(only in webhook["namespaceSelector"]["matchExpressions"] for webhook in webhooks)


def test_who_waits_for_the_controller_is_let_in_once_the_release_is_gone(helm: Helm) -> None:
    def hooks(flags: list[str]) -> dict[str, Json]:
        items = [item for item in helm.template(*flags) if "throttler-release" in item["metadata"]["name"]]
        assert all(item["metadata"]["annotations"]["helm.sh/hook"] == "post-delete" for item in items)
        return {item["kind"]: item for item in items}

    assert hooks(ON) == {}
    found = hooks([*BY_KEYS, "--set=throttler.namespaces={shop}"])
    assert found.keys() == {"Job", "ServiceAccount", "Role", "RoleBinding"}
    (container,) = found["Job"]["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["throttler", "release", "--yes", "--namespace=shop"]
    weight = {kind: int(item["metadata"]["annotations"]["helm.sh/hook-weight"]) for kind, item in found.items()}
    assert weight["ServiceAccount"] < weight["RoleBinding"] < weight["Job"]


@pytest.mark.parametrize("flags", [EVERYTHING, BY_POLICY, BY_KEYS], ids=["webhook", "policy", "keys"])
def test_the_api_server_takes_everything(cluster: Backend, helm: Helm, flags: list[str], tmp_path: Path) -> None:
    install_crds(cluster.api, CRDS)
    make_namespace(cluster.api, NAMESPACE)
    pem = Authority.create(tmp_path).certificate_path
    files = f"--set-file=throttler.tls.authority={pem},throttler.tls.agentAuthority={pem}"
    judged = set()
    for manifest in helm.template(*flags, files):
        dry_run(cluster.api, manifest)
        judged.add(manifest["kind"])
    assert judged >= {"DaemonSet", "Deployment", "Service", "ThrottlePolicy"}
    assert judged & {"MutatingWebhookConfiguration", "MutatingAdmissionPolicyBinding"}


def test_the_certificates_are_for_the_names_that_are_asked_for_and_survive_an_upgrade(
    cluster: Backend, tmp_path: Path
) -> None:
    helm = Helm(tmp_path, cluster.kubeconfig)
    where = [
        f"--namespace={NAMESPACE}",
        f"--values={CHART / 'examples' / 'throttler.yaml'}",
        "--set=fullnameOverride=resource-slack",
    ]
    installed = helm.run("install", "resource-slack", CHART, "--create-namespace", *where)
    assert installed.returncode == 0, installed.stderr
    names = ("resource-slack-throttler-tls", "resource-slack-throttler-agent-tls")
    paths = {name: f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}" for name in names}
    secrets = {name: cluster.api.get(path)["data"] for name, path in paths.items()}
    hosts = {
        "resource-slack-throttler-tls": f"resource-slack-throttler.{NAMESPACE}.svc",
        "resource-slack-throttler-agent-tls": f"agent.resource-slack-throttler.{NAMESPACE}",
    }
    for name, data in secrets.items():
        certificate = x509.load_pem_x509_certificate(base64.b64decode(data["tls.crt"]))
        authority = x509.load_pem_x509_certificate(base64.b64decode(data["ca.crt"]))
        known = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert hosts[name] in known.get_values_for_type(x509.DNSName)
        certificate.verify_directly_issued_by(authority)
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/resource-slack-throttler"

    def bundles() -> set[str]:
        return {webhook["clientConfig"]["caBundle"] for webhook in cluster.api.get(path)["webhooks"]}

    assert bundles() == {secrets["resource-slack-throttler-tls"]["ca.crt"]}
    upgraded = helm.run("upgrade", "resource-slack", CHART, *where, "--set=throttler.logLevel=debug")
    assert upgraded.returncode == 0, upgraded.stderr
    assert {name: cluster.api.get(path)["data"] for name, path in paths.items()} == secrets
    assert bundles() == {secrets["resource-slack-throttler-tls"]["ca.crt"]}
    switched = helm.run("upgrade", "resource-slack", CHART, *where, "--set=throttler.injection=AdmissionPolicy")
    assert switched.returncode == 0, switched.stderr
    assert cluster.api.find(path) is None
    gone = helm.run("uninstall", "resource-slack", f"--namespace={NAMESPACE}")
    assert gone.returncode == 0, gone.stderr
    assert [cluster.api.find(path) for path in paths.values()] == [None, None]
