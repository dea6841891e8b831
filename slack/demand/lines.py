"""Queues as lines of JSON, their figures in and their decisions out: what `demand decide --lines` speaks.

A line in has the fields of `Line`, all but the two limits with a default; unknown ones are refused. A line out is a
`DecisionLine`. Nothing of the line that was not asked for is kept.
"""

from dataclasses import fields
from typing import Annotated

import msgspec

from slack.demand.bounds import (
    Concurrency,
    Containers,
    Messages,
    Milliseconds,
    Ratio,
    Seconds,
    WindowMilliseconds,
    by_field,
)
from slack.demand.guards import apply_guards
from slack.demand.model import DEFAULT_STALE_MS, Clip, DecisionGuard, Guards, QueueFigures, QueueState
from slack.demand.queue import abandoned_messages
from slack.errors import InvalidInput

MOST_BYTES = 64 << 10
"""Of a line."""


class InvalidQueueLine(InvalidInput):
    """A line that is no queue's figures; the text names the field and says what would be right."""


class Line(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One queue at one tick."""

    queue: Annotated[str, msgspec.Meta(max_length=512)] | None = None
    """Its name, repeated in the decision; any text."""
    namespace_limit: Containers
    """Containers that its namespace may have."""
    action_limit: Containers
    """Containers that the queue may have; more than the namespace's limit counts as that."""
    incoming: Messages = 0
    """Messages that are published and not yet counted in `queued`."""
    queued: Messages = 0
    """Messages that no container has taken."""
    stale: Messages = 0
    """Of both, those that are at least one stale window old."""
    containers: Containers = 0
    """Containers that are ready."""
    creating: Containers = 0
    """Containers that were asked for and are not ready."""
    namespace_containers: Containers | None = None
    """As `containers`, of all queues of the namespace; null: it has no others."""
    namespace_creating: Containers | None = None
    """As `creating`, of all queues of the namespace; null: it has no others."""
    concurrency: Concurrency = 1
    """Messages that a container runs at once."""
    mean_duration_ms: Milliseconds | None = None
    """Of the last runs; null where none is known."""
    initialized: bool = True
    """Whether the queue was given its first container once."""
    state: QueueState = QueueState.RUNNING
    """Running, NamespaceThrottled, ActionThrottled, Flushing or Removing."""
    over_provision_ratio: Ratio | None = None
    """How many times its limit the namespace may have for queues without any container; null: once."""
    stale_window_ms: WindowMilliseconds = DEFAULT_STALE_MS
    """After so long a message is stale; at least 1."""
    in_flight: Messages = 0
    """Messages that containers have taken and not finished; those beyond `containers` times `concurrency` wait."""
    oldest_creation_age_seconds: Seconds | None = None
    """Since when the oldest container in creation was asked for; null: none is."""
    median_creation_seconds: Seconds | None = None
    """How long the pool's creations take; null where none is known."""
    oldest_ready_age_seconds: Seconds | None = None
    """Since when its oldest container is ready; null: none is, or it is not known."""
    node_room: Containers | None = None
    """Containers that nodes have room for now; null: not known."""
    unschedulable: Containers = 0
    """Of `creating`, those that no node has room for."""


class DecisionLine(msgspec.Struct, kw_only=True):
    """What is done for a queue."""

    queue: str | None
    """As it was given."""
    row: int
    """Of the table, 1 to 13."""
    add: int
    """Containers to create now."""
    namespace_full: bool | None
    """Whether the namespace has no room for another container now; null: as before. Messages are still taken."""
    initial: bool
    """The container is the queue's first."""
    pausing: bool
    """There is no limit to keep: messages are kept for their retention, then dropped."""
    clipped_by: Clip | None
    """What kept the decision from what the queue would need: NamespaceLimit, ActionLimit or NodeRoom."""
    unmet: int
    """Containers that nodes have no room for."""
    guard: DecisionGuard | None
    """The guard that changed what the table says."""
    reason: str
    """What the row found, in words."""


_DECODER = msgspec.json.Decoder(Line)
_ENCODER = msgspec.json.Encoder()


def read_line(data: bytes) -> tuple[str | None, QueueFigures]:
    """Return a queue's name and figures.

    Raises:
        InvalidQueueLine: It is too long, no JSON, or a field is wrong.
    """
    if len(data) > MOST_BYTES:
        raise InvalidQueueLine(f"it has {len(data)} bytes; a queue's figures have at most {MOST_BYTES}")
    try:
        line = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidQueueLine(by_field(str(error))) from None
    if line.namespace_containers is None:
        line.namespace_containers = line.containers
    if line.namespace_creating is None:
        line.namespace_creating = line.creating
    _check(line)
    # Whoever had taken these is gone: the broker hands them out again.
    line.queued += abandoned_messages(line.in_flight, line.containers, line.concurrency)
    return line.queue, QueueFigures(**{name: getattr(line, name) for name in _FIGURES})


_FIGURES = tuple(field.name for field in fields(QueueFigures))


def _check(line: Line) -> None:
    bounds = (
        ("stale", line.stale, "queued + incoming", line.queued + line.incoming),
        ("unschedulable", line.unschedulable, "creating", line.creating),
        ("containers", line.containers, "namespace_containers", line.namespace_containers or 0),
        ("creating", line.creating, "namespace_creating", line.namespace_creating or 0),
    )
    for name, value, limit_name, limit in bounds:
        if value > limit:
            raise InvalidQueueLine(f"{name}: {value} is more than {limit_name}, which is {limit}")


def decision_line(data: bytes, guards: Guards) -> bytes:
    """Return the decision about the queue of a line, its end included.

    Raises:
        InvalidQueueLine: The line is no queue's figures.
    """
    queue, figures = read_line(data)
    decision = apply_guards(figures, guards)
    out = DecisionLine(
        queue=queue,
        row=decision.row,
        add=decision.add,
        namespace_full=decision.throttle,
        initial=decision.initial,
        pausing=decision.pausing,
        clipped_by=decision.clipped_by,
        unmet=decision.unmet,
        guard=decision.guard,
        reason=decision.reason,
    )
    return _ENCODER.encode(out) + b"\n"
