"""`deploy/operator.yaml`, what clusters without Helm apply: the chart with default values."""

from pathlib import Path
from typing import Any

import yaml

from slack.cluster.labels import LABEL_RELEASE, PRIORITY_CLASS, SOFT_TAINT
from slack.planner.objects.manifests import PRIORITY
from slack.process.settings import declared_settings, load
from slack_operator.settings import OperatorSettings
from tests.cases import run_for_each

ROOT = Path(__file__).parents[2]
EVERYTHING: list[dict[str, Any]] = list(yaml.safe_load_all((ROOT / "deploy" / "operator.yaml").read_text()))
FOR_PEOPLE = "roles"
"""The component of roles that no process has: the cluster's own roles of people take them over."""
MANIFESTS = [item for item in EVERYTHING if item["metadata"]["labels"]["app.kubernetes.io/component"] != FOR_PEOPLE]
READS = {"get", "list", "watch"}


ELSEWHERE = "kube-system"
"""Where the one ConfigMap is that the operator may read."""


def one(kind: str, *, elsewhere: bool = False) -> dict[str, Any]:
    (found,) = [
        item
        for item in MANIFESTS
        if item["kind"] == kind and (item["metadata"].get("namespace") == ELSEWHERE) == elsewhere
    ]
    return found


def rights(kind: str) -> set[tuple[str, str]]:
    return {(resource, verb) for rule in one(kind)["rules"] for resource in rule["resources"] for verb in rule["verbs"]}


def test_roles_for_people_are_bound_to_nobody_and_name_every_kind_of_ours() -> None:
    view, edit = (item for item in EVERYTHING if item not in MANIFESTS)
    bound = {item["roleRef"]["name"] for item in MANIFESTS if "roleRef" in item}
    assert not bound & {view["metadata"]["name"], edit["metadata"]["name"]}
    plurals = {path.stem for path in (ROOT / "charts" / "resource-slack" / "crds").glob("*.yaml")}
    (read,) = view["rules"]
    assert set(read["resources"]) == plurals
    assert set(read["verbs"]) == READS
    written = {resource for rule in edit["rules"] for resource in rule["resources"] if "/" not in resource}
    # A quota limits those who have the role; reports and histories are written by processes.
    assert plurals - written == {"activationquotas", "cpuauditreports", "slackhistories"}
    assert view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert "rbac.authorization.k8s.io/aggregate-to-view" not in edit["metadata"]["labels"]


def test_nothing_is_granted_by_a_wildcard_and_no_secret_can_be_read() -> None:
    everything = rights("ClusterRole") | rights("Role")
    assert not any("*" in word for pair in everything for word in pair)
    assert not {"secrets", "configmaps"} & {resource for resource, _ in everything}


def test_elsewhere_it_may_read_the_status_of_cluster_autoscaler_and_nothing_else() -> None:
    assert one("Role", elsewhere=True)["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["cluster-autoscaler-status"],
            "verbs": ["get"],
        }
    ]
    assert one("RoleBinding", elsewhere=True)["subjects"] == one("RoleBinding")["subjects"]


def test_outside_its_namespace_the_operator_writes_status_replicas_events_and_its_priority_class_only() -> None:
    assert {(resource, verb) for resource, verb in rights("ClusterRole") if verb not in READS} == {
        ("slackpolicies/status", "patch"),
        ("slackpolicies/scale", "patch"),
        ("events", "create"),
        ("events", "patch"),
        ("pods/status", "patch"),
        ("nodes", "patch"),
        ("priorityclasses", "create"),
        ("priorityclasses", "patch"),
    }
    (patched,) = [
        rule
        for rule in one("ClusterRole")["rules"]
        if "priorityclasses" in rule["resources"] and "patch" in rule["verbs"]
    ]
    assert patched["resourceNames"] == ["resource-slack"]


def test_of_a_node_it_may_change_one_label() -> None:
    admission = one("ValidatingAdmissionPolicy")
    account = one("ServiceAccount")["metadata"]
    (condition,) = admission["spec"]["matchConditions"]
    user = f"system:serviceaccount:{account['namespace']}:{account['name']}"
    assert condition["expression"] == f"request.userInfo.username == '{user}'"
    assert admission["spec"]["failurePolicy"] == "Fail"
    assert LABEL_RELEASE in admission["spec"]["validations"][0]["expression"]
    taints = admission["spec"]["validations"][1]["expression"]
    assert f"t.key != '{SOFT_TAINT}' || t in variables.taintsBefore" in taints, "off: it may be removed only"
    assert one("ValidatingAdmissionPolicyBinding")["spec"] == {
        "policyName": admission["metadata"]["name"],
        "validationActions": ["Deny"],
    }


def test_in_its_namespace_it_writes_placeholders_and_its_lease() -> None:
    written = {resource for resource, verb in rights("Role") if verb not in READS}
    assert written == {
        "replicasets",
        "pods",
        "pods/status",
        "leases",
        "resourcequotas",
        "slackscales/status",
        "slackhistories",
    }


def test_the_pod_passes_the_restricted_standard() -> None:
    spec = one("Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]
    assert {"hostNetwork", "hostPID", "hostIPC"}.isdisjoint(spec)


def test_two_replicas_that_leave_one_at_a_time() -> None:
    deployment, budget = one("Deployment"), one("PodDisruptionBudget")
    assert deployment["spec"]["replicas"] == 2
    assert budget["spec"]["maxUnavailable"] == 1
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for selector in (
        deployment["spec"]["selector"]["matchLabels"],
        budget["spec"]["selector"]["matchLabels"],
        one("Service")["spec"]["selector"],
    ):
        assert selector.items() <= labels.items()


def test_every_argument_is_a_setting_with_the_default_that_the_operator_has() -> None:
    (container,) = one("Deployment")["spec"]["template"]["spec"]["containers"]
    command, *flags = container["args"]
    assert command == "operator"
    given = {name: value for name, _, value in (flag.removeprefix("--").partition("=") for flag in flags)}
    values: dict[str, object] = {name.replace("-", "_"): value or True for name, value in given.items()}
    settings = load(OperatorSettings, values, {}, files={})
    by_hand = OperatorSettings()
    changed = {
        setting.name
        for setting in declared_settings(OperatorSettings)
        if getattr(settings, setting.name) != getattr(by_hand, setting.name)
    }
    assert changed == {"listen", "log_format"}


def test_the_priority_class_is_the_operators_own() -> None:
    found = one("PriorityClass")
    assert found["metadata"]["name"] == PRIORITY_CLASS
    assert found["value"] == PRIORITY
    assert found["preemptionPolicy"] == "Never"
    assert found["globalDefault"] is False


def test_hooks_are_left_to_helm() -> None:
    for item in MANIFESTS:
        assert "helm.sh/hook" not in item["metadata"].get("annotations", {}), item["metadata"]["name"]


@run_for_each("item", EVERYTHING, ids=lambda item: item["kind"])
def test_every_object_has_kubernetes_recommended_labels(item: dict[str, Any]) -> None:
    labels = item["metadata"]["labels"]
    for name in ("name", "instance", "version", "component", "managed-by"):
        assert labels[f"app.kubernetes.io/{name}"]


def test_the_namespace_comes_before_what_is_in_it() -> None:
    files = sorted((ROOT / "deploy").glob("*.yaml"))
    kinds = [item["kind"] for file in files for item in yaml.safe_load_all(file.read_text())]
    assert kinds[0] == "Namespace"
