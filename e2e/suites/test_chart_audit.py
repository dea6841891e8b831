"""The auditor in the chart: rendered, judged by the real API server, with the rights that its suite uses."""

import base64
from pathlib import Path

import pytest
from cryptography import x509

from e2e.harness.api import Json
from e2e.harness.autoscalers.karpenter import install_crds
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import make_namespace
from e2e.harness.product import audit_controller
from e2e.harness.product.helm import CHART, NAMESPACE, Helm
from e2e.harness.product.operator import CRDS
from e2e.suites.test_chart import dry_run
from slack.process.settings import load
from slack.process.values import host_port
from slack_operator.auditor.agent.settings import AgentSettings
from slack_operator.auditor.controller.settings import ControllerSettings

# What is rendered without a cluster has a certificate that somebody else makes.
ON = "--set=audit.enabled=true,audit.tls.secretName=cert"
ALONE = [f"--values={CHART / 'examples' / 'audit.yaml'}", "--set=audit.tls.secretName=cert"]
BY_CERT_MANAGER = "--set=audit.enabled=true,audit.tls.certManager.enabled=true"
EVERYTHING = [
    ON,
    "--set=audit.agent.writeBurst=true,audit.controller.enforcement=true,audit.networkPolicy.enabled=true",
    "--set=audit.policies.default.thresholds.warnRatio=0.1,audit.policies.default.enforce.resize.factor=1.5",
    "--set=audit.policies.default.mode=DryRun,audit.agent.podLabels.team=a,audit.controller.podAnnotations.team=a",
]


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"))


def only(manifests: list[Json], kind: str, component: str) -> Json:
    (found,) = [
        item
        for item in manifests
        if item["kind"] == kind and item["metadata"]["labels"]["app.kubernetes.io/component"] == component
    ]
    return found


def container(manifest: Json) -> Json:
    (found,) = manifest["spec"]["template"]["spec"]["containers"]
    body: Json = found
    return body


def given(manifest: Json) -> dict[str, object]:
    """The settings that a pod's arguments give."""
    flags = (flag.removeprefix("--").partition("=") for flag in container(manifest)["args"][2:])
    return {name.replace("-", "_"): value if equals else True for name, equals, value in flags}


@pytest.mark.parametrize(
    "flags",
    [[ON], ALONE, EVERYTHING, ["--set=audit.enabled=true"], [BY_CERT_MANAGER]],
    ids=["on", "alone", "everything", "certificate of the chart's", "cert-manager"],
)
def test_lint_has_nothing_to_say(helm: Helm, flags: list[str]) -> None:
    found = helm.run("lint", "--strict", CHART, *flags)
    assert found.returncode == 0, found.stdout + found.stderr


def test_nothing_of_it_is_there_unless_it_is_asked_for(helm: Helm) -> None:
    kinds = {item["kind"] for item in helm.template()}
    assert {"DaemonSet", "CpuAuditPolicy", "Secret"}.isdisjoint(kinds)


def test_a_release_of_its_own_has_nothing_of_the_operators(helm: Helm) -> None:
    components = {item["metadata"]["labels"]["app.kubernetes.io/component"] for item in helm.template(*ALONE)}
    assert components == {"audit-agent", "audit-controller", "cpu-audit-policy", "crds", "roles"}


def test_every_argument_is_a_setting_and_both_sides_mean_the_same(helm: Helm, tmp_path: Path) -> None:
    manifests = helm.template(*EVERYTHING)
    agent = load(AgentSettings, given(only(manifests, "DaemonSet", "audit-agent")), {"NODE_NAME": "node-1"})
    controller = load(ControllerSettings, given(only(manifests, "Deployment", "audit-controller")), {})
    assert agent.write_burst
    assert agent.node_name == "node-1"
    service = only(manifests, "Service", "audit-controller")
    assert agent.controller == f"https://{service['metadata']['name']}.{NAMESPACE}.svc:8443"
    assert host_port(controller.reports_listen)[1] == 8443
    account = only(manifests, "DaemonSet", "audit-agent")["spec"]["template"]["spec"]["serviceAccountName"]
    assert controller.agent_service_account == account


SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/resource-slack-audit-tls"


def test_the_certificate_is_for_the_name_that_agents_ask_for_and_survives_an_upgrade(
    cluster: Backend, tmp_path: Path
) -> None:
    helm = Helm(tmp_path, cluster.kubeconfig)
    alone = f"--values={CHART / 'examples' / 'audit.yaml'}"
    where = [f"--namespace={NAMESPACE}", alone, "--set=fullnameOverride=resource-slack"]
    installed = helm.run("install", "resource-slack", CHART, "--create-namespace", *where)
    assert installed.returncode == 0, installed.stderr
    secret = cluster.api.get(SECRET)
    manifests = helm.template(*where[1:], "--set=audit.tls.secretName=cert")
    certificate = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))
    authority = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["ca.crt"]))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    host = str(given(only(manifests, "DaemonSet", "audit-agent"))["controller"]).split("/")[2].split(":")[0]
    assert host in names.get_values_for_type(x509.DNSName)
    certificate.verify_directly_issued_by(authority)
    upgraded = helm.run("upgrade", "resource-slack", CHART, *where, "--set=audit.logLevel=debug,commonLabels.team=a")
    assert upgraded.returncode == 0, upgraded.stderr
    after = cluster.api.get(SECRET)
    assert after["metadata"]["labels"]["team"] == "a"
    assert after["data"] == secret["data"]
    back = helm.run("rollback", "resource-slack", "1", f"--namespace={NAMESPACE}")
    assert back.returncode == 0, back.stderr
    assert cluster.api.get(SECRET)["data"] == secret["data"]
    gone = helm.run("uninstall", "resource-slack", f"--namespace={NAMESPACE}")
    assert gone.returncode == 0, gone.stderr
    assert cluster.api.find(SECRET) is None


def mounted(manifests: list[Json]) -> tuple[str, str]:
    """The Secrets that the controller and the agents read."""

    def volumes(kind: str, component: str) -> list[Json]:
        found: list[Json] = only(manifests, kind, component)["spec"]["template"]["spec"]["volumes"]
        return found

    controller = [
        volume["secret"]["secretName"] for volume in volumes("Deployment", "audit-controller") if "secret" in volume
    ]
    (projected,) = [volume["projected"] for volume in volumes("DaemonSet", "audit-agent") if "projected" in volume]
    agents = [source["secret"]["name"] for source in projected["sources"] if "secret" in source]
    ((first,), (second,)) = controller, agents
    return first, second


def test_what_renders_without_a_cluster_makes_no_certificate_and_says_the_two_ways(helm: Helm) -> None:
    found = helm.run("template", "resource-slack", CHART, "--set=audit.enabled=true")
    assert found.returncode != 0
    assert "audit.tls.secretName" in found.stderr
    assert "audit.tls.certManager.enabled=true" in found.stderr
    own = helm.template(ON)
    assert "Secret" not in {item["kind"] for item in own}
    assert mounted(own) == ("cert", "cert")


@pytest.mark.parametrize("flags", [[ON], EVERYTHING, [BY_CERT_MANAGER]], ids=["on", "everything", "cert-manager"])
def test_rendering_twice_gives_the_same(helm: Helm, flags: list[str]) -> None:
    assert helm.text(*flags) == helm.text(*flags)


def test_cert_manager_makes_the_certificate_by_an_authority_of_the_releases_own_or_by_one_that_is_named(
    helm: Helm,
) -> None:
    own = helm.template(BY_CERT_MANAGER)
    certificates = {item["metadata"]["name"]: item["spec"] for item in own if item["kind"] == "Certificate"}
    issuers = {item["metadata"]["name"]: item["spec"] for item in own if item["kind"] == "Issuer"}
    leaf, authority = certificates["resource-slack-audit"], certificates["resource-slack-audit-ca"]
    assert mounted(own) == (leaf["secretName"], leaf["secretName"])
    host = str(given(only(own, "DaemonSet", "audit-agent"))["controller"]).split("/")[2].split(":")[0]
    assert host in leaf["dnsNames"]
    assert issuers[leaf["issuerRef"]["name"]] == {"ca": {"secretName": authority["secretName"]}}
    assert issuers[authority["issuerRef"]["name"]] == {"selfSigned": {}}
    assert authority["isCA"] is True
    named = helm.template(
        BY_CERT_MANAGER,
        "--set=audit.tls.certManager.issuerRef.name=corp,audit.tls.certManager.issuerRef.kind=ClusterIssuer",
    )
    (certificate,) = [item["spec"] for item in named if item["kind"] == "Certificate"]
    assert certificate["issuerRef"] == {"name": "corp", "kind": "ClusterIssuer", "group": "cert-manager.io"}
    assert "Issuer" not in {item["kind"] for item in named}


@pytest.mark.parametrize("enforcement", [False, True])
def test_the_controllers_rights_are_those_that_its_suite_runs_with(helm: Helm, enforcement: bool) -> None:
    manifests = helm.template(ON, f"--set=audit.controller.enforcement={str(enforcement).lower()}")
    wanted = {
        (role["kind"], resource, verb)
        for role in audit_controller.rights(enforcement=enforcement)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    granted = {
        (kind, resource, verb)
        for kind in ("ClusterRole", "Role")
        for rule in only(manifests, kind, "audit-controller")["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == wanted


def test_agents_have_no_right_and_no_token_for_the_api_server(helm: Helm) -> None:
    manifests = helm.template(*EVERYTHING)
    pod = only(manifests, "DaemonSet", "audit-agent")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    bound = [subject["name"] for item in manifests for subject in item.get("subjects", [])]
    assert pod["serviceAccountName"] not in bound
    (projected,) = [volume["projected"] for volume in pod["volumes"] if "projected" in volume]
    (token,) = [source["serviceAccountToken"] for source in projected["sources"] if "serviceAccountToken" in source]
    assert token["audience"] == "resource-slack-audit"


def test_agents_run_as_nobody_and_only_read_unless_they_write_bursts(helm: Helm) -> None:
    usual = only(helm.template(ON), "DaemonSet", "audit-agent")
    assert usual["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] is True
    assert all(mount.get("readOnly") for mount in container(usual)["volumeMounts"])
    # A kind node on cgroup v1 has its hierarchies in a private mount, and containerd refuses what is to follow it.
    assert not any("mountPropagation" in mount for mount in container(usual)["volumeMounts"])
    writing = only(helm.template(*EVERYTHING), "DaemonSet", "audit-agent")
    assert writing["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == 0
    for manifest in (usual, writing):
        context = container(manifest)["securityContext"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert "cpu" not in container(manifest)["resources"]["limits"]


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("audit.enable=true", "'/audit': additional properties 'enable' not allowed"),
        ("audit.agent.interval=10", "'/audit/agent/interval'"),
        ("audit.policies.default.threshold.warnRatio=0.1", "additional properties 'threshold' not allowed"),
        ("audit.policies.default.mode=Fix", "'/audit/policies/default/mode': value must be one of"),
    ],
)
def test_a_bad_value_is_refused_by_its_name(helm: Helm, flag: str, words: str) -> None:
    found = helm.run("template", "resource-slack", CHART, f"--set={flag}")
    assert found.returncode != 0
    assert words in found.stderr


def test_the_api_server_takes_every_manifest(cluster: Backend, helm: Helm) -> None:
    install_crds(cluster.api, CRDS)
    make_namespace(cluster.api, NAMESPACE)
    judged = set()
    for flags in ([ON], ALONE, EVERYTHING):
        for manifest in helm.template(*flags):
            dry_run(cluster.api, manifest)
            judged.add(manifest["kind"])
    assert {"DaemonSet", "Deployment", "CpuAuditPolicy", "NetworkPolicy", "ClusterRole"} <= judged


def test_the_controller_is_let_into_a_restricted_namespace_and_agents_are_not(cluster: Backend, helm: Helm) -> None:
    make_namespace(cluster.api, NAMESPACE)
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    cluster.api.patch(f"/api/v1/namespaces/{NAMESPACE}", label)

    def offer(manifest: Json) -> None:
        spec = {**manifest["spec"]["template"]["spec"], "serviceAccountName": "default"}
        metadata = {"name": "offered", "namespace": NAMESPACE}
        dry_run(cluster.api, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    manifests = helm.template(ON)
    offer(only(manifests, "Deployment", "audit-controller"))
    with pytest.raises(Exception, match="hostPath"):
        offer(only(manifests, "DaemonSet", "audit-agent"))
