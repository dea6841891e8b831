"""The name of an action's queue: its namespace, its name, and the memory of its containers.

Memory is part of the name, so that a message published after a change of memory never reaches a container with the old
one. Wherever a name becomes a subject it goes through here: what could reach another's queue is refused.
"""

import re
from dataclasses import dataclass
from typing import Final, Self

from slack.demand.model import QueueKey
from slack.errors import InvalidInput

FIRST: Final = "act"
MOST_MEMORY_MIB: Final = 1 << 24
"""16 TiB."""
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")


class InvalidSubject(InvalidInput):
    """What cannot be the name of a queue; the text says which part, and what would be right."""


def _label(part: str, value: str) -> str:
    # A dot would be another token of the subject; `*` and `>` are wildcards of brokers.
    if _LABEL.match(value) is None:
        raise InvalidSubject(f"{part} {value!r}: lower case letters, digits and '-', at most 63, such as thumbnail")
    return value


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """`act.{namespace}.{action}.{memory_mib}`; made by `from_action` or `parse`."""

    namespace: str
    action: str
    memory_mib: int

    @classmethod
    def from_action(cls, namespace: str, action: str, memory_mib: int) -> Self:
        """Return the subject of an action.

        Raises:
            InvalidSubject: A name is no DNS label, or the memory is none.
        """
        if not 1 <= memory_mib <= MOST_MEMORY_MIB:
            raise InvalidSubject(f"memory {memory_mib} MiB: from 1 to {MOST_MEMORY_MIB}")
        return cls(_label("namespace", namespace), _label("action", action), memory_mib)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the subject that `text` is.

        Raises:
            InvalidSubject: It is none, or not written as `str` writes it.
        """
        parts = text.split(".")
        if len(parts) != 4 or parts[0] != FIRST or not parts[3].isascii() or not parts[3].isdigit():
            raise InvalidSubject(f"{text!r}: {FIRST}.NAMESPACE.ACTION.MEMORY_MIB, such as act.media.thumbnail.256")
        found = cls.from_action(parts[1], parts[2], int(parts[3][:12]))
        if str(found) != text:
            raise InvalidSubject(f"{text!r}: it would be {found}")
        return found

    def __str__(self) -> str:
        """Return it as brokers have it."""
        return f"{FIRST}.{self.namespace}.{self.action}.{self.memory_mib}"

    @property
    def key(self) -> QueueKey:
        """The action."""
        return QueueKey(self.namespace, self.action)


def kafka_topic(namespace: str, action: str, memory_mib: int) -> str:
    """Return an action's topic in the proposal's form, `{namespace}-{action}-{memory}MB`.

    Names have dashes of their own, so two actions can come to one topic: the controller refuses the second.
    """
    return f"{namespace}-{action}-{memory_mib}MB"
