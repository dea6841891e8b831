"""Debian as an image of the harness's Docker: from debootstrap, as there is no registry to pull it from."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from e2e.harness.docker.engine import Engine
from e2e.harness.errors import HarnessError, UnavailableError

# 12, the last whose systemd runs on control groups of version 1 as they are.
RELEASE = "bookworm"
_HERE = Path(__file__).parent
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")


def require() -> None:
    """Return if a Debian can be made here.

    Raises:
        UnavailableError: what is missing.
    """
    if os.geteuid() != 0:
        raise UnavailableError("a Debian of one's own takes root (debootstrap)")
    if shutil.which("debootstrap") is None:
        raise UnavailableError("a Debian of one's own takes debootstrap, which is not here (Debian: debootstrap)")


def base(docker: Engine) -> str:
    """Make the base image if it is not there; returns its name.

    `DEBIAN_MIRROR` names another mirror than debootstrap's own.
    """
    name = f"resource-slack.test/debian:{RELEASE}"
    if docker.has_image(name):
        return name
    require()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="debian-") as scratch:
        root, log = Path(scratch, "root"), Path(scratch, "log")
        mirror = os.environ.get("DEBIAN_MIRROR")
        source = f" from {mirror}" if mirror else ""
        with log.open("wb") as output:
            done = subprocess.run(
                ["debootstrap", "--variant=minbase", RELEASE, str(root), *([mirror] if mirror else [])],
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=1200,
                check=False,
            )
        if done.returncode != 0:
            end = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-10:])
            raise UnavailableError(f"debootstrap {RELEASE}{source} failed; the end of its log:\n{end}")
        for path in (root / "var/cache/apt/archives").glob("*.deb"):
            path.unlink()
        _import(docker, root, name)
    say(f"Debian {RELEASE}{source} in {time.monotonic() - began:.0f} s")
    return name


def python(docker: Engine) -> str:
    """Make the image that the operator's is built on, if it is not there; returns its name."""
    recipe = _HERE / "python.Dockerfile"
    name = f"resource-slack.test/python:{RELEASE}-{hashlib.sha256(recipe.read_bytes()).hexdigest()[:12]}"
    if not docker.has_image(name):
        under = base(docker)
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="python-") as scratch:
            shutil.copy(recipe, Path(scratch, "Dockerfile"))
            # pip in a container is to trust what this machine trusts, which may reach PyPI through a proxy.
            trusted = _AUTHORITIES.read_bytes() if _AUTHORITIES.exists() else b""
            Path(scratch, "ca-certificates.crt").write_bytes(trusted)
            docker.run("build", f"--build-arg=BASE={under}", f"--tag={name}", scratch, seconds=900)
        say(f"Python on it in {time.monotonic() - began:.0f} s")
    return name


def _import(docker: Engine, root: Path, name: str) -> None:
    tar = ["tar", "--directory", str(root), "--create", "."]
    with subprocess.Popen(tar, stdout=subprocess.PIPE) as packed:
        done = subprocess.run(
            ["docker", "import", "-", name],
            stdin=packed.stdout,
            env=docker.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    if done.returncode != 0 or packed.returncode != 0:
        raise HarnessError(f"docker import failed: {done.stderr.strip()}")


def say(text: str) -> None:
    """Tell how far it is."""
    print(f"build: {text}", file=sys.stderr, flush=True)
