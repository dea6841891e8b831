"""The words of a kernel's verdict."""

from enum import StrEnum


class KernelState(StrEnum):
    """What the table says."""

    AFFECTED = "affected"
    FIXED = "fixed"
    NEVER_HAD_IT = "never had it"
    UNKNOWN = "unknown"


class Bug(StrEnum):
    """Two bugs of one piece of code: the fix of the first brought the second."""

    CLOCK_DRIFT = "clock drift"
    SLICE_EXPIRY = "slice expiry"
    EITHER = "clock drift or slice expiry"
    """One of the two: when this series took the first one's fix is not established."""


class Confidence(StrEnum):
    """How sure a line is."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
