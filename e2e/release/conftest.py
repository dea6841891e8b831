"""The folder of the release, and an environment into which its wheel was installed and nothing else."""

import os
import subprocess
from pathlib import Path

import pytest

from release import build, version

_SURROUNDINGS = dict(os.environ)
"""As the machine has them: the suites take proxies away, and what installs packages may need them."""


@pytest.fixture(scope="session")
def dist() -> Path:
    """The folder with the release."""
    folder = Path(os.environ.get("RESOURCE_SLACK_DIST", "dist")).resolve()
    if not (folder / build.SUMS).is_file():
        pytest.skip(f"{folder} has no release; run: make release-check")
    return folder


@pytest.fixture(scope="session")
def number() -> str:
    """The version."""
    return version.current()


@pytest.fixture(scope="session")
def installed(dist: Path, number: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment that has the lock's packages and the release's wheel."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _SURROUNDINGS.items():
            patch.setenv(name, value)
        python = build.environment(tmp_path_factory.mktemp("empty") / "environment", "run.txt")
        (wheel,) = dist.glob(f"resource_slack-{number}-*.whl")
        build.install_wheel(python, wheel)
        subprocess.run([build.uv(), "pip", "check", "--quiet", "--python", str(python)], check=True)
    return python.parent
