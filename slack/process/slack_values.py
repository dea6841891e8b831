"""Values of settings that only who keeps slack has: rates, prices of nodes, fields of placeholders.

Apart from `values`, which light processes read their settings with, too.
"""

import json
import re
from collections.abc import Mapping

from slack.cluster.classes import TaintKeys
from slack.cluster.node_prices import NodePrices, parse_prices
from slack.cluster.rates import MOST_WITHOUT_CEILING, NEEDS_CEILING
from slack.process.values import Parse

MOST_RATE = 10.0
_PERCENTAGE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")


def rate(value: object) -> float:
    """Parse a share such as 0.1, which is no percentage, and for which no ceiling is needed."""
    percentage = _PERCENTAGE.fullmatch(value) if isinstance(value, str) else None
    if percentage:
        raise ValueError(f"{value!r} is a percentage; write {float(percentage[1]) / 100:g}")
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError
        number = float(value) if isinstance(value, str) else value
    except ValueError:
        shown = "" if isinstance(value, bool) else f"{value!r} "
        raise ValueError(f"{shown}is no number; write a rate such as 0.1") from None
    if not 0 <= number <= MOST_RATE:  # NaN is not between either
        raise ValueError(f"should be a number from 0 to {MOST_RATE:g}, not {value!r}")
    if number > MOST_WITHOUT_CEILING:
        raise ValueError(f"{value!r}: {NEEDS_CEILING}; a flag has no ceiling, so write it into a SlackPolicy")
    return float(number)


def taint_keys(value: object) -> TaintKeys | None:
    """Parse keys of taints with commas between them, or a list of them; None where there are none."""
    entries = value if isinstance(value, list | tuple) else str(value).split(",")
    found = [str(entry).strip() for entry in entries if str(entry).strip()]
    return TaintKeys.parse(found) if found else None


def prices(value: object) -> NodePrices | None:
    """Parse prices of nodes: a mapping, or JSON; None where nothing has a price, nor a currency for those of others."""
    found = parse_prices(value)
    return found if found or found.currency else None


def fields(such_as: str) -> Parse:
    """Return a parser of fields by name: a mapping, or JSON; None where there are none.

    What the fields are is for the model to check that they are meant for.
    """

    def parse(value: object) -> Mapping[str, object] | None:
        found = value
        if isinstance(value, str):
            try:
                found = json.loads(value)
            except (ValueError, RecursionError):
                found = value
        if not isinstance(found, Mapping):
            raise ValueError(f"expected JSON such as {such_as}, not {value!r}")
        return found or None

    return parse
