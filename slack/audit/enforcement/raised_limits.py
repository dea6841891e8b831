"""Raised limits as pods show them: an annotation keeps what each limit was, so a restart forgets nothing."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from slack.audit.sources.pods import ContainerFacts, PodFacts
from slack.cluster.quantity import QuantityError, cpu_millis

Key = tuple[str, str]
"""A pod's uid and a container's name."""


class FormerLimit(msgspec.Struct, frozen=True, omit_defaults=True):
    """One container in the annotation."""

    limit: str
    """Before the first raise."""
    raised: str
    """What it was raised to."""
    at: float
    """Unix time of the last raise."""
    policy: str = ""
    before: str = ""
    """Just before the last raise; what is in force when that one did not come about."""


_FORMER = msgspec.json.Decoder(dict[str, FormerLimit])


def read_former(text: str) -> dict[str, FormerLimit]:
    """Read the annotation; whoever edits it may have broken it, and then there is nothing to put back."""
    try:
        found = _FORMER.decode(text)
        return {
            name: former
            for name, former in found.items()
            if cpu_millis(former.limit) > 0 and cpu_millis(former.raised) > 0
        }
    except (msgspec.DecodeError, UnicodeError, RecursionError, QuantityError):
        return {}


def write_former(former: Mapping[str, FormerLimit]) -> str | None:
    """Return the annotation's text; None when there is nothing to keep."""
    return msgspec.json.encode(dict(former)).decode() if former else None


@dataclass(frozen=True, slots=True)
class RaisedLimit:
    """A container whose limit was raised, as its pod shows it now."""

    pod: PodFacts
    container: ContainerFacts
    former: FormerLimit

    @property
    def key(self) -> Key:
        """Which container."""
        return self.pod.uid, self.container.name

    @property
    def undone(self) -> bool:
        """Whether nothing is raised: the annotation came and the resize did not, or the annotation outlived it."""
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
