"""The auditor in the chart: rendered, judged by the real API server, with the rights that its suite uses."""

import base64
from pathlib import Path

import pytest
from cryptography import x509

from e2e.harness import auditing
from e2e.harness.api import Json
from e2e.harness.backend import Backend
from e2e.harness.helm import CHART, NAMESPACE, Helm
from e2e.harness.karpenter import install_crds
from e2e.harness.objects import make_namespace
from e2e.harness.operator import CRDS
from e2e.suites.test_chart import dry_run
from slack.process.audit_settings import AgentSettings, ControllerSettings, load

ALONE = [f"--values={CHART / 'examples' / 'audit.yaml'}"]
ON = "--set=audit.enabled=true"
EVERYTHING = [
    ON,
    "--set=audit.agent.writeBurst=true,audit.controller.enforcement=true,audit.networkPolicy.enabled=true",
    "--set=audit.policies.default.thresholds.warnRatio=0.1,audit.policies.default.enforce.resize.factor=1.5",
    "--set=audit.policies.default.mode=DryRun,audit.agent.podLabels.team=a,audit.controller.podAnnotations.team=a",
]


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"))


def one(manifests: list[Json], kind: str, component: str) -> Json:
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


@pytest.mark.parametrize("flags", [[ON], ALONE, EVERYTHING], ids=["on", "alone", "everything"])
def test_lint_has_nothing_to_say(helm: Helm, flags: list[str]) -> None:
    found = helm.run("lint", "--strict", CHART, *flags)
    assert found.returncode == 0, found.stdout + found.stderr


def test_nothing_of_it_is_there_unless_it_is_asked_for(helm: Helm) -> None:
    kinds = {item["kind"] for item in helm.template()}
    assert {"DaemonSet", "CpuAuditPolicy", "Secret"}.isdisjoint(kinds)


def test_a_release_of_its_own_has_nothing_of_the_operators(helm: Helm) -> None:
    components = {item["metadata"]["labels"]["app.kubernetes.io/component"] for item in helm.template(*ALONE)}
    assert components == {"audit-agent", "audit-controller", "cpu-audit-policy"}


def test_every_argument_is_a_setting_and_both_sides_mean_the_same(helm: Helm, tmp_path: Path) -> None:
    manifests = helm.template(*EVERYTHING)
    agent = load(AgentSettings, given(one(manifests, "DaemonSet", "audit-agent")), {"NODE_NAME": "node-1"})
    controller = load(ControllerSettings, given(one(manifests, "Deployment", "audit-controller")), {})
    assert agent.write_burst
    assert agent.node_name == "node-1"
    service = one(manifests, "Service", "audit-controller")
    assert agent.controller == f"https://{service['metadata']['name']}.{NAMESPACE}.svc:8443"
    assert controller.reports_host_port[1] == 8443
    account = one(manifests, "DaemonSet", "audit-agent")["spec"]["template"]["spec"]["serviceAccountName"]
    assert controller.agent_service_account == account


def test_the_certificate_is_for_the_name_that_agents_ask_for(helm: Helm) -> None:
    manifests = helm.template(ON)
    secret = one(manifests, "Secret", "audit-controller")
    certificate = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))
    authority = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["ca.crt"]))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    host = str(given(one(manifests, "DaemonSet", "audit-agent"))["controller"]).split("/")[2].split(":")[0]
    assert host in names.get_values_for_type(x509.DNSName)
    certificate.verify_directly_issued_by(authority)
    own = helm.template(ON, "--set=audit.tls.secretName=mine")
    assert "Secret" not in {item["kind"] for item in own}
    (tls,) = [
        volume["secret"]["secretName"]
        for volume in one(own, "Deployment", "audit-controller")["spec"]["template"]["spec"]["volumes"]
        if volume["name"] == "tls"
    ]
    assert tls == "mine"


@pytest.mark.parametrize("enforcement", [False, True])
def test_the_controllers_rights_are_those_that_its_suite_runs_with(helm: Helm, enforcement: bool) -> None:
    manifests = helm.template(ON, f"--set=audit.controller.enforcement={str(enforcement).lower()}")
    wanted = {
        (role["kind"], resource, verb)
        for role in auditing.rights(enforcement=enforcement)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    granted = {
        (kind, resource, verb)
        for kind in ("ClusterRole", "Role")
        for rule in one(manifests, kind, "audit-controller")["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == wanted


def test_agents_have_no_right_and_no_token_for_the_api_server(helm: Helm) -> None:
    manifests = helm.template(*EVERYTHING)
    pod = one(manifests, "DaemonSet", "audit-agent")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    bound = [subject["name"] for item in manifests for subject in item.get("subjects", [])]
    assert pod["serviceAccountName"] not in bound
    (projected,) = [volume["projected"] for volume in pod["volumes"] if "projected" in volume]
    (token,) = [source["serviceAccountToken"] for source in projected["sources"] if "serviceAccountToken" in source]
    assert token["audience"] == "resource-slack-audit"


def test_agents_run_as_nobody_and_only_read_unless_they_write_bursts(helm: Helm) -> None:
    usual = one(helm.template(ON), "DaemonSet", "audit-agent")
    assert usual["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] is True
    assert all(mount.get("readOnly") for mount in container(usual)["volumeMounts"])
    writing = one(helm.template(*EVERYTHING), "DaemonSet", "audit-agent")
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
    assert {"DaemonSet", "Deployment", "Secret", "CpuAuditPolicy", "NetworkPolicy", "ClusterRole"} <= judged


def test_the_controller_is_let_into_a_restricted_namespace_and_agents_are_not(cluster: Backend, helm: Helm) -> None:
    make_namespace(cluster.api, NAMESPACE)
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    cluster.api.patch(f"/api/v1/namespaces/{NAMESPACE}", label)

    def offer(manifest: Json) -> None:
        spec = {**manifest["spec"]["template"]["spec"], "serviceAccountName": "default"}
        metadata = {"name": "offered", "namespace": NAMESPACE}
        dry_run(cluster.api, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    manifests = helm.template(ON)
    offer(one(manifests, "Deployment", "audit-controller"))
    with pytest.raises(Exception, match="hostPath"):
        offer(one(manifests, "DaemonSet", "audit-agent"))
