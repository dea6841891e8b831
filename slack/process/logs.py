"""Logging: the standard library's, one line a decision that mattered, as JSON for machines or plain for a console.

Fields beside the message come through `extra=fields(...)` and appear as JSON members or as `key=value`. Secrets are
never logged: no headers, no object contents; exceptions of `slack.kube` hold neither.
"""

import json
import logging
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import IO, Any

_FIELDS = "slack_fields"
_QUIET = ("kopf", "aiohttp.access", "urllib3", "asyncio", "kubernetes")
"""Libraries that log each request or object; their warnings still show."""
_SILENT = ("urllib3.util.retry", "kubernetes.client.rest")
"""At debug level too: the one says nothing, the other would write whole answers."""
_CHATTY = ("slack.kube.reflector", "slack.kube.lease")
"""An API server that is away is told by each watch at each try."""
REPEAT_SECONDS = 30.0
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


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


class Repeats(logging.Filter):
    """Lets the first of many like lines through, and then one every half minute, with how many were left out.

    Like are warnings of one of the chatty loggers with the same cause: what follows the last colon, numbers aside.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to show the line; one that is shown after others were not says so."""
        if record.levelno < logging.WARNING or not record.name.startswith(_CHATTY) or record.exc_info:
            return True
        cause = _NUMBER.sub("", record.getMessage().rpartition(": ")[2])
        key, now = (record.name, cause), self._clock()
        self._seen = {line: seen for line, seen in self._seen.items() if now - seen[0] < 2 * REPEAT_SECONDS}
        since, left_out = self._seen.get(key, (float("-inf"), 0))
        if now - since < REPEAT_SECONDS:
            self._seen[key] = (since, left_out + 1)
            return False
        self._seen[key] = (now, 0)
        if left_out:
            setattr(record, _FIELDS, {**getattr(record, _FIELDS, {}), "repeated": left_out})
        return True


def set_up(log_format: LogFormat, level: LogLevel, stream: IO[str] | None = None) -> None:
    """Configure the root logger of this process, replacing what was there."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else ConsoleFormatter())
    if level is not LogLevel.DEBUG:
        handler.addFilter(Repeats())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.DEBUG if level is LogLevel.DEBUG else logging.WARNING)
    for name in _SILENT:
        logging.getLogger(name).setLevel(logging.WARNING)
