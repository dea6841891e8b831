"""All parts of one process that have been started. /healthz fails once one of them is dead or stuck."""

from typing import Protocol


class Supervised(Protocol):
    """A part that can say whether its threads and tasks work."""

    def unhealthy(self) -> str | None:
        """Return which thread or task is dead or stuck; None if all work, or none was started."""


class Startable(Supervised, Protocol):
    """A part that is started."""

    def start(self) -> None:
        """Begin."""


class Supervisor:
    """Starts parts, and reports on those that were started. Any thread may call `unhealthy`."""

    def __init__(self) -> None:
        self._parts: tuple[Supervised, ...] = ()

    def start(self, part: Startable) -> None:
        """Start a part, and report on it from now on."""
        part.start()
        self.watch(part)

    def watch(self, part: Supervised) -> None:
        """Report on a part that something else has started."""
        self._parts = (*self._parts, part)

    def unhealthy(self) -> str | None:
        """Return the first problem of any part; None if there is none."""
        return first_problem(*self._parts)


def first_problem(*parts: Supervised) -> str | None:
    """Return what the first unhealthy part says; None if all are healthy."""
    return next((problem for part in parts if (problem := part.unhealthy()) is not None), None)
