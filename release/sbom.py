"""What is inside, as CycloneDX JSON, from the lock that everything is installed by: the same lock, the same bytes.

Every package with its version, its purl and the digests that pip accepts of it. The image's own, with the packages of
its base, is made by the engine that builds it (docs/releasing.md).
"""

import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ENTRY = re.compile(
    r"^(?P<name>[a-z0-9][a-z0-9._-]*)(?:\[[a-z,]+\])?==(?P<version>[^\s;\\]+)(?: *; *(?P<marker>[^\\]+?))?\s*\\?$"
)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
"""That of RFC 9562 for addresses: the serial number follows from what is listed, not from the day."""


@dataclass(frozen=True, slots=True)
class Package:
    """One line of a lock."""

    name: str
    version: str
    marker: str
    sha256: tuple[str, ...]

    @property
    def purl(self) -> str:
        """Return its package URL."""
        return f"pkg:pypi/{self.name}@{self.version}"


def packages(lock: str) -> Iterator[Package]:
    """Read a lock with hashes, as uv and pip-tools write it.

    Raises:
        ValueError: an entry has no version or no hash.
    """
    for entry in re.split(r"\n(?=\S)", re.sub(r"(?m)^#.*\n", "", lock).strip()):
        found = _ENTRY.match(entry.splitlines()[0])
        hashes = tuple(_HASH.findall(entry))
        if found is None or not hashes:
            raise ValueError(f"the lock's entry {entry.splitlines()[0]!r} has no version or no hash")
        yield Package(found["name"], found["version"], (found["marker"] or "").strip(), hashes)


def bill(name: str, version: str, lock: str) -> str:
    """Return the bill of materials of our package, with all that the lock installs beside it."""
    root = f"pkg:pypi/{name}@{version}"
    listed = sorted(packages(lock), key=lambda package: package.name)
    components = [
        {
            "type": "library",
            "bom-ref": package.purl,
            "name": package.name,
            "version": package.version,
            "purl": package.purl,
            "properties": [
                *({"name": "pip:sha256", "value": digest} for digest in package.sha256),
                *([{"name": "pip:marker", "value": package.marker}] if package.marker else []),
            ],
        }
        for package in listed
    ]
    body = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, json.dumps([root, components]))}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": name,
                "version": version,
                "purl": root,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": root, "dependsOn": [package.purl for package in listed]}],
    }
    return json.dumps(body, indent=2) + "\n"


def of_lock(path: Path, name: str, version: str) -> str:
    """Return the bill of a lock file."""
    return bill(name, version, path.read_text(encoding="utf-8"))
