"""Which amounts of a resource are likely a slip of the pen, and what is said of them: the same words wherever they are
judged (`slack.planner.policy.fields`, the CRD's rules, the chart's schema).

What real pods and nodes say is never judged by this: they may request a byte.
"""

import difflib
import re
from typing import Final

from slack.cluster.quantity import base_units

NAMED: Final = ("cpu", "memory", "ephemeral-storage", "pods")
OTHER_NAMES: Final = (
    r"^((hugepages|attachable-volumes)-[-a-zA-Z0-9]{1,63}"
    r"|[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$"
)
"""The attachable volumes are in the allocatable of older nodes, which people copy."""
IN_BYTES: Final = ("memory", "ephemeral-storage")
LEAST_BYTES: Final = 1 << 20
"""Of what a policy names: below it a unit was left out. None at all, 0, is no slip."""
OF_BYTES: Final = r"([KMGTPE]i|[MGTPE])$"
"""Suffixes that nobody means with cores."""
NO_RESOURCE: Final = (
    "a resource is cpu, memory, ephemeral-storage, pods or hugepages-SIZE, or has a domain, such as nvidia.com/gpu"
)
NO_CORES: Final = "cpu is in cores, such as 2 or 500m; suffixes such as Mi and Gi are of bytes"
TOO_FEW_BYTES: Final = (
    "memory and ephemeral-storage are in bytes, such as 512Mi or 4Gi; less than 1Mi must be a slip, but for 0"
)
_OTHER_NAMES = re.compile(OTHER_NAMES)
_OF_BYTES = re.compile(OF_BYTES)
_NEAR = 0.6
_LONGEST_NAME = 317


def slip_in(resource: str, text: str) -> str | None:
    """Return what is wrong with an amount that is a quantity; None for nothing.

    Raises:
        QuantityError: it is none.
    """
    if resource not in NAMED and (len(resource) > _LONGEST_NAME or not _OTHER_NAMES.match(resource)):
        return NO_RESOURCE + _meant(resource)
    if resource == "cpu" and _OF_BYTES.search(text):
        return f"{NO_CORES}, not {text!r}"
    if resource in IN_BYTES and 0 < base_units(text) < LEAST_BYTES:
        return f"{TOO_FEW_BYTES}, not {text!r}"
    return None


def _meant(resource: str) -> str:
    near = difflib.get_close_matches(resource.lower()[:_LONGEST_NAME], NAMED, 1, _NEAR)
    return f"; did you mean {near[0]}?" if near else ""
