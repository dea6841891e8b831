"""How a run is asked for, whatever runs it."""

import asyncio
from dataclasses import dataclass
from typing import Final, Protocol

from slack.demand.broker import PulledMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How a run ended. A message that was not run well is given back, and tried again after the delay."""

    done: bool
    reason: str = ""
    """Why not; of the runner, never of the message."""
    delay_seconds: float | None = None
    """What the runner asked for; None: as the number of attempts has it."""


DONE: Final = RunOutcome(done=True)


class RunnerGone(Exception):
    """What runs messages has ended for good, and so does the container; the text says how."""


class Runner(Protocol):
    """Runs messages, as many at once as there are slots. Of one event loop."""

    async def start(self) -> None:
        """Return once messages can be run; `RunnerGone` when they never can."""
        ...

    async def run(self, message: PulledMessage) -> RunOutcome:
        """Run one to its end. Cancelled when it takes too long.

        Raises:
            RunnerGone: it has ended; whether the message was run is not known.
        """
        ...

    def broken(self) -> str | None:
        """Say why no message should be pulled now; None when they may come."""
        ...

    async def close(self) -> None:
        """End it; nothing runs any more."""
        ...


class WaitRunner:
    """Each run is a time that goes by."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def start(self) -> None:
        """Nothing is to be waited for."""

    async def run(self, message: PulledMessage) -> RunOutcome:
        """Let the time go by."""
        await asyncio.sleep(self._seconds)
        return DONE

    def broken(self) -> str | None:
        """Never."""
        return None

    async def close(self) -> None:
        """Nothing is there to end."""
