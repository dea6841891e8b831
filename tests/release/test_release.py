"""What a release is made from: one version, the bill of materials, the plugin's manifest, notes, workflows."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from release import notes, plugin, sbom, version
from tests.docs.pages import DOCS, ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LOCK = """\
# made by uv
aiohttp==3.13.2 \\
    --hash=sha256:{a} \\
    --hash=sha256:{b}
    # via kopf
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:{a}
""".format(a="a" * 64, b="b" * 64)


def test_every_file_that_names_the_version_names_that_of_the_package() -> None:
    assert list(version.others()) == []


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in version.PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_another_version_is_written_everywhere_by_one_command(copy: Path) -> None:
    version.write("1.20.3-rc.1", copy)
    assert version.current(copy) == "1.20.3-rc.1"
    assert list(version.others(copy)) == []
    assert all("1.20.3-rc.1" in (copy / name).read_text() for name in version.PLACES)
    version.write(version.current(), copy)
    assert all((copy / name).read_text() == (ROOT / name).read_text() for name in version.PLACES)


def test_a_place_that_was_forgotten_is_named(copy: Path) -> None:
    chart = copy / "charts" / "resource-slack" / "Chart.yaml"
    chart.write_text(re.sub(r"appVersion: .*", "appVersion: 9.0.0", chart.read_text()))
    (problem,) = version.others(copy)
    assert problem.startswith("charts/resource-slack/Chart.yaml: has ")
    with pytest.raises(ValueError, match="is no version such as"):
        version.write("v2", copy)


def test_the_bill_lists_every_package_of_the_lock_with_its_digests() -> None:
    body = json.loads(sbom.bill("resource-slack", "0.1.0", LOCK))
    assert (body["bomFormat"], body["metadata"]["component"]["purl"]) == ("CycloneDX", "pkg:pypi/resource-slack@0.1.0")
    first, second = body["components"]
    assert first["purl"] == "pkg:pypi/aiohttp@3.13.2"
    assert [found["value"] for found in first["properties"]] == ["a" * 64, "b" * 64]
    assert {"name": "pip:marker", "value": "sys_platform == 'win32'"} in second["properties"]
    assert body["dependencies"][0]["dependsOn"] == [first["purl"], second["purl"]]


def test_the_same_lock_gives_the_same_bill_and_another_another_serial_number() -> None:
    assert sbom.bill("a", "1", LOCK) == sbom.bill("a", "1", LOCK)
    other = sbom.bill("a", "1", LOCK.replace("3.13.2", "3.13.3"))
    assert json.loads(other)["serialNumber"] != json.loads(sbom.bill("a", "1", LOCK))["serialNumber"]


def test_the_projects_own_lock_is_read_whole() -> None:
    lock = (ROOT / "requirements" / "run.txt").read_text()
    assert len(list(sbom.packages(lock))) == len(re.findall(r"(?m)^[a-z0-9]", lock))


def test_a_lock_without_hashes_is_no_lock() -> None:
    with pytest.raises(ValueError, match=r"'aiohttp==3\.13\.2' has no version or no hash"):
        list(sbom.packages("aiohttp==3.13.2\n"))


def test_the_plugins_manifest_lists_the_archives_that_are_there() -> None:
    sums = {
        "kubectl-slack_0.1.0_linux_arm64.tar.gz": "2" * 64,
        "kubectl-slack_0.1.0_linux_amd64.tar.gz": "1" * 64,
        "resource-slack-0.1.0.tgz": "3" * 64,
    }
    made = plugin.manifest("0.1.0", sums, download_url="https://example.com/v0.1.0/", homepage="https://example.com")
    body: dict[str, Any] = yaml.safe_load(made)
    assert (body["metadata"]["name"], body["spec"]["version"]) == ("slack", "v0.1.0")
    first, second = body["spec"]["platforms"]
    assert first["selector"]["matchLabels"] == {"os": "linux", "arch": "amd64"}
    assert first["uri"] == "https://example.com/v0.1.0/kubectl-slack_0.1.0_linux_amd64.tar.gz"
    assert (first["sha256"], second["sha256"]) == ("1" * 64, "2" * 64)
    with pytest.raises(ValueError, match="no archive"):
        plugin.manifest("0.1.0", {}, download_url="", homepage="")


def test_the_notes_are_the_versions_section_of_the_changelog() -> None:
    text = "# Changelog\n\n## [Unreleased]\n\nnew\n\n## [0.2.0] - 2026-01-01\n\n### Added\n\n- a\n\n## [0.1.0]\n\nold\n"
    assert notes.section(text, "0.2.0") == "### Added\n\n- a\n"
    assert notes.section(text, "0.1.0") == "old\n"
    with pytest.raises(ValueError, match=r"no section \[0\.3\.0\]"):
        notes.section(text, "0.3.0")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_takes_actions_by_their_commit_and_names_no_registry(workflow: Path) -> None:
    text = workflow.read_text()
    used = re.findall(r"uses: (\S+)( # v[0-9.]+)?", text)
    assert used
    for action, comment in used:
        assert re.fullmatch(r"[a-z-]+/[a-z-]+@[0-9a-f]{40}", action), action
        assert comment, f"{action} does not say which version that is"
    assert not re.search(r"[a-z0-9-]+\.(io|com|org|dev)\b", text.replace("docs/releasing.md", "")), "an address"


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_only_read_unless_a_job_says_more(workflow: Path) -> None:
    body = yaml.safe_load(workflow.read_text())
    assert body["permissions"] == {"contents": "read"}
    for name, job in body["jobs"].items():
        assert job["timeout-minutes"] <= 90, name
        if "write" in job.get("permissions", {}).values():
            assert workflow.name == "release.yml", name


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_what_is_there(workflow: Path) -> None:
    targets = set(re.findall(r"(?m)^([a-z0-9-]+):", (ROOT / "Makefile").read_text()))
    text = workflow.read_text()
    named = set(re.findall(r"\bmake ([a-z0-9-]+)", re.sub(r"(?m)^ *#.*$", "", text)))
    assert named
    assert named <= targets
    for module in re.findall(r"python -m ([a-z0-9_.]+)", text):
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file(), module


def test_every_variable_and_secret_of_the_workflows_is_explained() -> None:
    page = (DOCS / "releasing.md").read_text()
    named = {name for path in WORKFLOWS for name in re.findall(r"\b(?:vars|secrets)\.([A-Z_]+)", path.read_text())}
    assert named >= {"IMAGE", "CHART_REPOSITORY", "PROJECT_URL", "PYTHON_PUBLISH_URL", "RUNNER"}
    assert [name for name in sorted(named - {"GITHUB_TOKEN"}) if f"`{name}`" not in page] == []
