"""The notes of a release: its section of CHANGELOG.md. `python -m release.notes` prints those of this version."""

import re
import sys
from pathlib import Path

from release import version

CHANGELOG = Path(__file__).resolve().parents[1] / "CHANGELOG.md"


def section(changelog: str, number: str) -> str:
    """Return what stands below a version's heading.

    Raises:
        ValueError: it has none: *Unreleased* was not given its version.
    """
    found = re.search(rf"(?ms)^## \[{re.escape(number)}\][^\n]*\n(.*?)(?=^## \[|\Z)", changelog)
    if found is None:
        raise ValueError(f"CHANGELOG.md has no section [{number}]; give *Unreleased* its version and day")
    return found[1].strip() + "\n"


def main() -> int:
    """Print them."""
    try:
        sys.stdout.write(section(CHANGELOG.read_text(encoding="utf-8"), version.current()))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
