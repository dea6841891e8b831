"""The gate's image for a node of this machine: Python and what the gate imports, taken from here as they are.

It stands for the operator's image, which cannot be built without a registry: the same interpreter and the same files,
20 MB instead of 200, so that the node need not copy them all for each pod.
"""

import os
import subprocess
import sys
from pathlib import Path

import slack_operator
from e2e.harness.errors import HarnessError
from e2e.harness.node import images
from e2e.harness.node.containerd import Containerd

NAME = "resource-slack.test/gate:1"
MODULE = "slack_operator.throttler.gate"
_ROOM = Path(slack_operator.__file__).parent
_SITE = "/opt/gate"
_LIST = """
import encodings.idna, importlib.util, pkgutil, runpy, sys
import slack_operator.throttler.gate.__main__
print(*[module.__file__ for module in list(sys.modules.values()) if getattr(module, "__file__", None)], sep="\\n")
"""


def bring(containerd: Containerd, folder: Path) -> str:
    """Make the image known to the node; returns its name."""
    path = images.archive(
        folder / "gate.tar", NAME, [], files=_files(), User="65532:65532", Env=["PATH=/bin", f"PYTHONPATH={_SITE}"]
    )
    containerd.ctr("images", "import", str(path))
    path.unlink()
    return NAME


def _files() -> dict[str, Path]:
    """Return the image's files and where they are here."""
    python = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    done = subprocess.run(
        [str(python), "-S", "-c", _LIST],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(_ROOM.parent)},
    )
    if done.returncode != 0:
        raise HarnessError(f"what the gate imports cannot be told: {done.stderr}")
    modules = [Path(line) for line in done.stdout.splitlines()]
    binaries = [python, *(module for module in modules if module.suffix == ".so")]
    standard = [module for module in modules if not module.is_relative_to(_ROOM)]
    library = Path(os.__file__).parent
    standard += [library / "encodings" / "ascii.py", *(library / "importlib").glob("*.py")]
    files = {str(path): path for path in [*standard, python, *_libraries(binaries)]}
    files |= {f"{_SITE}/{path.relative_to(_ROOM.parent)}": path for path in modules if path.is_relative_to(_ROOM)}
    return files | {"bin/python": python}


def _libraries(binaries: list[Path]) -> set[Path]:
    """Return the shared libraries of programs and modules, and the loader (ldd(1))."""
    done = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, timeout=60, check=True)
    words = {word for line in done.stdout.splitlines() for word in line.split()}
    return {Path(word) for word in words if word.startswith("/") and not word.endswith(":") and Path(word).is_file()}
