"""Where an audit's counters come from. Imports nothing: a help text lists what it needs."""

from enum import StrEnum


class SourceKind(StrEnum):
    """Which source of counters."""

    CGROUPS = "cgroups"
    CADVISOR = "cadvisor"
    PROMETHEUS = "prometheus"
