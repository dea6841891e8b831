"""Which field was meant by a name that is none: by case, or a letter that is wrong or missing. Light: agents use it."""

import difflib
from collections.abc import Iterable

_LONGEST_COMPARED = 60
_NEAR = 0.75


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return `; did you mean minRate?`, '' where no name looks like it."""
    by_lower = {field.lower(): field for field in known}
    near = difflib.get_close_matches(str(name).lower()[:_LONGEST_COMPARED], by_lower, 1, _NEAR)
    return f"; did you mean {by_lower[near[0]]}?" if near else ""
