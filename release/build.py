"""Builds what a release consists of into a folder: `python -m release.build`; what `make release` does.

Usage:
    python -m release.build [--out dist] [--only wheel,sbom,chart,plugin,manifest]

Variables say what the tree cannot know: PROJECT_URL, the project's home, IMAGE, registry and name of the image, and
DOWNLOAD_URL, the place of the archives without their names. With SIGNING_KEY, the file of a private key, the sums are
signed. The manifest of the plugin is written from all archives that lie in the folder, of other platforms too, and
SHA256SUMS covers everything.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from release import chart, plugin, sbom, signing, version

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("wheel", "sbom", "chart", "plugin", "manifest")
SUMS = "SHA256SUMS"
NOWHERE = "https://example.com/resource-slack"


def uv() -> str:
    """Return the program that makes environments: on the PATH, or the one that `make setup` has installed."""
    return shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")


def environment(folder: Path, *locks: str) -> Path:
    """Make an environment with what these locks name and nothing else; return its Python."""
    subprocess.run([uv(), "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    python = folder / "bin" / "python"
    command = [uv(), "pip", "install", "--quiet", "--python", str(python), "--require-hashes"]
    for lock in locks:
        command += ["-r", str(ROOT / "requirements" / lock)]
    subprocess.run(command, check=True)
    return python


def install_wheel(python: Path, wheel: Path) -> None:
    """Install a wheel into an environment, without anything from a registry."""
    subprocess.run([uv(), "pip", "install", "--quiet", "--python", str(python), "--no-deps", str(wheel)], check=True)


def build_wheel(out: Path, scratch: Path) -> Path:
    """Build the wheel by the locked build requirements, with the commit's time: the same commit, the same bytes."""
    python = environment(scratch / "build", "build.txt")
    source = scratch / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "dist", "__pycache__", "node_modules"))
    code = "import hatchling.build, sys; print(hatchling.build.build_wheel(sys.argv[1]))"  # what every front end calls
    surroundings = {**os.environ, "SOURCE_DATE_EPOCH": _commit_time()}
    subprocess.run(
        [str(python), "-c", code, str(out)], cwd=source, env=surroundings, check=True, stdout=subprocess.DEVNULL
    )
    (made,) = out.glob("*.whl")
    return made


def _commit_time() -> str:
    found = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "1767225600"


def build_plugin(wheel: Path, out: Path, scratch: Path, number: str) -> Path:
    """Freeze the wheel into kubectl's plugin for this machine."""
    python = environment(scratch / "plugin", "run.txt", "krew.txt")
    install_wheel(python, wheel)
    return plugin.archive(plugin.freeze(python, scratch), ROOT / "LICENSE", out, number)


def sums(out: Path) -> dict[str, str]:
    """Return the sha256 of every file but the list of them and its signature."""
    files = sorted(file for file in out.iterdir() if file.is_file() and file.name not in (SUMS, signing.SIGNATURE))
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def build(out: Path, parts: Sequence[str]) -> None:
    """Build the named parts; the sums are always written, last."""
    from e2e.harness import build as programs

    number, project_url = version.current(), os.environ.get("PROJECT_URL") or None
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="resource-slack-release-") as folder:
        scratch = Path(folder)
        if "wheel" in parts:
            build_wheel(out, scratch)
        if "sbom" in parts:
            bill = sbom.of_lock(ROOT / "requirements" / "run.txt", "resource-slack", number)
            (out / f"resource-slack-{number}.cdx.json").write_text(bill, encoding="utf-8")
        if "chart" in parts:
            helm = programs.ensure(["helm"])["helm"]
            chart.package(
                helm, out, project_url=project_url, image=os.environ.get("IMAGE") or None, scratch=scratch / "chart"
            )
        if "plugin" in parts:
            (wheel,) = out.glob(f"resource_slack-{number}-*.whl")
            build_plugin(wheel, out, scratch, number)
        if "manifest" in parts:
            text = plugin.manifest(
                number,
                sums(out),
                download_url=os.environ.get("DOWNLOAD_URL") or NOWHERE,
                homepage=project_url or NOWHERE,
            )
            (out / "slack.yaml").write_text(text, encoding="utf-8")
    (out / signing.SIGNATURE).unlink(missing_ok=True)
    (out / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in sums(out).items()), encoding="utf-8")
    if key := os.environ.get("SIGNING_KEY"):
        (out / signing.SIGNATURE).write_text(signing.sign(out / SUMS, Path(key)), encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Build what is asked for, and say what is there."""
    parser = argparse.ArgumentParser(prog="python -m release.build", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas")
    given = parser.parse_args(arguments)
    parts = given.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    problems = list(version.others())
    if problems:
        print("\n".join([*problems, "run: make version VERSION=..."]), file=sys.stderr)
        return 1
    build(given.out.resolve(), parts)
    for name, digest in sums(given.out.resolve()).items():
        print(f"{digest[:12]}  {(given.out / name).stat().st_size / 1e6:7.1f} MB  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
