"""Messages to bytes and back: JSON, gzipped where it is large.

What the other side sends never grows past its bound, and what cannot be read is a `BadMessage` with the field.
"""

import gzip
import zlib
from typing import TypeVar

import msgspec

from slack.audit.api.messages import Answer, NodeReport

PACK_FROM_BYTES = 16 << 10
"""From here on a message is sent gzipped."""
T = TypeVar("T")


class BadMessage(ValueError):
    """A message of the other side that cannot be read; the text names the field and what it should be."""


def encode(message: NodeReport | Answer) -> bytes:
    """Write a message as JSON."""
    return msgspec.json.encode(message)


def packed(data: bytes) -> tuple[bytes, str]:
    """Return what to send of a body and its Content-Encoding: gzip when it is large, else ''."""
    return (gzip.compress(data, 5, mtime=0), "gzip") if len(data) >= PACK_FROM_BYTES else (data, "")


def unpacked(data: bytes, encoding: str, limit: int) -> bytes:
    """Undo `packed`; stops unpacking at the limit, so a small body cannot become a large one.

    Raises:
        BadMessage: more than `limit` bytes, no gzip, or an encoding other than gzip.
    """
    if encoding.lower() in ("", "identity"):
        if len(data) > limit:
            raise BadMessage(f"the body is longer than {limit} bytes")
        return data
    if encoding.lower() != "gzip":
        raise BadMessage(f"Content-Encoding {encoding[:40]!r} is not known; send gzip or none")
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        whole = unpacker.decompress(data, limit + 1)
    except zlib.error:
        raise BadMessage("the body is no gzip") from None
    if len(whole) > limit:
        raise BadMessage(f"the body is longer than {limit} bytes when unpacked")
    if not unpacker.eof:
        raise BadMessage("the gzip body ends too early")
    return whole


def _decode(data: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessage(str(error)) from None


_REPORTS = msgspec.json.Decoder(NodeReport)
_ANSWERS = msgspec.json.Decoder(Answer)


def decode_report(data: bytes) -> NodeReport:
    """Read a report.

    Raises:
        BadMessage: with the field that is wrong.
    """
    return _decode(data, _REPORTS)


def decode_answer(data: bytes) -> Answer:
    """Read an answer.

    Raises:
        BadMessage: with the field that is wrong.
    """
    return _decode(data, _ANSWERS)
