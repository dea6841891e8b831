"""The image's steps without an engine: the Dockerfile's own commands in a fresh environment, then run as it will run.

As user 65532 (where the tests run as root), without HOME, in a folder that cannot be written to.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from e2e.harness.cluster.backend import Backend
from e2e.harness.cluster.kwok import node
from e2e.harness.objects import create_all, deployment, wait_for_running
from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.processes import Program
from e2e.harness.product.operator import NAMESPACE, install, placeholders, policy, wait_until_placed

ROOT = Path(__file__).parents[2]
SURROUNDINGS = dict(os.environ)  # before the suites' fence: building asks the package registry, as `make setup` does
TARGET = "/opt/resource-slack"
USER = 65532


def steps() -> Iterator[tuple[str, str]]:
    """Yield the COPY and RUN steps of the first stage."""
    text = re.sub(r"(?m)^#.*\n", "", (ROOT / "Dockerfile").read_text())
    for line in text.split("FROM ")[1].splitlines():
        word, _, rest = line.partition(" ")
        if word in {"COPY", "RUN"}:
            yield word, rest


def copy(sources: list[str], target: Path) -> None:
    target.mkdir(exist_ok=True)
    for source in sources:
        if (ROOT / source).is_dir():
            into = target if target.name == source else target / source
            shutil.copytree(ROOT / source, into, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, target)


def as_the_images_user() -> list[str]:
    """Return the words before a command; one who is not root is no more than the image's user already."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs"]


def base_python() -> Path:
    """Return a Python with venv that the image's user may run: root's own is often in a folder closed to others."""
    for candidate in (Path(sys.executable).resolve(), Path("/usr/local/bin/python3"), Path("/usr/bin/python3")):
        command = [str(candidate), "-c", "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"]
        if not candidate.exists() or subprocess.run([*as_the_images_user(), *command], check=False).returncode:
            continue
        return candidate
    pytest.skip("no Python 3.11 with venv that another user than root may run")


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    """The folder that the image has at /opt/resource-slack."""
    folder = Path(tempfile.mkdtemp(prefix="resource-slack-image-"))
    folder.chmod(0o755)  # pytest's own folders are closed to the image's user
    context, builder = folder / "build", folder / "builder"
    context.mkdir()
    subprocess.run([base_python(), "-m", "venv", builder], check=True)  # the base image's Python, with its pip
    environment = SURROUNDINGS | {"PATH": f"{builder / 'bin'}:{SURROUNDINGS['PATH']}"}
    for word, rest in steps():
        if word == "COPY":
            *sources, target = rest.split()
            copy(sources, context / target)
        else:
            command = rest.replace(TARGET, str(folder / "image"))
            done = subprocess.run(
                ["sh", "-ec", command], cwd=context, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{rest}\n{done.stdout}{done.stderr}"
    shutil.rmtree(context)
    shutil.rmtree(builder)
    (folder / "root").mkdir(mode=0o555)
    yield folder / "image"
    shutil.rmtree(folder)


def environment(image: Path) -> dict[str, str]:
    return {"PATH": f"{image / 'bin'}:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}


def run(image: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*as_the_images_user(), str(image / "bin" / "resource-slack"), *arguments],
        cwd=image.parent / "root",
        env=environment(image),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_is_there_and_nothing_that_installs(image: Path) -> None:
    assert "resource-slack" in run(image, "version").stdout
    for arguments in (["operator", "--help"], ["uninstall", "--help"], ["--help"]):
        done = run(image, *arguments)
        assert done.returncode == 0, done.stderr
        assert "Usage" in done.stdout
    assert not list(image.glob("bin/pip*"))
    assert not list(image.glob("lib/python*/site-packages/hatchling"))


def test_the_operator_does_its_work_there(image: Path, cluster: Backend) -> None:
    create_all(cluster.api, [node(f"node-{i}") for i in range(3)])
    cluster.api.create(deployment("api", 6, cpu="800m", memory="1Gi"))
    wait_for_running(cluster.api, 6, 60)
    kubeconfig = image.parent / "kubeconfig"
    kubeconfig.write_bytes(install(cluster).kubeconfig.read_bytes())
    if os.geteuid() == 0:
        os.chown(kubeconfig, USER, USER)
    kubeconfig.chmod(0o400)
    port = free_port()
    command = [
        # `env -C -i`: the harness gives its programs this process's folder and surroundings
        *("env", "-i", "-C", str(image.parent / "root"), *(f"{k}={v}" for k, v in environment(image).items())),
        *as_the_images_user(),
        str(image / "bin" / "resource-slack"),
        "operator",
        f"--kubeconfig={kubeconfig}",
        f"--namespace={NAMESPACE}",
        f"--listen={LOOPBACK}:{port}",
    ]
    before = set(image.rglob("*"))
    operator = Program("image", command, cluster.run_folder).start()
    try:
        http = urllib3.PoolManager(timeout=2.0, retries=False)

        def ready() -> bool:
            try:
                return http.request("GET", f"http://{LOOPBACK}:{port}/readyz").status == 200
            except urllib3.exceptions.HTTPError:
                return False

        operator.wait_until_ready(ready, seconds=30)
        cluster.api.create(policy("default", extraCapacity={"minRate": 0.2}))
        wait_until_placed(cluster.api, "default")
        assert placeholders(cluster.api, bound=True)
        status = Path(f"/proc/{operator.pid}/status").read_text()
        uid = int(re.findall(r"^Uid:\t(\d+)", status, re.MULTILINE)[0])
        assert uid != 0
        assert uid == (USER if os.geteuid() == 0 else os.getuid())
    finally:
        operator.stop(seconds=15.0)
    assert set(image.rglob("*")) == before
    assert list((image.parent / "root").iterdir()) == []
