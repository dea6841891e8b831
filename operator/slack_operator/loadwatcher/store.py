"""The state file: windows and samples in SQLite, so that a watcher that comes back knows at once what it knew.

One process a file: it is locked for as long as it is open. What is torn, or of another version, is put aside under the
same name with `.aside` and said so; a full disk or a bad one costs the file, never the watcher. What is read is checked
by its age, and by the same reader as what comes over the wire.
"""

import contextlib
import logging
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from slack.loadwatcher.analysis import FUTURE_SECONDS
from slack.loadwatcher.decoding import InvalidPayload, decode
from slack.loadwatcher.encoding import encode
from slack.loadwatcher.payload import LoadReport, RollupWindow
from slack.loadwatcher.reports import fresh
from slack.loadwatcher.sample import KEPT_SECONDS, LoadSample
from slack.process.logs import fields
from slack.process.outages import Outages
from slack.process.running import CannotStart
from slack_operator.loadwatcher.metrics import PUT_ASIDE, READ, WRITE

log = logging.getLogger(__name__)

VERSION = 1
"""Of the tables; a file of another is put aside, for what it holds is fetched again in minutes."""
SAVE_SECONDS = 60.0
_TABLES = """
CREATE TABLE IF NOT EXISTS report (window TEXT PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS sample (at REAL PRIMARY KEY, body BLOB NOT NULL);
"""
_TORN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_SCHEMA)
_SAMPLES = msgspec.msgpack.Decoder(list[LoadSample])

T = TypeVar("T")


class Store:
    """One state file. Owned by one thread."""

    def __init__(self, path: Path, *, on_error: Callable[[str], None] = lambda _: None) -> None:
        self._path = path
        self._on_error = on_error
        self._outages = Outages()
        self._database: sqlite3.Connection | None = None
        self._saved_at = float("-inf")

    def open(self) -> None:
        """Open the file, or put it aside and make a new one.

        Raises:
            CannotStart: it cannot be had at all; the flag is named.
        """
        try:
            self._database = self._opened()
        except sqlite3.Error as error:
            if _code(error) not in _TORN:
                raise self._unusable(error) from None
            self._renew(str(error))

    def reports(self, now: float, max_age_seconds: float) -> Mapping[RollupWindow, LoadReport]:
        """Return the windows that are still worth telling."""
        found: dict[RollupWindow, LoadReport] = {}
        for (body,) in self._guarded(READ, self._reports, list[tuple[bytes]]()):
            try:
                report = decode(body).report
            except InvalidPayload as error:
                self._tell(READ, f"a window cannot be read: {error}")
                continue
            if fresh(report, now, max_age_seconds):
                found[report.window.duration] = report
        return found

    def samples(self, now: float) -> list[LoadSample]:
        """Return the samples of the last 15 minutes, the oldest first."""
        found: list[LoadSample] = []
        rows = self._guarded(READ, lambda database: self._sampled(database, now), list[tuple[bytes]]())
        for (body,) in rows:
            try:
                found += _SAMPLES.decode(body)
            except msgspec.DecodeError as error:
                self._tell(READ, f"a sample cannot be read: {error}")
        return found

    def save(self, reports: Mapping[RollupWindow, LoadReport], monotonic: float) -> None:
        """Write the windows, once a minute at the most."""
        if monotonic - self._saved_at < SAVE_SECONDS:
            return
        rows = [(window.value, encode(report)) for window, report in reports.items()]
        others = [(window.value,) for window in RollupWindow if window not in reports]

        def write(database: sqlite3.Connection) -> None:
            with database:
                database.executemany("INSERT OR REPLACE INTO report VALUES (?, ?)", rows)
                database.executemany("DELETE FROM report WHERE window = ?", others)

        self._guarded(WRITE, write, None)
        self._saved_at = monotonic

    def keep(self, samples: Iterable[LoadSample], now: float) -> None:
        """Add new samples; those that no window reaches are deleted.

        A sample from the future is not kept: by its time good ones would be deleted, and it would stay until then.

        Args:
            samples: of one turn.
            now: Unix seconds.
        """
        latest = now + FUTURE_SECONDS
        new = [sample for sample in samples if sample.at <= latest]
        if not new:
            return
        newest = max(sample.at for sample in new)

        def write(database: sqlite3.Connection) -> None:
            with database:
                database.execute("INSERT OR REPLACE INTO sample VALUES (?, ?)", (newest, msgspec.msgpack.encode(new)))
                database.execute("DELETE FROM sample WHERE at < ? OR at > ?", (now - KEPT_SECONDS, latest))

        self._guarded(WRITE, write, None)

    def close(self) -> None:
        """Close the file, its log merged into it."""
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._database.close()
            self._database = None

    def _opened(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, timeout=1.0, check_same_thread=True)
        try:
            database.execute("PRAGMA locking_mode=EXCLUSIVE")
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=NORMAL")
            database.execute("BEGIN EXCLUSIVE").execute("COMMIT")  # from here on the file is ours alone
            (version,) = database.execute("PRAGMA user_version").fetchone()
            (good,) = database.execute("PRAGMA quick_check").fetchone()
            if good != "ok":
                raise _torn_file_error(f"quick_check: {good[:100]}")
            if version not in (0, VERSION):
                raise _torn_file_error(f"it has version {version}, and {VERSION} is known")
            database.executescript(_TABLES)
            database.execute(f"PRAGMA user_version={VERSION}")
        except BaseException:
            database.close()
            raise
        return database

    def _renew(self, why: str) -> None:
        """Put the file aside and begin another.

        Raises:
            CannotStart: that cannot be done either.
        """
        aside = self._path.with_name(self._path.name + ".aside")
        try:
            self._path.replace(aside)
            for ending in ("-wal", "-shm"):
                self._path.with_name(self._path.name + ending).unlink(missing_ok=True)
            log.warning("the state file was put aside: %s", why, extra=fields(file=str(self._path), aside=str(aside)))
            self._on_error(PUT_ASIDE)
            self._database = self._opened()
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> CannotStart:
        if _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return CannotStart(f"--state-file {self._path}: another process has it open; each needs a file of its own")
        return CannotStart(f"--state-file {self._path}: cannot be opened: {error}")

    def _reports(self, database: sqlite3.Connection) -> list[tuple[bytes]]:
        return database.execute("SELECT body FROM report").fetchall()

    def _sampled(self, database: sqlite3.Connection, now: float) -> list[tuple[bytes]]:
        oldest = now - KEPT_SECONDS
        return database.execute("SELECT body FROM sample WHERE at > ? ORDER BY at", (oldest,)).fetchall()

    def _guarded(self, operation: str, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """Do something with the file; a trouble is told, and a torn file is put aside."""
        if self._database is None:
            return otherwise
        try:
            done = work(self._database)
            if operation == WRITE and self._outages.end():
                log.info("the state file is written again")
            return done
        except sqlite3.Error as error:
            self._tell(operation, str(error))
            if _code(error) in _TORN:
                self.close()
                with contextlib.suppress(CannotStart):
                    self._renew(str(error))
            return otherwise

    def _tell(self, operation: str, why: str) -> None:
        self._on_error(operation)
        if self._outages.is_new(f"{operation} {why}"):
            log.warning("the state file cannot be used: %s", why, extra=fields(file=str(self._path)))


def _code(error: Exception) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _torn_file_error(why: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(why)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error
