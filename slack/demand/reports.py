"""What a container says of itself: how busy it is, since when it is idle, how long its runs took.

Sent by the proxy on a change (at most each half second) and each five seconds, at most once, through the broker. It
steers who ends when somebody must, and the mean duration; a forged one can choose another victim of the same pool, and
no more. So every field is bounded, and one that cannot be read is dropped. Light: the proxy is in every pod.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from slack.demand.broker import MAX_REPORT_BYTES
from slack.errors import InvalidInput

LAST_RUNS: Final = 10
"""So many run times are kept for the mean (row 10 of the table goes by the last ten)."""
REPORT_GAP_SECONDS: Final = 0.5
"""At most one report in so long, however much changes."""
REPORT_INTERVAL_SECONDS: Final = 5.0
"""And one in so long where nothing does."""

_MOST_SLOTS = 10_000
_Text = Annotated[str, Meta(min_length=1, max_length=253)]
_Count = Annotated[int, Meta(ge=0, le=(1 << 53) - 1)]
_Slots = Annotated[int, Meta(ge=0, le=_MOST_SLOTS)]
_Seconds = Annotated[float, Meta(ge=0, le=1e9)]
_Millis = Annotated[float, Meta(ge=0, le=1e12)]


class InvalidReport(InvalidInput):
    """A report that cannot be read; the text names the field and what it should be."""


class ContainerReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, rename="camel"):
    """One container at one moment. What was counted is since the report before; one may be lost on the way.

    `idle_seconds`: for how long no slot has been busy, by the container's own clock; None while one is.
    """

    container: _Text
    """The pod's uid, or the process's own id: `Container.id`."""
    slots: _Slots = 1
    busy: _Slots = 0
    idle_seconds: _Seconds | None = None
    runs: _Count = 0
    """Runs that ended since the last report, good or bad."""
    failures: _Count = 0
    """Of these the bad ones: given back."""
    run_ms: _Millis = 0.0
    """All runs' time together."""
    last_run_ms: Annotated[tuple[_Millis, ...], Meta(max_length=LAST_RUNS)] = ()
    """The last of them, oldest first."""
    draining: bool = False
    """It pulls no more, and ends when its runs have."""


_DECODER: Final = msgspec.json.Decoder(ContainerReport)
_ENCODER: Final = msgspec.json.Encoder()


def encode_report(report: ContainerReport) -> bytes:
    """Write a report as it is sent: JSON."""
    return _ENCODER.encode(report)


def decode_report(body: bytes) -> ContainerReport:
    """Read a report. Unknown fields are skipped, missing ones have defaults: proxies may be of another version.

    Raises:
        InvalidReport: it is too long, no JSON, or no report.
    """
    if len(body) > MAX_REPORT_BYTES:
        raise InvalidReport(f"the report is longer than {MAX_REPORT_BYTES} bytes")
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidReport(str(error)[:200]) from None
