"""Raised limits and what they were before: one entry per container, kept in a record that only the controller writes.

The record is a ConfigMap in the controller's namespace. Releases before it wrote the same entries into an annotation of
the pod. Whoever may patch a pod may write that, so an annotation is read once, when there is no record yet, and only
`adoptable` entries are taken over.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from slack.audit.sources.pods import AuditedContainerFacts, AuditedPodFacts
from slack.cluster.quantity import QuantityError, cpu_millis

Key = tuple[str, str]
"""A pod's uid and a container's name."""
MAX_ENTRY_CHARACTERS: Final = 16_384
"""One pod's entries. A pod with 60 containers has 10,000 characters."""
_Limit = Annotated[str, Meta(max_length=64)]


class FormerLimit(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is recorded of one container."""

    limit: _Limit
    """Before the first raise."""
    raised: _Limit
    """What it was raised to."""
    at: float
    """Unix time of the last raise."""
    policy: Annotated[str, Meta(max_length=253)] = ""
    before: _Limit = ""
    """Just before the last raise; what is in force when that one did not come about."""


_FORMER = msgspec.json.Decoder(dict[str, FormerLimit])


def read_former(text: str) -> dict[str, FormerLimit]:
    """Read one pod's entries, by container; a text that is broken or too long has none."""
    if len(text) > MAX_ENTRY_CHARACTERS:
        return {}
    try:
        found = _FORMER.decode(text)
        return {name: former for name, former in found.items() if _is_usable(former)}
    except (msgspec.DecodeError, UnicodeError, RecursionError, QuantityError):
        return {}


def write_former(former: Mapping[str, FormerLimit]) -> str | None:
    """Return the text of one pod's entries; None when there is nothing to keep."""
    return msgspec.json.encode(dict(former)).decode() if former else None


def adoptable(pod: AuditedPodFacts, text: str, now: float) -> dict[str, FormerLimit]:
    """Return what may be taken over from an annotation that anybody may have written.

    An entry is taken over if the limit in force is the one that it calls raised, and the former limit is below that: to
    put it back can then only lower a limit. Times do not lie ahead.
    """
    taken: dict[str, FormerLimit] = {}
    for name, former in read_former(text).items():
        container = pod.container(name)
        if container is None:
            continue
        raised = RaisedLimit(pod, container, former)
        if raised.ours and cpu_millis(former.limit) < (container.cpu_limit_millis or 0):
            taken[name] = msgspec.structs.replace(former, at=min(former.at, now), policy="")
    return taken


def _is_usable(former: FormerLimit) -> bool:
    before = cpu_millis(former.before) if former.before else 1
    return min(cpu_millis(former.limit), cpu_millis(former.raised), before) > 0


@dataclass(frozen=True, slots=True)
class RaisedLimit:
    """A container that the record names, with its limit as the pod has it now."""

    pod: AuditedPodFacts
    container: AuditedContainerFacts
    former: FormerLimit

    @property
    def key(self) -> Key:
        """Which container."""
        return self.pod.uid, self.container.name

    @property
    def undone(self) -> bool:
        """Whether nothing is raised: the entry was recorded and the resize did not come, or was put back by others."""
        return self.container.cpu_limit_millis == cpu_millis(self.former.limit)

    @property
    def ours(self) -> bool:
        """Whether the limit still is what we made it; else somebody has set another since."""
        ours = {cpu_millis(limit) for limit in (self.former.raised, self.former.before) if limit}
        return not self.undone and self.container.cpu_limit_millis in ours

    @property
    def added_millis(self) -> int:
        """What is added now."""
        return max(0, (self.container.cpu_limit_millis or 0) - cpu_millis(self.former.limit)) if self.ours else 0
