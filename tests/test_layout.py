"""What the arrangement of the repository must keep, because tools break without a word when it does not."""

import operator
import os
import re
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
_PINNED = re.compile(r"^(?P<name>[a-z0-9][a-z0-9._-]*(\[[a-z,]+\])?)==\S+")


def test_the_operator_folder_is_no_package_and_never_shadows_the_standard_library() -> None:
    assert (ROOT / "operator" / "slack_operator" / "__init__.py").is_file()
    assert not (ROOT / "operator" / "__init__.py").exists()
    standard = Path(sysconfig.get_path("stdlib"))
    assert Path(operator.__file__).parent == standard
    code = "import operator, slack_operator; print(operator.__file__)"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).parent == standard


@pytest.mark.parametrize("script", ["resource-slack", "kubectl-slack"])
def test_the_console_scripts_are_installed(script: str) -> None:
    names = {
        entry.name for entry in metadata.entry_points(group="console_scripts") if entry.value == "slack.cli.main:main"
    }
    assert script in names
    assert os.access(Path(sys.executable).parent / script, os.X_OK)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_requirement_is_pinned_and_hashed_and_names_no_address(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    assert "--index-url" not in text
    entries = re.split(r"\n(?=\S)", re.sub(r"(?m)^#.*\n", "", text).strip())
    assert entries
    for entry in entries:
        assert _PINNED.match(entry), entry.splitlines()[0]
        assert "--hash=sha256:" in entry, entry.splitlines()[0]


def test_there_are_locks_for_running_and_for_developing() -> None:
    assert {"run.txt", "dev.txt", "uv.txt"} <= {lock.name for lock in LOCKS}


def test_nothing_is_defined_behind_what_runs_a_module() -> None:
    behind = re.compile(r'^if __name__ == "__main__":\n(?:[ #].*\n|\n)*\S', re.MULTILINE)
    assert behind.search('if __name__ == "__main__":\n    # why\n    main()\n\n\nNAME = 1\n')
    found = [
        str(path.relative_to(ROOT))
        for folder in ("slack", "operator", "benchmarks", "e2e", "tools", "release")
        for path in (ROOT / folder).rglob("*.py")
        if behind.search(path.read_text(encoding="utf-8"))
    ]
    assert not found, "what comes later is not there yet when the module runs"


def test_the_ci_script_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_the_license_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text


def test_the_view_is_locked_by_its_package_alone_and_nothing_of_it_is_set_from_outside() -> None:
    package = ROOT / "operator" / "slack_operator"
    outside = [
        f"{path.relative_to(ROOT)}: {found}"
        for folder in ("placeholders", "burst_eviction", "web")
        for path in (package / folder).rglob("*.py")
        if "view" not in path.relative_to(package).parts
        for found in re.findall(r"view\.(?:lock\b|\w+(?: = |\.\w+ = ).*)", path.read_text())
    ]
    assert outside == []
