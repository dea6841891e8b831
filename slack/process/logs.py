"""Logging: the standard library's, one line a decision that mattered, as JSON for machines or plain for a console.

Fields beside the message come through `extra=fields(...)` and appear as JSON members or as `key=value`. Secrets are
never logged: no headers, no object contents; exceptions of `slack.kube` hold neither.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import IO, Any

_FIELDS = "slack_fields"
_QUIET = ("kopf", "aiohttp.access", "urllib3", "asyncio", "kubernetes")
"""Libraries that log each request or object; their warnings still show."""


class LogFormat(StrEnum):
    """How lines look."""

    CONSOLE = "console"
    JSON = "json"


class LogLevel(StrEnum):
    """What is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def fields(**values: object) -> dict[str, Any]:
    """Give the `extra` argument for a log call: `log.info("lowered", extra=fields(policy="web", to=3))`."""
    return {_FIELDS: values}


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a value JSON does not know is written as text."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= getattr(record, _FIELDS, {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class ConsoleFormatter(logging.Formatter):
    """Time, level, message, and the fields as key=value."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = super().format(record)
        values = getattr(record, _FIELDS, {})
        if not values:
            return line
        first, newline, rest = line.partition("\n")
        return first + "".join(f" {key}={value}" for key, value in values.items()) + newline + rest


def set_up(log_format: LogFormat, level: LogLevel, stream: IO[str] | None = None) -> None:
    """Configure the root logger of this process, replacing what was there."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else ConsoleFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.DEBUG if level is LogLevel.DEBUG else logging.WARNING)
