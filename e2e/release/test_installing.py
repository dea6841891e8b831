"""A release is installed from, as its users would: each part where nothing else of the project is."""

import hashlib
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import build
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, deployment, wait_for_running, wait_until
from e2e.harness.product.helm import NAMESPACE, RELEASE, Helm
from e2e.harness.product.operator import ROOT, Operator, placeholders, wait_until_placed
from e2e.harness.product.uninstall_hook import HOOK, JOB, arguments, complete
from e2e.suites.test_chart_install import CRD, DEPLOYMENT, left_in_cluster
from release import plugin
from release.build import SUMS, build_wheel

EXAMPLE = ROOT / "examples" / "cluster.json"


def run(program: Path, *words: str | Path, folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a program with an empty environment, in a folder that is not the checkout."""
    return subprocess.run(
        [str(program), *map(str, words)],
        cwd=folder,
        env={"HOME": str(folder), "PATH": "/nonexistent", **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_every_file_has_the_sum_that_is_written_down_and_none_is_missing(dist: Path) -> None:
    lines = [line.partition("  ") for line in (dist / SUMS).read_text().splitlines()]
    listed = {name: digest for digest, _, name in lines}
    there = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in dist.iterdir() if file.name != SUMS}
    assert there == listed
    assert len(there) >= 5


def test_the_wheel_runs_in_an_empty_environment(installed: Path, number: str, tmp_path: Path) -> None:
    assert {"resource-slack", "kubectl-slack", "kubectl_complete-slack"} <= {file.name for file in installed.iterdir()}
    command = installed / "resource-slack"
    assert f"resource-slack {number} " in run(command, "version", folder=tmp_path).stdout
    planned = run(command, "plan", "--snapshot", EXAMPLE, "--at", "2026-01-15T10:00:00Z", "-o", "json", folder=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)
    for words in (["operator", "--help"], ["audit", "agent", "--help"], ["crd", "SlackPolicy"]):
        done = run(command, *words, folder=tmp_path)
        assert done.returncode == 0, done.stderr


def test_the_bill_of_materials_lists_what_the_wheel_is_installed_with(
    installed: Path, dist: Path, number: str, tmp_path: Path
) -> None:
    code = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"
    found = run(installed / "python", "-c", code, folder=tmp_path)
    there = {name.lower().replace("_", "-"): version for name, version in json.loads(found.stdout).items()}
    assert there.pop("resource-slack") == number
    bill = json.loads((dist / f"resource-slack-{number}.cdx.json").read_text())
    listed = {(part["name"].replace("_", "-"), part["version"]) for part in bill["components"]}
    assert there.items() <= listed
    only_elsewhere = {part["name"] for part in bill["components"] if "pip:marker" in str(part["properties"])}
    assert {name for name, _ in listed if name not in there} <= only_elsewhere


def test_the_same_commit_gives_the_same_wheel(dist: Path, number: str, tmp_path: Path) -> None:
    (wheel,) = dist.glob(f"resource_slack-{number}-*.whl")
    (tmp_path / "out").mkdir()
    again = build_wheel(tmp_path / "out", tmp_path)
    assert again.read_bytes() == wheel.read_bytes()


def krew(dist: Path, store: Path, links: Path) -> None:
    """Do what `krew install --manifest` does: choose the platform, check the sum, unpack, link the program."""
    system, arch = plugin.this_platform()
    manifest: dict[str, Any] = yaml.safe_load((dist / "slack.yaml").read_text())
    (chosen,) = [
        candidate
        for candidate in manifest["spec"]["platforms"]
        if candidate["selector"]["matchLabels"] == {"os": system, "arch": arch}
    ]
    archive = dist / chosen["uri"].rpartition("/")[2]
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == chosen["sha256"]
    with tarfile.open(archive) as packed:
        packed.extractall(store, filter="data")
    assert (store / "LICENSE").is_file()
    program = store / chosen["bin"]
    assert program.is_file()
    assert os.access(program, os.X_OK)
    links.mkdir()
    (links / f"kubectl-{manifest['metadata']['name']}").symlink_to(program)


def test_kubectl_finds_the_plugin_of_the_krew_archive_and_it_needs_no_python(
    dist: Path, number: str, tmp_path: Path
) -> None:
    links = tmp_path / "bin"
    krew(dist, tmp_path / "store", links)
    kubectl = build.ensure(["kubectl"])["kubectl"]
    listed = run(kubectl, "plugin", "list", folder=tmp_path, PATH=str(links))
    assert listed.returncode == 0, listed.stderr
    assert str(links / "kubectl-slack") in listed.stdout
    told = run(kubectl, "slack", "version", folder=tmp_path, PATH=str(links))
    assert f"resource-slack {number} " in told.stdout, told.stderr
    planned = run(kubectl, "slack", "plan", "--snapshot", EXAMPLE, folder=tmp_path, PATH=str(links))
    assert planned.returncode == 0, planned.stderr
    for words in (["status"], ["tune"], ["simulate"], ["audit"], ["migrate"], ["uninstall"], ["operator"]):
        helped = run(kubectl, "slack", *words, "--help", folder=tmp_path, PATH=str(links))
        assert helped.returncode == 0, f"{words}: {helped.stderr}"


def test_the_chart_package_and_the_wheel_keep_room_and_leave_nothing_behind(
    cluster: Backend, dist: Path, number: str, installed: Path, tmp_path: Path
) -> None:
    api = cluster.api
    create_all(api, [kwok.node(f"node-{i}") for i in range(3)])
    api.create(deployment("api", 6, cpu="800m", memory="1Gi"))
    wait_for_running(api, 6, 60)
    api.delete(CRD)
    wait_until(lambda: api.find(CRD) is None, 30, "the CRD to be gone")
    helm = Helm(tmp_path, cluster.kubeconfig)
    package = dist / f"resource-slack-{number}.tgz"
    where = f"--namespace={NAMESPACE}"
    done = helm.run("install", RELEASE, package, where, "--create-namespace", '--set-json=policies={"default": {}}')
    assert done.returncode == 0, done.stderr
    _, *flags = arguments(api.get(DEPLOYMENT))
    flags = [flag for flag in flags if not flag.startswith("--listen=")]
    identity = cluster.service_account(NAMESPACE, "resource-slack")
    program = [str(installed / "resource-slack")]
    with Operator(cluster, *flags, identity=identity, program=program) as operator:
        operator.wait_until_ready()
        wait_until_placed(api, "default")
        assert placeholders(api, bound=True)
        told = run(installed / "kubectl-slack", "status", folder=tmp_path, KUBECONFIG=str(cluster.kubeconfig))
        assert "your slack is there" in told.stdout, told.stdout + told.stderr

        uninstalling = helm.start("uninstall", RELEASE, where, "--timeout=180s")
        try:
            wait_until(lambda: api.find(JOB), 60, "the hook's Job")
            job = api.get(JOB)
            hook = cluster.service_account(NAMESPACE, HOOK)
            operator.stop()  # what the kubelet does for a Deployment that is deleted
            words = [*arguments(job), f"--kubeconfig={hook.kubeconfig}"]
            gone = run(installed / "resource-slack", *words, folder=tmp_path)
            assert gone.returncode == 0, gone.stderr
            complete(api, job)
            output, _ = uninstalling.communicate(timeout=120)
        finally:
            uninstalling.kill()
        assert uninstalling.returncode == 0, output
    wait_until(lambda: not left_in_cluster(api), 60, "nothing to be left", state=lambda: left_in_cluster(api))


def test_the_chart_package_has_what_the_chart_has(dist: Path, number: str, tmp_path: Path) -> None:
    shown = Helm(tmp_path).run("show", "all", dist / f"resource-slack-{number}.tgz")
    assert shown.returncode == 0, shown.stderr
    assert f"version: {number}" in shown.stdout
    with tarfile.open(dist / f"resource-slack-{number}.tgz") as packed:
        inside = {name.partition("/")[2] for name in packed.getnames()}
    assert {"values.schema.json", "README.md", "rules/resource-slack.yaml", "dashboards/operator.json"} <= inside
    assert {name for name in inside if name.startswith("crds/")} == {
        f"crds/{path.name}" for path in (ROOT / "charts" / "resource-slack" / "crds").glob("*.yaml")
    }


@pytest.mark.parametrize("variable", ["PROJECT_URL", "IMAGE"])
def test_a_package_names_the_projects_home_and_image_where_they_are_known(variable: str, tmp_path: Path) -> None:
    from release import chart

    helm = build.ensure(["helm"])["helm"]
    given = {"PROJECT_URL": "https://slack.example.org", "IMAGE": "registry.example.org/slack"}
    package = chart.package(
        helm,
        tmp_path,
        project_url=given["PROJECT_URL"] if variable == "PROJECT_URL" else None,
        image=given["IMAGE"] if variable == "IMAGE" else None,
        scratch=tmp_path / "scratch",
    )
    shown = Helm(tmp_path).run("show", "all", package).stdout
    assert given[variable] in shown
    assert (chart.NOWHERE in shown) is (variable == "IMAGE")
