"""Bodies of requests between processes of ours: gzipped where they are large, and unpacked within a bound."""

import gzip
import zlib

from slack.errors import InvalidInput

PACK_FROM_BYTES = 16 << 10
"""From here on a body is sent gzipped."""


class InvalidReportBody(InvalidInput):
    """A body that cannot be read; the text says what it should be."""


def pack(data: bytes) -> tuple[bytes, str]:
    """Return what to send of a body and its Content-Encoding: gzip when it is large, else ''."""
    return (gzip.compress(data, 5, mtime=0), "gzip") if len(data) >= PACK_FROM_BYTES else (data, "")


def unpack(data: bytes, encoding: str, limit: int) -> bytes:
    """Undo `pack`; stops unpacking at the limit, so a small body cannot become a large one.

    Raises:
        InvalidReportBody: more than `limit` bytes, no gzip, or an encoding other than gzip.
    """
    if encoding.lower() in ("", "identity"):
        if len(data) > limit:
            raise InvalidReportBody(f"the body is longer than {limit} bytes")
        return data
    if encoding.lower() != "gzip":
        raise InvalidReportBody(f"Content-Encoding {encoding[:40]!r} is not known; send gzip or none")
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        whole = unpacker.decompress(data, limit + 1)
    except zlib.error:
        raise InvalidReportBody("the body is no gzip") from None
    if len(whole) > limit:
        raise InvalidReportBody(f"the body is longer than {limit} bytes when unpacked")
    if not unpacker.eof:
        raise InvalidReportBody("the gzip body ends too early")
    return whole
