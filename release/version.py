"""The version stands in pyproject.toml; the other files that have to name it are written from there.

Usage:
    python -m release.version              # print it
    python -m release.version 0.2.0        # write it, into pyproject.toml and the others; then: make deploy
    python -m release.version --check      # say which file has another, with exit code 1
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_VERSION = r"[0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z.]+)?"
PLACES = {
    "pyproject.toml": rf'(?m)^(version = ")({_VERSION})(")$',
    "charts/resource-slack/Chart.yaml": rf"(?m)^((?:version|appVersion): )({_VERSION})()$",
    "Dockerfile": rf"(?m)^(ARG VERSION=)({_VERSION})()$",
    "README.md": rf"(resource-slack:)({_VERSION})()\b",
    "docs/first-burst.md": rf"(resource-slack:)({_VERSION})()\b",
    "docs/air-gapped.md": rf"(resource-slack:)({_VERSION})()\b",
    "examples/gitops/argocd.yaml": rf"(targetRevision: v)({_VERSION})()\b",
    "examples/gitops/flux.yaml": rf"(tag: v)({_VERSION})()\b",
    "docs/image.md": rf"(resource-slack:)({_VERSION})()\b",
}
"""What stands before it, the version, and what stands behind, in every file that a person writes."""


def current(root: Path = ROOT) -> str:
    """Return the version of pyproject.toml."""
    version: str = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    return version


def others(root: Path = ROOT) -> Iterator[str]:
    """Yield a line for each place that names another version, or none where one should stand."""
    wanted = current(root)
    for name, pattern in PLACES.items():
        path = root / name
        found = {version for _, version, _ in re.findall(pattern, path.read_text(encoding="utf-8"))}
        if found != {wanted}:
            yield f"{name}: has {', '.join(sorted(found)) or 'no version'}, pyproject.toml has {wanted}"


def write(version: str, root: Path = ROOT) -> None:
    """Write a version into all places.

    Raises:
        ValueError: it is no version of Semantic Versioning.
    """
    if not re.fullmatch(_VERSION, version):
        raise ValueError(f"{version!r} is no version such as 0.2.0 or 0.2.0-rc.1")
    for name, pattern in PLACES.items():
        path = root / name
        path.write_text(
            re.sub(pattern, lambda found: found[1] + version + found[3], path.read_text(encoding="utf-8")),
            encoding="utf-8",
        )


def main(arguments: Sequence[str]) -> int:
    """Print, check or write the version."""
    if not arguments:
        print(current())
        return 0
    if list(arguments) == ["--check"]:
        problems = list(others())
        print("\n".join(problems) or f"{current()} in all places")
        return 1 if problems else 0
    try:
        (number,) = arguments
        write(number)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
