"""How many examples a property test looks at: a tenth in `make test`, all in `make test-thorough`.

Both look at the same ones each time, so that a change is refused for what it did and not for what chance has found;
the profile `search` (each night) and EXAMPLES=5000 look elsewhere each time.
"""

import os
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
"""quick, thorough or search."""
T = TypeVar("T")
_WANTED = os.environ.get("EXAMPLES")


def by_profile(quick: T, thorough: T) -> T:
    """Return the size of something that `make test` looks at in little."""
    return quick if PROFILE == "quick" else thorough


def examples(thorough: int = 100, *, quick: int | None = None, **other: Any) -> settings:
    """Return a decorator for a property test; a slow machine fails none.

    Args:
        thorough: Examples of the thorough profile.
        quick: Examples of the quick one; a tenth, but at least 5, when not given.
        other: Further settings of Hypothesis.
    """
    is_quick = PROFILE == "quick" and _WANTED is None
    few = max(5, thorough // 10) if quick is None else quick
    return settings(
        max_examples=int(_WANTED) if _WANTED else few if is_quick else thorough,
        deadline=None,
        derandomize=PROFILE != "search" and _WANTED is None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        **other,
    )
