"""The workflows as GitHub reads them: actionlint judges syntax, expressions, contexts, permissions and shell lines."""

import subprocess

import pytest

from e2e.harness import build
from e2e.harness.errors import HarnessError
from e2e.harness.product.operator import ROOT


def test_the_workflows_are_what_github_takes() -> None:
    try:
        lint = build.ensure(["actionlint"])["actionlint"]
    except HarnessError as error:
        pytest.skip(str(error))
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert {path.name for path in workflows} >= {"ci.yml", "release.yml"}
    done = subprocess.run([str(lint), *map(str, workflows)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_would_be_told_where_one_is_not() -> None:
    try:
        lint = build.ensure(["actionlint"])["actionlint"]
    except HarnessError as error:
        pytest.skip(str(error))
    broken = "on: push\njobs: {a: {runs-on: ubuntu-24.04, needs: b, steps: [{run: 'echo ${{ nowhere.x }}'}]}}\n"
    done = subprocess.run([str(lint), "-"], input=broken, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "nowhere" in done.stdout
