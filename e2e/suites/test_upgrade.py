"""The chart upgraded, and the way back, by the commands of its page: every placeholder stays where it is.

The same pods in the same ReplicaSets; a ReplicaSet is written once by a version that makes other templates, and by no
other. The version before runs from its own sources, out of this repository's history, with its own chart, whose CRDs
are made to differ from today's in what one version's may: a field less, and another column.
"""

import os
import re
import subprocess
from collections import Counter
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
import yaml

from e2e.harness import build
from e2e.harness.api import Api, ApiError, Json
from e2e.harness.cluster import audit_log, kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, deployment, wait_for_running, wait_until
from e2e.harness.product.crd_job import CrdJob
from e2e.harness.product.helm import CHART, NAMESPACE, RELEASE, Helm
from e2e.harness.product.operator import POLICIES as SLACK_POLICIES
from e2e.harness.product.operator import ROOT, Operator, placeholders, replica_sets, wait_until_placed
from slack.cluster.labels import ANNOTATION_APPLIED, LABEL_HOLD

PAGE = (CHART / "README.md").read_text()
BEFORE = "2372eda224a8"
"""The last version before the packages of the code were laid out anew: whoever has placeholders of it keeps them."""
PARTS = ("slack", "operator", "charts")
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/resource-slack"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRDS = [f"{path.stem}.resource-slack.io" for path in sorted((CHART / "crds").glob("*.yaml"))]
NEW_FIELD = "schedulerName"
"""Of a SlackPolicy, absent from the CRD of the version before; no policy of this suite has it."""
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/resource-slack"
POLICIES = (
    '--set-json=policies={"default": {"extraCapacity": {"minRate": 0.2}},'
    ' "large": {"nodeSelector": {"pool": "large"}, "extraCapacity": {"minRate": 0.5}}}'
)

NO_POD_OF_OURS = ("--set", "operator.replicas=0")
"""The operator is a process here: a pod of its Deployment would be load that each upgrade moves to another node."""


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the version before; skipped where the history is not there (a shallow clone, a source archive)."""
    folder = tmp_path_factory.mktemp("before")
    archive = subprocess.run(["git", "archive", BEFORE, *PARTS], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode != 0:
        pytest.skip(f"git archive {BEFORE}: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
    crd = folder / "charts" / "resource-slack" / "crds" / "slackpolicies.yaml"
    older = yaml.safe_load(crd.read_text())
    (version,) = older["spec"]["versions"]
    del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][NEW_FIELD]
    version["additionalPrinterColumns"][0]["name"] = "OLD"
    crd.write_text(yaml.safe_dump(older))
    return folder


@pytest.fixture
def loaded(cluster: Backend) -> Backend:
    for name in CRDS:  # an earlier suite may have left today's there; Helm is to install those of the version before
        cluster.api.delete(f"{DEFINITIONS}/{name}")
    wait_until(lambda: not any(cluster.api.find(f"{DEFINITIONS}/{name}") for name in CRDS), 30, "no CRD")
    nodes = [kwok.node(f"node-{i}", zone=f"zone-{'abc'[i % 3]}") for i in range(6)]
    for index, node in enumerate(nodes):
        node["metadata"]["labels"]["pool"] = "small" if index < 4 else "large"
    create_all(cluster.api, nodes)
    small, large = {"pool": "small"}, {"pool": "large"}  # how much is on a policy's nodes is the same in every run
    reserved = deployment("reserved", 2, cpu="300m", memory="512Mi", nodeSelector=small)
    reserved["metadata"].setdefault("annotations", {})["resource-slack.io/reserve"] = (
        "1"  # within every version's bounds
    )
    for workload in (
        deployment("api", 8, cpu="500m", memory="1Gi", nodeSelector=small),
        deployment("worker", 3, cpu="1", memory="2Gi", nodeSelector=large),
        reserved,
    ):
        cluster.api.create(workload)
    wait_for_running(cluster.api, 13, 60)
    return cluster


def flags_of(api: Api) -> list[str]:
    (container,) = api.get(DEPLOYMENT)["spec"]["template"]["spec"]["containers"]
    command, *flags = container["args"]
    assert command == "operator"
    return [flag for flag in flags if not flag.startswith("--listen=")]


def page_commands(heading: str) -> list[str]:
    """Return the commands that the chart's page gives under one of its points."""
    found = re.search(rf"^- \*\*{heading}\*\*.*?^  ```\n(.*?)^  ```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"the chart's page has no commands under {heading}"
    return [line.strip() for line in found[1].splitlines()]


def shell(backend: Backend, folder: Path, chart: Path, *lines: str) -> None:
    """Run commands of the page as a person would, with the chart's folder in the place of CHART."""
    for name in ("helm", "kubectl"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(build.ensure([name])[name])
    script = "\n".join(["set -euo pipefail", *lines]).replace(" CHART", f" {chart}")
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder), "KUBECONFIG": str(backend.kubeconfig)}
    found = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert found.returncode == 0, f"{script}\n{found.stdout}{found.stderr}"


def assert_crds_are_those_of(api: Api, chart: Path) -> None:
    for path in sorted((chart / "crds").glob("*.yaml")):  # an older chart has fewer, and leaves newer ones alone
        name = f"{path.stem}.resource-slack.io"
        wanted = yaml.safe_load(path.read_text())["spec"]
        found = api.get(f"{DEFINITIONS}/{name}")["spec"]
        for left, right in zip(found["versions"], wanted["versions"], strict=True):
            assert left["schema"] == right["schema"], name
            columns = [column["name"] for column in right.get("additionalPrinterColumns", [])]
            assert [column["name"] for column in left.get("additionalPrinterColumns", [])] == columns, name


def policies(api: Api) -> set[str]:
    """Return the names of all policies; none while the API server, told of another CRD, answers 429."""
    try:
        return {policy["metadata"]["name"] for policy in api.items(SLACK_POLICIES)}
    except ApiError as error:
        if error.status != HTTPStatus.TOO_MANY_REQUESTS:
            raise
        return set()


def templates(api: Api) -> dict[str, Json]:
    """Return the ReplicaSets' labels, annotations and templates, which a version may make in another way."""
    return {
        found["metadata"]["name"]: {
            "labels": found["metadata"]["labels"],
            "annotations": found["metadata"].get("annotations"),
            "template": found["spec"]["template"],
        }
        for found in replica_sets(api)
    }


def standing(api: Api) -> tuple[dict[str, str], dict[str, Json]]:
    """Return uids of placeholders by name, and of each ReplicaSet what no version may write otherwise."""

    def lasting(found: Json) -> Json:
        template = {**found["spec"]["template"], "metadata": None}
        return {**found["spec"], "template": template}

    pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in placeholders(api)}
    sets = {
        found["metadata"]["name"]: {
            "uid": found["metadata"]["uid"],
            "labels": found["metadata"]["labels"],
            "annotations": {k: v for k, v in found["metadata"]["annotations"].items() if k != ANNOTATION_APPLIED},
            "owners": found["metadata"]["ownerReferences"],
            "spec": lasting(found),
            "managers": sorted({field["manager"] for field in found["metadata"]["managedFields"]}),
        }
        for found in replica_sets(api)
    }
    return pods, sets


def held(api: Api) -> Counter[str]:
    """Return how many placeholders have which form."""
    return Counter(pod["metadata"]["labels"].get(LABEL_HOLD, "Bound") for pod in placeholders(api))


def test_the_way_back_before_there_were_unbound_placeholders(loaded: Backend, before: Path, tmp_path: Path) -> None:
    """Its operator makes bound ones of them; where they were bound before, every one stays."""
    api, helm, old_chart = loaded.api, Helm(tmp_path, loaded.kubeconfig), before / "charts" / "resource-slack"

    def run(name: str, chart: Path, form: str, *flags: str) -> dict[str, str]:
        """Let one version work until all placeholders have a form; return their uids by name."""
        verb = ("upgrade", "--install", RELEASE, chart, f"--namespace={NAMESPACE}", "--create-namespace")
        with CrdJob(loaded):
            found = helm.run(*verb, "--reset-values", POLICIES, *NO_POD_OF_OURS, *flags)
        assert found.returncode == 0, found.stdout + found.stderr
        sources, identity = None if chart == CHART else before, loaded.service_account(NAMESPACE, "resource-slack")
        with Operator(loaded, *flags_of(api), name=name, identity=identity, sources=sources) as operator:
            operator.wait_until_ready()
            wait_until(lambda: set(held(api)) == {form}, 60, f"{form} placeholders", state=lambda: held(api))
            wait_until_placed(api, "default")
            wait_until_placed(api, "large")
            operator.wait_for_plans(3)
        assert set(held(api)) == {form}
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in placeholders(api)}

    unbound = run("unbound", CHART, "Unbound", "--set=operator.hold=Unbound")
    assert len(run("back", old_chart, "Bound")) == len(unbound)
    assert len(run("again", CHART, "Unbound", "--set=operator.hold=Unbound")) == len(unbound)
    bound = run("bound", CHART, "Bound", "--set=operator.hold=Bound")
    assert run("back-again", old_chart, "Bound") == bound


@pytest.mark.core
def test_an_upgrade_and_the_way_back_keep_every_placeholder(loaded: Backend, before: Path, tmp_path: Path) -> None:
    api = loaded.api
    old_chart = before / "charts" / "resource-slack"
    helm = Helm(tmp_path, loaded.kubeconfig)
    found = helm.run(
        "install", RELEASE, old_chart, f"--namespace={NAMESPACE}", "--create-namespace", POLICIES, *NO_POD_OF_OURS
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert_crds_are_those_of(api, old_chart)
    identity = loaded.service_account(NAMESPACE, "resource-slack")
    with Operator(loaded, *flags_of(api), name="before", identity=identity, sources=before) as operator:
        operator.wait_until_ready()
        wait_until_placed(api, "default")
        wait_until_placed(api, "large")
        operator.wait_for_plans(3)  # whatever it still wants to write is written
    pods, sets = standing(api)
    assert len(pods) >= 4
    assert any(name.startswith("slack-") for name in sets)
    assert any("reserved" in str(found) for found in templates(api).values()), "a mirror is among them"

    upgrading, going_back = page_commands("Upgrading."), page_commands("Going back.")
    for name, commands, chart, sources in (
        ("now", upgrading, CHART, None),
        ("back", going_back, old_chart, before),
        ("again", upgrading, CHART, None),
        ("still", [], CHART, None),
    ):
        made = templates(api)
        with CrdJob(loaded) as job:
            shell(loaded, tmp_path, chart, *commands)
        assert ("slackpolicies.resource-slack.io changed" in job.said) == (commands == upgrading), name
        assert_crds_are_those_of(api, chart)
        wait_until(partial(policies, api), 30, "the policies to be served anew")
        assert policies(api) == {"default", "large"}
        mark = loaded.audit_mark()
        with Operator(loaded, *flags_of(api), name=name, identity=identity, sources=sources) as operator:
            operator.wait_until_ready()
            wait_until(lambda: api.get(LEASE)["spec"].get("holderIdentity"), 30, f"{name} to lead")
            wait_until_placed(api, "default")
            wait_until_placed(api, "large")
            operator.wait_for_plans(3)
        assert standing(api) == (pods, sets), name
        entries = loaded.audit_entries(user=operator.user, verbs=audit_log.WRITES, since=mark)
        written = Counter(entry.resource for entry in entries)
        assert written["coordination.k8s.io/leases"], f"{name} led"
        assert not written["pods"], f"{name} wrote pods"
        other = {set_name for set_name, template in templates(api).items() if template != made[set_name]}
        of_sets = Counter(entry.name for entry in entries if entry.resource == "apps/replicasets")
        assert of_sets == Counter(other), f"{name} wrote what was right already, or the same thing twice"
