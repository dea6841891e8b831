"""What GitOps tools make of our kinds: Argo CD's health rules in the Lua that it runs them in, beside kstatus' rules.

The states are those of the unit tests of kstatus, made by the operator's own loop; objects that nobody has looked at
are the API server's.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import build
from e2e.harness.api import Json
from e2e.harness.autoscalers.karpenter import install_crds
from e2e.harness.cluster.backend import Backend
from e2e.harness.errors import HarnessError
from e2e.harness.objects import make_namespace
from e2e.harness.product.helm import CHART, NAMESPACE, Helm
from e2e.harness.product.operator import CRDS, ROOT
from tests.operator.fakes import policy
from tests.operator.placeholders import test_kstatus as states
from tests.operator.placeholders.test_kstatus import Kstatus

FOLDER = ROOT / "examples" / "gitops"
_PREFIX = "resource.customizations.health.resource-slack.io_"
RULES = {
    key.removeprefix(_PREFIX): script
    for key, script in yaml.safe_load((FOLDER / "argocd-cm.yaml").read_text())["data"].items()
}
MEANS = {Kstatus.CURRENT: "Healthy", Kstatus.IN_PROGRESS: "Progressing", Kstatus.FAILED: "Degraded"}
Judge = Callable[[Json], tuple[str, str]]


def lua(value: Any) -> str:
    """A value as Lua writes it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"[{json.dumps(key)}] = {lua(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "{" + ", ".join(map(lua, value)) + "}"
    if value is None:
        return "nil"
    if isinstance(value, str):
        return '"' + "".join(f"\\{byte:03d}" for byte in value.encode()) + '"'
    return json.dumps(value)


@pytest.fixture(scope="module")
def argocd(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """Run a kind's rule on an object, as Argo CD does: with `obj` and hardly any library."""
    try:
        interpreter = build.ensure(["glua"])["glua"]
    except HarnessError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("lua")

    def judge(item: Json) -> tuple[str, str]:
        script = folder / "health.lua"
        script.write_text(
            f"local write = io.write\nio, string, math, debug, coroutine = nil\nobj = {lua(item)}\n"
            f"local rule = function()\n{RULES[item['kind']]}\nend\n"
            'local found = rule()\nwrite(found.status, "\\n", found.message)\n'
        )
        done = subprocess.run([str(interpreter), str(script)], capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        status, _, message = done.stdout.partition("\n")
        return status, message

    return judge


def agreed(judge: Judge, world: states.Cluster) -> str:
    """Both tools' verdict on a policy; they have to mean the same, and to say why."""
    item = {"kind": "SlackPolicy", **world.item()}
    status, message = judge(item)
    assert status == MEANS[world.judged()], item["status"]
    assert message
    return status


def test_a_policy_progresses_until_it_is_looked_at_and_is_healthy_while_it_fills(argocd: Judge) -> None:
    world = states.cluster()
    assert agreed(argocd, world) == "Progressing"
    world.reconcile()
    assert states.reason(world) == ("False", "Refilling")
    assert agreed(argocd, world) == "Healthy"
    world.settle()
    assert agreed(argocd, world) == "Healthy"
    world.apply_policy(policy("web", 2, extraCapacity={"minRate": 0.1}))
    assert agreed(argocd, world) == "Progressing", "what is said of it is of the generation before"


def test_no_lack_of_the_clusters_makes_a_policy_unhealthy(argocd: Judge) -> None:
    world = states.cluster(extraCapacity={"minRate": 0.4, "ceiling": {"cpu": "2"}})
    world.settle()
    assert states.reason(world)[0] == "False"
    assert agreed(argocd, world) == "Healthy"
    full = states.cluster()
    full.settle()
    full.full = True
    full.lose(2)
    full.reconcile()
    full.say("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached")
    full.reconcile()
    assert agreed(argocd, full) == "Healthy"


@pytest.mark.parametrize("breaks", [states.take_class, states.refuse_writes, states.add_a_twin])
def test_what_somebody_must_mend_is_degraded_after_a_moment_and_says_what(argocd: Judge, breaks: Any) -> None:
    world = states.cluster()
    world.settle()
    breaks(world)
    world.reconcile()
    assert agreed(argocd, world) == "Progressing"
    world.settle(4)
    assert agreed(argocd, world) == "Degraded"
    _, message = argocd({"kind": "SlackPolicy", **world.item()})
    assert message == world.condition("web", "Ready")["message"]


def test_objects_that_nobody_has_looked_at_progress_as_the_api_server_serves_them(
    cluster: Backend, argocd: Judge
) -> None:
    install_crds(cluster.api, CRDS)
    make_namespace(cluster.api, NAMESPACE)
    for kind, spec in (("SlackPolicy", {}), ("CpuAuditPolicy", {}), ("SlackScale", {"replicas": 1})):
        metadata = {"name": "new"} | ({"namespace": NAMESPACE} if kind == "SlackScale" else {})
        item = {"apiVersion": "resource-slack.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
        made = cluster.api.create(item)
        assert argocd(made) == ("Progressing", "the operator has not looked yet"), kind
        cluster.api.delete(cluster.api.path_of(item))


def test_the_reference_has_the_same_rule() -> None:
    reference = (ROOT / "docs" / "reference" / "events.md").read_text()
    _, _, shown = reference.partition(f"{_PREFIX}SlackPolicy: |\n")
    lines = [line.removeprefix("  ") for line in shown.partition("```")[0].splitlines()]
    assert "\n".join(lines).strip() == RULES["SlackPolicy"].strip()
    assert set(RULES) == {"SlackPolicy", "SlackScale", "CpuAuditPolicy"}


@pytest.mark.parametrize("file", ["argocd.yaml", "flux.yaml"])
def test_the_values_of_the_examples_are_taken_by_the_chart(file: str, tmp_path: Path) -> None:
    documents = [document["spec"] for document in yaml.safe_load_all((FOLDER / file).read_text())]
    (values,) = [
        found
        for spec in documents
        if (found := spec.get("values") or spec.get("source", {}).get("helm", {}).get("valuesObject"))
    ]
    given = tmp_path / "values.yaml"
    given.write_text(yaml.safe_dump(values))
    found = Helm(tmp_path).run("template", "resource-slack", CHART, f"--values={given}")
    assert found.returncode == 0, found.stderr
