"""Messages to bytes and back: JSON; what cannot be read is an `InvalidAuditMessage` with the field."""

from typing import TypeVar

import msgspec

from slack.audit.api.messages import AgentReport, ControllerAnswer
from slack.errors import InvalidInput

T = TypeVar("T")


class InvalidAuditMessage(InvalidInput):
    """A message of the other side that cannot be read; the text names the field and what it should be."""


def encode(message: AgentReport | ControllerAnswer) -> bytes:
    """Write a message as JSON."""
    return msgspec.json.encode(message)


def _decode(data: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidAuditMessage(str(error)) from None


_REPORTS = msgspec.json.Decoder(AgentReport)
_ANSWERS = msgspec.json.Decoder(ControllerAnswer)


def decode_report(data: bytes) -> AgentReport:
    """Read a report.

    Raises:
        InvalidAuditMessage: with the field that is wrong.
    """
    return _decode(data, _REPORTS)


def decode_answer(data: bytes) -> ControllerAnswer:
    """Read an answer.

    Raises:
        InvalidAuditMessage: with the field that is wrong.
    """
    return _decode(data, _ANSWERS)
