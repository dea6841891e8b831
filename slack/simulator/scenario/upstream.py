"""What a modelled constant is called upstream, and its default there: a mark on the field itself, so that the reference
and the tests read the same words that the model is made of.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BeforeValidator


@dataclass(frozen=True, slots=True)
class Upstream:
    """The counterpart of a field, to stand in its `Annotated`."""

    name: str = ""
    """The flag, field, feature or constant; '' where upstream has none."""
    default: str = ""
    """Its default there, as upstream writes it; '' where upstream has none."""
    differs: str = ""
    """Why ours is another, or where ours comes from when upstream has none."""


def also(spellings: Mapping[str, str]) -> BeforeValidator:
    """Accept upstream's spelling of values beside ours: `least-waste`, as the flag has it, for `leastWaste`."""

    def translated(value: Any) -> Any:
        return spellings.get(value, value) if isinstance(value, str) else value

    return BeforeValidator(translated)
