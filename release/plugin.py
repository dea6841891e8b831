"""The command as a plugin of kubectl for krew: one archive a platform, with its own Python, and the manifest.

krew unpacks an archive and links `kubectl-slack`; who installs it so may have no Python at all. PyInstaller freezes the
wheel, installed by the lock into an environment where nothing else is, for the machine that it runs on: other platforms
are built by runners of theirs (.github/workflows/release.yml), and one manifest lists all archives that are there.
"""

import platform
import re
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

NAME = "slack"
_ARCHES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_ARCHIVE = re.compile(r"kubectl-slack_(?P<version>.+)_(?P<os>linux|darwin)_(?P<arch>amd64|arm64)\.tar\.gz")
_ENTRY = """\
import sys

from slack.cli.main import main

sys.exit(main())
"""


def this_platform() -> tuple[str, str]:
    """Return this machine's operating system and architecture in krew's words."""
    return platform.system().lower(), _ARCHES[platform.machine().lower()]


def archive_name(version: str, system: str, arch: str) -> str:
    """Return the archive's name."""
    return f"kubectl-slack_{version}_{system}_{arch}.tar.gz"


def freeze(python: Path, scratch: Path) -> Path:
    """Freeze the command that is installed beside `python`, which has PyInstaller too; return its folder."""
    entry = scratch / "kubectl_slack.py"
    entry.write_text(_ENTRY, encoding="utf-8")
    command = [
        *(str(python), "-m", "PyInstaller", "--noconfirm", "--log-level=ERROR", "--onedir", "--name=kubectl-slack"),
        # commands are imported when they are run, by name
        *("--collect-all=slack", "--collect-all=slack_operator", "--copy-metadata=resource-slack"),
        *("--collect-data=tzdata", "--collect-submodules=rich"),
        *(f"--distpath={scratch / 'frozen'}", f"--workpath={scratch / 'work'}", f"--specpath={scratch}"),
        str(entry),
    ]
    subprocess.run(command, check=True, cwd=scratch)
    return scratch / "frozen" / "kubectl-slack"


def archive(frozen: Path, license_file: Path, out: Path, version: str) -> Path:
    """Pack a frozen command; the licence goes with it, as krew asks."""
    target = out / archive_name(version, *this_platform())
    with tarfile.open(target, "w:gz", compresslevel=6) as packed:
        packed.add(frozen, arcname="kubectl-slack")
        packed.add(license_file, arcname="LICENSE")
    return target


def manifest(version: str, sums: Mapping[str, str], *, download_url: str, homepage: str) -> str:
    """Return krew's manifest of the archives.

    Args:
        version: ours, without a v.
        sums: sha256 by file name, of everything that is in `dist`.
        download_url: where the archives will be, without their names.
        homepage: the project's.

    Raises:
        ValueError: there is no archive.
    """
    platforms: list[dict[str, Any]] = []
    for name, digest in sorted(sums.items()):
        if found := _ARCHIVE.fullmatch(name):
            platforms.append(
                {
                    "selector": {"matchLabels": {"os": found["os"], "arch": found["arch"]}},
                    "uri": f"{download_url.rstrip('/')}/{name}",
                    "sha256": digest,
                    "bin": "kubectl-slack/kubectl-slack",
                }
            )
    if not platforms:
        raise ValueError("there is no archive of the plugin")
    body = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": NAME},
        "spec": {
            "version": f"v{version}",
            "homepage": homepage,
            "shortDescription": "Room for pods that start at once",
            "description": "Shows, plans, sizes and explains the placeholders that keep room for new pods on an\n"
            "autoscaled cluster, and finds containers that a CPU limit stops.\n",
            "platforms": platforms,
        },
    }
    return yaml.safe_dump(body, sort_keys=False)
