"""What decides where a program is built to, and what the go.mod files must keep."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.harness import build
from e2e.harness.errors import UnavailableError


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "controlplane"
    shutil.copytree(build.MODULES, copy)
    monkeypatch.setattr(build, "MODULES", copy)
    monkeypatch.setenv("RESOURCE_SLACK_CACHE", str(tmp_path / "cache"))
    return copy


def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RESOURCE_SLACK_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert build.cache_root() == tmp_path / "xdg" / "resource-slack" / "controlplane"
    monkeypatch.setenv("RESOURCE_SLACK_CACHE", str(tmp_path / "chosen"))
    assert build.cache_root() == tmp_path / "chosen" / "controlplane"


def test_another_version_is_built_to_another_folder(modules: Path) -> None:
    etcd, kwok = build.TOOLS["etcd"], build.TOOLS["kwok"]
    before = etcd.cache_folder(), kwok.cache_folder()
    path = modules / "etcd" / "go.mod"
    path.write_text(path.read_text().replace("v3.6.8", "v3.6.9"))
    assert etcd.cache_folder() != before[0]
    assert kwok.cache_folder() == before[1]


def test_a_build_that_was_broken_off_does_not_count(modules: Path) -> None:
    etcd = build.TOOLS["etcd"]
    etcd.cache_folder().mkdir(parents=True)
    etcd.binary().with_suffix(".part").write_bytes(b"half")
    assert not etcd.is_built()
    etcd.binary().write_bytes(b"whole")
    assert not etcd.is_built()
    etcd.stamp().write_text("{}")
    assert build.ensure(["etcd"]) == {"etcd": etcd.binary()}


def test_without_go_the_text_says_what_is_missing(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(modules))
    with pytest.raises(UnavailableError, match="kwok is not built yet, and there is no `go`"):
        build.ensure(["kwok"])


def test_an_unknown_name_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main(["kubeled"]) == 2
    assert "unknown: kubeled. Known: etcd, kube-apiserver" in capsys.readouterr().err


def test_every_program_is_a_tool_of_its_module() -> None:
    for tool in build.TOOLS.values():
        text = (build.MODULES / tool.module / "go.mod").read_text()
        assert re.search(rf"^(tool )?\t?{re.escape(tool.package)}$", text, re.MULTILINE), tool.name


def test_the_staging_modules_are_of_the_same_release() -> None:
    text = (build.MODULES / "kubernetes" / "go.mod").read_text()
    assert f"k8s.io/kubernetes {build.KUBERNETES_VERSION}" in text
    versions = set(re.findall(r"^\tk8s\.io/\S+ => k8s\.io/\S+ (\S+)$", text, re.MULTILINE))
    assert versions == {"v0." + build.KUBERNETES_VERSION.removeprefix("v1.")}


def test_the_modules_name_no_place_on_a_machine() -> None:
    for path in build.MODULES.rglob("go.mod"):
        assert not re.search(r"=> [./]", path.read_text()), path
    ours = [path.relative_to(build.MODULES).as_posix() for path in build.MODULES.rglob("*.go")]
    assert ours == ["kubernetes/selectors/main.go"], "it prints what kube-scheduler answers, once"


def test_what_only_watches_the_control_plane_may_be_missing(
    modules: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for tool in build.TOOLS.values():
        if not tool.optional:
            tool.cache_folder().mkdir(parents=True, exist_ok=True)
            tool.binary().write_bytes(b"whole")
            tool.stamp().write_text("{}")
    monkeypatch.setenv("PATH", str(modules))
    assert build.main([]) == 0
    assert "going on without prometheus: prometheus is not built yet" in capsys.readouterr().err
    assert build.main(["prometheus"]) == 3, "no build has failed: the machine has no Go"


def test_tags_change_the_folder_and_their_absence_does_not() -> None:
    plain, tagged = build.TOOLS["kwok"], build.TOOLS["prometheus"]
    assert replace(plain, optional=True).cache_folder() == plain.cache_folder()
    assert replace(tagged, tags="").cache_folder() != tagged.cache_folder()
