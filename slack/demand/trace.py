"""A run as it is written down, a JSON object a line, and played again: what each tick was told, and what it answered.

The rules have no clock and no chance in them, so the same lines give the same answers; with other guards or settings
they tell what would have been decided from the same readings. They do not tell what would have become of it: the
containers of a recording are those that its own decisions made.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from slack.demand.bounds import Instant, Messages, Milliseconds, Seconds, by_field
from slack.demand.broker import QueueLag
from slack.demand.model import EndReason, Guards, InvalidGuards, PoolContainer, PoolSettings, QueueKey, QuotaSettings
from slack.demand.tick import PoolScheduler, TickInput, TickResult
from slack.errors import InvalidInput

MOST_LINE_BYTES: Final = 64 << 20


class InvalidRecording(InvalidInput):
    """A line that is no part of a recording; the text has its number and the field."""


class SettingsLine(msgspec.Struct, frozen=True, kw_only=True, tag="settings"):
    """From here on these pools and quotas hold; a `fresh` one begins anew, as a new leader does."""

    epoch: str
    guards: str
    pools: tuple[PoolSettings, ...] = ()
    quotas: tuple[QuotaSettings, ...] = ()
    fresh: bool = False


class TickLine(msgspec.Struct, frozen=True, kw_only=True, tag="tick", omit_defaults=True):
    """One tick. What is as it was at the tick before is left out."""

    now_seconds: Instant
    lags: dict[str, QueueLag] | None = None
    broker: bool = True
    """Whether the broker could be read."""
    containers: tuple[PoolContainer, ...] | None = None
    """None: as before."""
    durations_ms: tuple[tuple[QueueKey, tuple[Milliseconds, ...]], ...] = ()
    incoming: tuple[tuple[QueueKey, Messages], ...] = ()
    node_start_seconds: Seconds | None = None
    failed: tuple[tuple[str, str], ...] = ()
    """Creations that had failed since the tick before, with their reasons."""
    created: tuple[str, ...] = ()
    ended: tuple[tuple[str, EndReason], ...] = ()
    unread: tuple[str, ...] = ()
    """Subjects that could not be read while others could."""
    refused: tuple[QueueKey, ...] = ()
    """Actions of which new messages were refused."""


Line = SettingsLine | TickLine
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final[msgspec.json.Decoder[Line]] = msgspec.json.Decoder(SettingsLine | TickLine)


def encode(line: Line) -> bytes:
    """Write a line, with its end."""
    return _ENCODER.encode(line) + b"\n"


def decode(text: bytes, number: int) -> Line:
    """Read a line.

    Raises:
        InvalidRecording: it is none.
    """
    if len(text) > MOST_LINE_BYTES:
        raise InvalidRecording(f"line {number}: is longer than {MOST_LINE_BYTES >> 20} MiB")
    try:
        line = _DECODER.decode(text)
        if isinstance(line, SettingsLine):
            Guards.parse(line.guards)  # here, where the line is known
    except InvalidGuards as error:
        raise InvalidRecording(f"line {number}: guards: {str(error)[:200]}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRecording(f"line {number}: {by_field(str(error))[:200]}") from None
    return line


class TraceWriter:
    """Turns ticks into lines. Owned by the thread that ticks."""

    def __init__(self) -> None:
        """Nothing is written yet."""
        self._containers: tuple[PoolContainer, ...] | None = None

    def tick(self, seen: TickInput, failed: Sequence[tuple[str, str]], result: TickResult) -> TickLine:
        """Return the line of a tick."""
        containers = tuple(seen.containers)
        line = TickLine(
            now_seconds=seen.now_seconds,
            lags=None if seen.lags is None else dict(seen.lags),
            broker=seen.lags is not None,
            unread=tuple(sorted(seen.unread)),
            containers=None if containers == self._containers else containers,
            durations_ms=tuple((key, tuple(runs)) for key, runs in seen.durations_ms.items()),
            incoming=tuple(seen.incoming.items()),
            node_start_seconds=seen.node_start_seconds,
            failed=tuple(failed),
            created=tuple(creation.id for creation in result.creations),
            ended=tuple((ending.container_id, ending.reason) for ending in result.endings),
            refused=tuple(key for key, verdict in result.verdicts.items() if verdict.reject),
        )
        self._containers = containers
        return line


@dataclass(slots=True)
class PoolTotals:
    """What a run came to for one pool."""

    created: int = 0
    ended: int = 0
    refused_ticks: int = 0
    unmet: int = 0
    """The most at any tick."""
    queued: int = 0
    """The most at any tick."""


@dataclass(slots=True)
class RunTotals:
    """What a run came to."""

    ticks: int = 0
    seconds: float = 0.0
    created: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    refused_ticks: int = 0
    differing_ticks: int = 0
    """At which the rules answer otherwise than the recording has it."""
    pools: dict[QueueKey, PoolTotals] = field(default_factory=dict)

    def totals_of(self, key: QueueKey) -> PoolTotals:
        """Return a pool's."""
        return self.pools.setdefault(key, PoolTotals())


def replay(
    lines: Iterable[Line], guards: Guards | None = None, changes: Mapping[str, object] | None = None
) -> RunTotals:
    """Play a recording again.

    Args:
        lines: of it.
        guards: instead of the recorded ones.
        changes: fields of `PoolSettings` that are others in every pool.

    Raises:
        InvalidRecording: a tick comes before any settings.
    """
    totals, scheduler, began = RunTotals(), None, 0.0
    containers: tuple[PoolContainer, ...] = ()
    for line in lines:
        if isinstance(line, SettingsLine):
            if scheduler is None or line.fresh:
                scheduler = PoolScheduler(epoch=line.epoch, guards=guards or Guards.parse(line.guards))
            scheduler.configure([_apply_changes(pool, changes or {}) for pool in line.pools], line.quotas)
            continue
        if scheduler is None:
            raise InvalidRecording("line 1: the settings are missing: a recording begins with them")
        containers = containers if line.containers is None else line.containers
        for name, reason in line.failed:
            scheduler.failed(name, line.now_seconds, reason)
        result = scheduler.tick(_observation(line, containers))
        began = began or line.now_seconds
        totals.seconds = line.now_seconds - began
        _count(totals, line, result)
    return totals


def _apply_changes(pool: PoolSettings, changes: Mapping[str, object]) -> PoolSettings:
    try:
        return msgspec.convert(msgspec.to_builtins(pool) | dict(changes), PoolSettings) if changes else pool
    except msgspec.ValidationError as error:
        raise InvalidRecording(f"the changed settings of {pool.key}: {by_field(str(error))}") from None


def _observation(line: TickLine, containers: tuple[PoolContainer, ...]) -> TickInput:
    return TickInput(
        now_seconds=line.now_seconds,
        lags=(line.lags or {}) if line.broker else None,
        unread=frozenset(line.unread),
        containers=containers,
        durations_ms=dict(line.durations_ms),
        incoming=dict(line.incoming),
        node_start_seconds=line.node_start_seconds,
    )


def _count(totals: RunTotals, line: TickLine, result: TickResult) -> None:
    totals.ticks += 1
    totals.created += len(result.creations)
    for creation in result.creations:
        totals.totals_of(creation.key).created += 1
    for ending in result.endings:
        totals.ended[str(ending.reason)] += 1
        totals.totals_of(ending.key).ended += 1
    refused = [key for key, verdict in result.verdicts.items() if verdict.reject]
    totals.refused_ticks += bool(refused)
    for key in refused:
        totals.totals_of(key).refused_ticks += 1
    for key, target in result.targets.items():
        totals.totals_of(key).unmet = max(totals.totals_of(key).unmet, target.unmet)
    for key, figures in result.figures.items():
        totals.totals_of(key).queued = max(totals.totals_of(key).queued, figures.queued)
    answered = (
        tuple(creation.id for creation in result.creations),
        tuple((ending.container_id, ending.reason) for ending in result.endings),
        tuple(refused),
    )
    totals.differing_ticks += answered != (line.created, line.ended, line.refused)


def read(lines: Iterable[bytes], cut: Callable[[int], None] | None = None) -> Iterator[Line]:
    """Read a recording.

    Args:
        lines: with their ends.
        cut: is told the number of a last line that was cut off while it was written; it is left out.

    Raises:
        InvalidRecording: a line is none.
    """
    for number, text in enumerate(lines, start=1):
        if cut is not None and not text.endswith(b"\n") and text.strip() and is_cut(text):
            cut(number)
        elif text.strip():
            yield decode(text, number)


def is_cut(text: bytes) -> bool:
    """Return whether a last line is no whole one: it is no JSON, for who wrote it ended on the way."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    return False
