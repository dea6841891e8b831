"""The chart installed by Helm on the real control plane: upgraded, rolled back, and gone without a trace.

No container runs there, so the operator and the uninstall hook's command run as processes of this machine, each with
the arguments that the chart gives it and as the service account that the chart makes for it.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from e2e.harness import build
from e2e.harness.api import Api, Json
from e2e.harness.cluster import kwok, rbac
from e2e.harness.cluster.access import Access
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, deployment, wait_for_running, wait_until
from e2e.harness.product.crd_job import JOB as JOB_OF_CRDS
from e2e.harness.product.crd_job import CrdJob
from e2e.harness.product.helm import CHART, NAMESPACE, RELEASE, Helm
from e2e.harness.product.operator import (
    CRDS,
    POLICIES,
    Operator,
    environment,
    placeholders,
    policy,
    replica_sets,
    wait_until_placed,
)
from e2e.harness.product.uninstall_hook import HOOK, JOB, arguments, complete
from slack.cli.crd import ANNOTATION_DIGEST, ANNOTATION_VERSION
from slack.planner.objects.manifests import priority_class
from slack_operator.placeholders.act.creation_block import quota

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/slackpolicies.resource-slack.io"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/resource-slack"
CLASS = "/apis/scheduling.k8s.io/v1/priorityclasses/resource-slack"
QUOTAS = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas"
CLUSTER_ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/resource-slack"
# The hook also takes pods without an owner, which nobody makes.
# It looks for what `load` has left in any namespace; a person may see that, the hook may not.
NOT_FOR_THE_HOOK = {rbac.Right(where, "apps/deployments", "list") for where in ("", NAMESPACE)} | {
    rbac.Right("", "nodes", "list")
}
"""For loads and for the label that releases a node; the command prints what to do where it may not look."""
ONLY_FOR_FAULTS = {rbac.Right(NAMESPACE, "pods", "delete")}


def install(helm: Helm, verb: str, *flags: str) -> None:
    found = helm.run(verb, RELEASE, CHART, f"--namespace={NAMESPACE}", "--wait", "--timeout=60s", *flags)
    assert found.returncode == 0, found.stdout + found.stderr


def installing(helm: Helm, api: Api, *flags: str) -> "subprocess.Popen[str]":
    """Begin to install, and return as soon as the operator may start.

    Helm calls a policy ready when an operator has acted upon it, and that one is started here.
    """
    wait = ("--wait", "--timeout=180s", "--create-namespace")
    started = helm.start("install", RELEASE, CHART, f"--namespace={NAMESPACE}", *wait, *flags)

    def ready() -> bool:
        assert started.poll() in (None, 0), started.communicate()[0]
        return ((api.find(DEPLOYMENT) or {}).get("status") or {}).get("readyReplicas") == 2

    wait_until(ready, 90, "the Deployment")
    return started


def ended(helm: "subprocess.Popen[str]") -> None:
    output, _ = helm.communicate(timeout=180)
    assert helm.returncode == 0, output


def run_hook(identity: Access, *more: str, command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [Path(sys.executable).with_name("resource-slack"), *command, f"--kubeconfig={identity.kubeconfig}", *more],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def roles_of_hook(api: Api) -> list[Json]:
    prefix = "/apis/rbac.authorization.k8s.io/v1"
    return [
        api.get(f"{prefix}/namespaces/{NAMESPACE}/roles/{HOOK}"),
        api.get(f"{prefix}/clusterroles/{HOOK}"),
    ]


def left_in_cluster(api: Api) -> list[str]:
    """Return everything of the release and of the operator that is still there."""
    here = f"namespaces/{NAMESPACE}"
    paths = [
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        *(f"/apis/rbac.authorization.k8s.io/v1/{here}/{kind}" for kind in ("roles", "rolebindings")),
        *(f"/apis/apps/v1/{here}/{kind}" for kind in ("deployments", "replicasets")),
        *(f"/api/v1/{here}/{kind}" for kind in ("pods", "services", "secrets", "serviceaccounts", "configmaps")),
        f"/apis/batch/v1/{here}/jobs",
        f"/apis/coordination.k8s.io/v1/{here}/leases",
        f"/apis/policy/v1/{here}/poddisruptionbudgets",
    ]
    ours_to_keep = {"default", "kube-root-ca.crt"}
    return [
        f"{path.rpartition('/')[2]}/{item['metadata']['name']}"
        for path in paths
        for item in api.items(path)
        if item["metadata"]["name"] not in ours_to_keep
        and ("namespaces" in path or "resource-slack" in item["metadata"]["name"])
        and not item["metadata"]["name"].startswith("e2e-")
    ]


@pytest.fixture
def loaded(cluster: Backend) -> Backend:
    create_all(cluster.api, [kwok.node(f"node-{i}", zone=f"zone-{'abc'[i % 3]}") for i in range(6)])
    cluster.api.create(deployment("api", 10, cpu="800m", memory="1Gi"))
    wait_for_running(cluster.api, 10, 60)
    # An earlier suite may have left the CRD there; Helm is to install it.
    cluster.api.delete(CRD)
    wait_until(lambda: cluster.api.find(CRD) is None, 30, "the CRD to be gone")
    return cluster


@pytest.mark.core
def test_install_upgrade_rollback_uninstall(loaded: Backend, tmp_path: Path) -> None:
    api = loaded.api
    helm = Helm(tmp_path, loaded.kubeconfig)
    begun = installing(helm, api, '--set-json=policies={"default": {"extraCapacity": {"minRate": 0.1}}}')
    assert api.get(CRD)["spec"]["group"] == "resource-slack.io"
    running = api.get(DEPLOYMENT)
    assert running["status"]["readyReplicas"] == 2
    command, *flags = arguments(running)
    flags = [flag for flag in flags if not flag.startswith("--listen=")]
    assert command == "operator"
    identity = loaded.service_account(NAMESPACE, "resource-slack")
    with Operator(loaded, *flags, identity=identity) as operator:
        operator.wait_until_ready()
        ended(begun)
        wait_until_placed(api, "default")
        small = len(placeholders(api))
        assert small > 0

        install(
            helm,
            "upgrade",
            '--set-json=policies={"default": {"extraCapacity": {"minRate": 0.5}}}',
            "--set=operator.rescueStuckPreemptors=false,operator.interval=5s",
        )
        assert "--interval=5s" in arguments(api.get(DEPLOYMENT))
        assert not any("pods/status" in rule["resources"] for rule in api.get(CLUSTER_ROLE)["rules"])
        wait_until(lambda: len(placeholders(api, bound=True)) > small, 30, "more placeholders after the upgrade")
        wait_until_placed(api, "default")

        back = helm.run("rollback", RELEASE, "1", f"--namespace={NAMESPACE}", "--wait", "--timeout=60s")
        assert back.returncode == 0, back.stdout + back.stderr
        assert api.get(f"{POLICIES}/default")["spec"]["extraCapacity"]["minRate"] == 0.1
        assert "--interval=10s" in arguments(api.get(DEPLOYMENT))
        assert any("pods/status" in rule["resources"] for rule in api.get(CLUSTER_ROLE)["rules"])

        # A policy that Helm knows nothing of: its placeholders stay when Helm deletes the release.
        own = {"minRate": 0, "floor": {"cpu": "500m"}}
        api.create(policy("by-hand", extraCapacity=own, nodeSelector={"kubernetes.io/hostname": "node-5"}))
        wait_until(
            lambda: any("by-hand" in pod["metadata"]["name"] for pod in placeholders(api)), 30, "its placeholder"
        )

        uninstalling = helm.start("uninstall", RELEASE, f"--namespace={NAMESPACE}", "--timeout=120s")
        try:
            wait_until(lambda: api.find(JOB), 30, "the hook's Job")
            job = api.get(JOB)
            hook = loaded.service_account(NAMESPACE, HOOK)
            rights = rbac.granted(roles_of_hook(api))
            mark = loaded.audit_mark()
            assert api.find(DEPLOYMENT) is None, "Helm has deleted the release before"
            assert placeholders(api), "those of the policy that Helm does not know stay until the hook"
            api.create(quota(NAMESPACE, ["resource-slack"]))  # as of an operator that was stopped while it was on
            # The operator still ends, as its pods may for half a minute; without its rights it makes nothing again.
            done = run_hook(hook, command=arguments(job))
            assert done.returncode == 0, done.stderr
            print(f"\n{done.stdout}{done.stderr}")
            assert replica_sets(api) == []
            assert placeholders(api) == []
            assert api.items(QUOTAS) == []
            asked = loaded.audit_entries(user=hook.user, since=mark)
            assert rbac.refused(rights, asked) == NOT_FOR_THE_HOOK
            assert rights - rbac.used(rights, asked) == ONLY_FOR_FAULTS
            operator.stop()
            complete(api, job)
            output, _ = uninstalling.communicate(timeout=60)
        finally:
            uninstalling.kill()
        assert uninstalling.returncode == 0, output
    wait_until(lambda: not left_in_cluster(api), 60, "nothing to be left", state=lambda: left_in_cluster(api))
    assert [item["metadata"]["name"] for item in api.items(POLICIES)] == ["by-hand"], "the user's own policy stays"
    assert replica_sets(api) == [], "nothing comes back for the policy that stays"
    api.delete(f"{POLICIES}/by-hand")


@pytest.mark.core
def test_uninstalling_with_the_operator_switched_off(loaded: Backend, tmp_path: Path) -> None:
    api = loaded.api
    helm = Helm(tmp_path, loaded.kubeconfig)
    policies = '--set-json=policies={"default": {}}'
    begun = installing(helm, api, policies)
    flags = [flag for flag in arguments(api.get(DEPLOYMENT))[1:] if not flag.startswith("--listen=")]
    with Operator(loaded, *flags, identity=loaded.service_account(NAMESPACE, "resource-slack")) as operator:
        operator.wait_until_ready()
        ended(begun)
        wait_until_placed(api, "default")
        install(helm, "upgrade", policies, "--set=operator.enabled=false")
        wait_until(lambda: api.find(DEPLOYMENT) is None, 30, "the Deployment to be gone")
        operator.stop()  # what the kubelet does for a Deployment that is deleted
    assert placeholders(api), "switching off is no uninstalling"

    uninstalling = helm.start("uninstall", RELEASE, f"--namespace={NAMESPACE}", "--timeout=120s")
    try:
        wait_until(lambda: api.find(JOB), 30, "the hook's Job")
        job = api.get(JOB)
        done = run_hook(loaded.service_account(NAMESPACE, HOOK), command=arguments(job))
        assert done.returncode == 0, done.stderr
        assert f"deployment {NAMESPACE}/resource-slack was gone already" in done.stdout
        assert replica_sets(api) == []
        complete(api, job)
        output, _ = uninstalling.communicate(timeout=60)
    finally:
        uninstalling.kill()
    assert uninstalling.returncode == 0, output
    wait_until(lambda: not left_in_cluster(api), 60, "nothing to be left", state=lambda: left_in_cluster(api))
    assert api.items(POLICIES) == []


def test_a_hook_that_cannot_start_does_not_keep_the_release(loaded: Backend, tmp_path: Path) -> None:
    api = loaded.api
    helm = Helm(tmp_path, loaded.kubeconfig)
    # No pod of it finds a node, as none starts whose image is not there; the deadline is a minute.
    nowhere = ["--set=uninstall.waitSeconds=0,operator.replicas=0,operator.nodeSelector.none=here"]
    install(helm, "install", "--create-namespace", *nowhere)
    found = helm.run("uninstall", RELEASE, f"--namespace={NAMESPACE}", "--timeout=100s")
    assert found.returncode != 0
    assert HOOK in found.stderr, "it names the Job that failed"
    assert "DeadlineExceeded" in {found["reason"] for found in api.get(JOB)["status"]["conditions"]}
    assert api.find(DEPLOYMENT) is None
    assert helm.run("list", "--all", "--short", f"--namespace={NAMESPACE}").stdout == "", "the release is gone"
    kubectl = str(build.ensure(["kubectl"])["kubectl"])
    selector = f"--selector=app.kubernetes.io/component=uninstall,app.kubernetes.io/instance={RELEASE}"
    for kinds in ("job,rolebinding,role,serviceaccount", "clusterrolebinding,clusterrole"):
        command = [kubectl, f"--kubeconfig={loaded.kubeconfig}", f"--namespace={NAMESPACE}", "delete", kinds, selector]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        assert f" delete {kinds} \\\n" in (CHART / "README.md").read_text()
    wait_until(lambda: not left_in_cluster(api), 60, "nothing to be left", state=lambda: left_in_cluster(api))


def test_an_upgrade_changes_older_crds_and_keeps_what_helm_did_not_make(loaded: Backend, tmp_path: Path) -> None:
    """As of a release of an earlier chart, whose operator has made the PriorityClass."""
    api = loaded.api
    helm = Helm(tmp_path, loaded.kubeconfig)
    for file in CRDS.glob("*.yaml"):
        api.delete(f"{CRD.rpartition('/')[0]}/{file.stem}.resource-slack.io")
    api.create(priority_class())
    quick = "--set=operator.replicas=0"
    install(helm, "install", "--create-namespace", quick)
    assert "annotations" in api.get(CLASS)["metadata"], "Helm leaves it as it is"
    assert "meta.helm.sh/release-name" not in api.get(CLASS)["metadata"]["annotations"]
    install(helm, "upgrade", quick, "--set=operator.interval=20s")  # the CRDs are this chart's: no Job, at once

    wanted = api.get(CRD)
    columns = wanted["spec"]["versions"][0]["additionalPrinterColumns"]
    older = [{**columns[0], "name": "OLD"}, *columns[1:]]
    path = "/spec/versions/0/additionalPrinterColumns"
    api.request("PATCH", CRD, [{"op": "replace", "path": path, "value": older}], "application/json-patch+json")
    api.patch(CRD, {"metadata": {"annotations": {ANNOTATION_DIGEST: None, ANNOTATION_VERSION: None}}})
    api.create(policy("by-hand", dryRun=True))
    one = f"{CRD.rpartition('/')[0]}/slackscales.resource-slack.io"
    api.delete(one)  # as a kind that the earlier chart did not have
    wait_until(lambda: api.find(one) is None, 30, "one CRD to be gone")
    mark = loaded.audit_mark()
    with CrdJob(loaded) as job:
        install(helm, "upgrade", quick)
    assert "slackpolicies.resource-slack.io changed" in job.said
    assert "slackscales.resource-slack.io created" in job.said
    user = f"system:serviceaccount:{NAMESPACE}:resource-slack-crds"
    asked = loaded.audit_entries(user=user, since=mark)
    assert {entry.verb for entry in asked} >= {"get", "patch"}
    assert not [entry for entry in asked if entry.code == 403]
    install(helm, "upgrade", quick)  # as before: no Job
    assert api.get(CRD)["spec"] == wanted["spec"]
    assert api.get(f"{POLICIES}/by-hand"), "objects of a CRD stay when it changes"
    assert api.find(JOB_OF_CRDS) is None
    assert api.get(CLASS)["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "resource-slack"
    gone = helm.run("uninstall", RELEASE, f"--namespace={NAMESPACE}", "--no-hooks")
    assert gone.returncode == 0, gone.stderr
    api.delete(f"{POLICIES}/by-hand")
    api.delete(CLASS)
