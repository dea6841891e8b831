"""Asking a load watcher: each window, and what its analyser says. Errors name --address and what would be right."""

import time
import urllib.request

import typer

from slack.cli.inputs.http_fetch import FetchedAnswer, TooLong, fetch, parsed_address
from slack.cli.terminal.problems import UserError
from slack.kube.deadline import Deadline
from slack.loadwatcher.decoding import MOST_BYTES, InvalidPayload, decode
from slack.loadwatcher.nodes_seen import NodesSeen
from slack.loadwatcher.payload import WINDOWS, LoadReport, RollupWindow
from slack.loadwatcher.verdicts import InvalidVerdicts, Verdicts
from slack.loadwatcher.verdicts import decode as decode_verdicts

FLAG = "--address"
_SECONDS = 30.0
_SAID = 200


def ask(url: str) -> NodesSeen:
    """Return what a load watcher knows.

    Raises:
        UserError: there is none, it is another program, or it knows nothing.
    """
    address = parsed_address(FLAG, url, "http://127.0.0.1:2020").geturl().rstrip("/")
    watcher = _Watcher(address)
    reports = {window: report for window in WINDOWS if (report := watcher.report(window)) is not None}
    if not reports:
        raise UserError(f"{FLAG}: {address}: it knows nothing: {watcher.health()}")
    return NodesSeen(reports, watcher.verdicts(), time.time())


class _Watcher:
    def __init__(self, address: str) -> None:
        self._address = address
        self._patience = Deadline(f"the load watcher at {address}", lambda text: typer.echo(text, err=True))

    def report(self, window: RollupWindow) -> LoadReport | None:
        """Return one window, and none where another is given for it."""
        answer = self._get(f"/watcher?window={window}")
        if answer.status in (404, 500):  # upstream's: 500 for nothing
            return None
        if answer.status != 200:
            raise UserError(f"{self._source}: {answer.status} {_answer_text(answer)}")
        try:
            report = decode(answer.body).report
        except InvalidPayload as error:
            raise UserError(f"{self._source}: {error}") from None
        return report if report.window.duration is window else None

    def verdicts(self) -> Verdicts | None:
        """Return what the analyser says; none of a watcher that has no analyser."""
        answer = self._get("/analysis")
        if answer.status != 200:
            return None
        try:
            return decode_verdicts(answer.body)
        except InvalidVerdicts as error:
            raise UserError(f"{self._source}: {error}") from None

    def health(self) -> str:
        """Return what it says of itself."""
        return _answer_text(self._get("/watcher/health"))

    @property
    def _source(self) -> str:
        return f"{FLAG}: {self._address}"

    def _get(self, path: str) -> FetchedAnswer:
        request = urllib.request.Request(self._address + path)
        try:
            answer = fetch(self._source, request, self._patience, most_bytes=MOST_BYTES, timeout_seconds=_SECONDS)
        except TooLong:
            raise UserError(f"{self._source}: the answer is longer than {MOST_BYTES >> 20} MiB") from None
        self._patience.answered()
        return answer


def _answer_text(answer: FetchedAnswer) -> str:
    words = answer.body[:_SAID].decode(errors="replace")
    return " ".join("".join(char if char.isprintable() else " " for char in words).split()) or answer.reason
