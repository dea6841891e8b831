"""Reading Prometheus' text format as it comes: only lines of wanted families are looked at, each by itself.

A scrape of a full node is 60,000 lines of which one in six says something of CPU quotas; each of the others costs one
comparison. Nothing is kept but the end of the last chunk. A damaged line is an
`InvalidSampleLine`, never the end of the scrape.
"""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from slack.errors import InvalidInput

MOST_LINE_BYTES = 64 * 1024
"""No line of a kubelet comes near; what is longer is no exposition and is not kept."""
_LARGEST = 2.0**63
_SECONDS_BELOW = 1e11
"""Time stamps are milliseconds since 1970, in OpenMetrics seconds: one reaches this in 1973, the other in 5138."""
# Possessive quantifiers: a damaged line fails at once, however long it is.
_LINE = re.compile(
    rb'([a-zA-Z_:][a-zA-Z0-9_:]*+)(?:[ \t]*+\{((?:[^"}]++|"(?:[^"\\]|\\.)*+")*+)\})?+[ \t]++([^\s_]++)'
    rb"(?:[ \t]++([0-9]{1,19}(?:\.[0-9]{0,9})?+))?+[ \t]*+(?:#.*)?\r?"
)
_LABEL = re.compile(r'[ \t]*+([a-zA-Z_][a-zA-Z0-9_]*+)[ \t]*+=[ \t]*+"((?:[^"\\]|\\.)*+)"[ \t]*+(,|$)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", '"': '"', "\\": "\\"}


class InvalidSampleLine(InvalidInput):
    """A line of a wanted family that cannot be read."""


class Point(NamedTuple):
    """One line: a series and its value. Labels are left as they were written: most are never looked at."""

    family: bytes
    labels: bytes
    value: float
    at_seconds: float | None
    """The series' own time stamp, Unix seconds."""


class Lines:
    """Cuts chunks of a body into the lines that begin with one of some prefixes."""

    def __init__(self, prefixes: tuple[bytes, ...]) -> None:
        self._prefixes = prefixes
        self._rest = b""
        self._skipping = False
        self.seen_bytes = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the wanted lines that are whole now, without their ends; a line beyond all measure comes cut."""
        self.seen_bytes += len(data)
        end = data.rfind(b"\n") + 1
        if end:
            first, _, body = data[:end].partition(b"\n")
            whole, self._rest = self._rest + first, b""
            if not self._skipping and whole.startswith(self._prefixes):
                yield whole
            self._skipping = False
            for line in body.split(b"\n"):
                if line.startswith(self._prefixes):
                    yield line
        if self._skipping:
            return
        self._rest += data[end:]
        if len(self._rest) > MOST_LINE_BYTES:
            wanted, self._skipping = self._rest.startswith(self._prefixes), True
            cut, self._rest = self._rest[:MOST_LINE_BYTES], b""
            if wanted:
                yield cut

    def unfinished(self) -> bytes:
        """Return what is left when the body has ended: every whole answer ends with a line's end."""
        return self._rest.strip()


def point(line: bytes) -> Point:
    """Read one line.

    Raises:
        InvalidSampleLine: it is no line of a series, or its time stamp is none.
    """
    found = _LINE.fullmatch(line)
    if found is None:
        raise InvalidSampleLine("no line of a series")
    family, labels, value, stamp = found.groups()
    try:
        number = float(value)
    except ValueError:
        raise InvalidSampleLine(f"{value[:20]!r} is no number") from None
    return Point(family, labels or b"", number, None if stamp is None else _seconds(float(stamp)))


def labels(text: bytes) -> dict[str, str]:
    r"""Read what is between the braces.

    >>> labels(b'id="/",pod="a\\"b",')
    {'id': '/', 'pod': 'a"b'}

    Raises:
        InvalidSampleLine: it is not `name="value"` with commas between, a name comes twice, or it is not UTF-8.
    """
    try:
        left = text.decode()
    except UnicodeDecodeError:
        raise InvalidSampleLine("labels are not UTF-8") from None
    found: dict[str, str] = {}
    at = 0
    while at < len(left):
        label = _LABEL.match(left, at)
        if label is None or label[1] in found:
            raise InvalidSampleLine("labels cannot be read" if label is None else f"label {label[1]!r} comes twice")
        value = label[2]
        found[label[1]] = _ESCAPED.sub(_unescaped, value) if "\\" in value else value
        at = label.end()
    return found


def count(value: float) -> int:
    """Return a counter's or gauge's whole number.

    Raises:
        InvalidSampleLine: it is negative, NaN, infinite, a fraction, or more than the kernel can have counted.
    """
    if not 0 <= value < _LARGEST or value != math.floor(value):
        raise InvalidSampleLine(f"{value:g} is no count")
    return int(value)


def positive(value: float) -> int:
    """Return a whole number above zero; errors as of `count`."""
    if value == 0:
        raise InvalidSampleLine("0 is no such value")
    return count(value)


def nanoseconds(seconds: float) -> int:
    """Return seconds as nanoseconds: exact for 26 days, and never falling where the seconds do not.

    Exporters divide the kernel's nanoseconds by 1e9 in float64. Multiplying and rounding are monotone, so a counter
    stays one beyond the 2**51 ns up to which it is the kernel's number again.

    Raises:
        InvalidSampleLine: they are negative, NaN, infinite or beyond 292 years.
    """
    scaled = seconds * 1e9
    if not 0 <= scaled < _LARGEST:
        raise InvalidSampleLine(f"{seconds:g} s is no time")
    return round(scaled)


def _seconds(stamp: float) -> float:
    return stamp if stamp < _SECONDS_BELOW else stamp / 1000.0


def _unescaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[1], found[0])
