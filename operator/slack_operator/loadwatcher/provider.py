"""What the watcher asks of a provider: one module each, that talks; what is asked and how answers read is pure."""

from collections.abc import Callable, Iterable
from typing import Protocol

from slack.loadwatcher.readings import Readings
from slack.loadwatcher.sample import LoadSample

OnQueryError = Callable[[str], None]
"""Called with the metric type that a failed question was about."""


class LoadProvider(Protocol):
    """Where figures come from. Owned by the watcher's thread."""

    @property
    def source(self) -> str:
        """Its name, as payloads have it."""

    @property
    def sample_seconds(self) -> float | None:
        """How often it wants to be sampled between fetches; None where it has a history of its own."""

    def remember(self, samples: Iterable[LoadSample]) -> None:
        """Take samples of an earlier life in; nothing where there is a history."""

    def sample(self, now: float) -> None:
        """Take a sample.

        Raises:
            FetchFailed: with the cause in words.
        """

    def fetch(self, now: float) -> Readings:
        """Return the figures of windows that end now (Unix seconds).

        Raises:
            FetchFailed: with the cause in words.
        """

    def close(self) -> None:
        """Let go of connections."""
