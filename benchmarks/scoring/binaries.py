"""What pods a second are compared with, built once: a scheduler with the plugin, an extender that scores nothing."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from benchmarks.report import say
from e2e.harness.build import MODULES, cache_root
from e2e.harness.errors import HarnessError

PLUGIN = Path(__file__).with_name("plugin") / "main.go"
BARE = Path(__file__).with_name("bare") / "main.go"


def scheduler_with_plugin() -> Path | None:
    """Build the scheduler that has the formula as a plugin; None where there is no Go."""
    return _built(PLUGIN, MODULES / "kubernetes", "kube-scheduler")


def bare_extender() -> Path | None:
    """Build the extender that scores nothing; None where there is no Go."""
    return _built(BARE, BARE.parent, "bare-extender")


def _built(source: Path, module: Path, name: str) -> Path | None:
    go = shutil.which("go")
    if go is None:
        return None
    inputs = [path for path in (source, module / "go.mod", module / "go.sum") if path.is_file()]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in inputs))
    binary = cache_root() / f"benchmark-{name}-{digest.hexdigest()[:16]}" / name
    if not binary.is_file():
        say(f"building {name} of {source.parent.name}/{source.name}")
        binary.parent.mkdir(parents=True, exist_ok=True)
        part = binary.with_suffix(".part")
        flags = ["-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(part)]
        environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
        built = subprocess.run(
            [go, "build", *flags, str(source)], cwd=module, env=environment, capture_output=True, text=True, check=False
        )
        if built.returncode != 0:
            raise HarnessError(f"go build {source} failed:\n{built.stderr[-2000:]}")
        part.replace(binary)
    return binary
