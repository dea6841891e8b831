"""What axe-core, which judges how accessible a page is, finds wrong with one."""

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

from e2e.harness.product.browser import Visit

CARRIER = "axe_playwright_python"
"""The package that carries the script (requirements/browser.in)."""


@cache
def _script() -> str:
    spec = importlib.util.find_spec(CARRIER)
    if spec is None or spec.origin is None:
        raise RuntimeError(f"no {CARRIER}: `make e2e` installs it (requirements/browser.txt)")
    return (Path(spec.origin).parent / "axe.min.js").read_text(encoding="utf-8")


def findings(visit: Visit) -> list[str]:
    """Return what it finds, of every weight: rule, weight, and the elements; the page's own policy stays in force."""
    visit.page.evaluate(_script())
    found: dict[str, Any] = visit.page.evaluate("axe.run()")
    if not found["passes"]:
        raise RuntimeError("axe-core has looked at nothing")
    return [
        f"{rule['id']} ({rule['impact']}): {', '.join(node['html'][:80] for node in rule['nodes'][:3])}"
        for rule in found["violations"]
    ]
