"""What a load watcher knows: asked of it, and shown as a table or as a document. `load-watcher show` uses it.

Errors name --address and what would be right.
"""

import time
import urllib.request
from typing import Any

import typer
from rich.table import Table

from slack.cli.inputs.http_fetch import FetchedAnswer, TooLong, fetch, parsed_address
from slack.cli.terminal.console import console, print_table
from slack.cli.terminal.problems import UserError
from slack.cluster.labels import API_VERSION
from slack.kube.deadline import Deadline
from slack.loadwatcher.decoding import MOST_BYTES, InvalidPayload, decode
from slack.loadwatcher.nodes_seen import NodeSeen, NodesSeen, Use
from slack.loadwatcher.payload import OPTIONAL, REQUIRED, WINDOWS, LoadReport, RollupWindow
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


def document(seen: NodesSeen) -> dict[str, Any]:
    """Return the answer for machines."""
    newest = max(seen.reports.values(), key=lambda report: report.window.end)
    verdicts = seen.verdicts
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeLoadList",
        "source": newest.source,
        "window_end_unix_seconds": newest.window.end,
        "error": None if verdicts is None else verdicts.error,
        "unmatched": [] if verdicts is None else list(verdicts.unmatched),
        "items": [_item(node) for node in seen.nodes()],
    }


def _item(node: NodeSeen) -> dict[str, Any]:
    return {
        "node": node.name,
        "age_seconds": None if node.age_seconds is None else round(node.age_seconds, 1),
        "verdicts": list(node.verdicts),
        "windows": [
            {
                "window": window.value,
                "type": kind.value,
                "average_percent": use.average,
                "deviation_percent": use.deviation,
            }
            for (kind, window), use in node.uses.items()
        ],
    }


def print_nodes(seen: NodesSeen, *, wide: bool, headers: bool = True) -> None:
    """Print a line a node, and what is wrong as a whole."""
    out = console()
    nodes = seen.nodes()
    there = {kind for node in nodes for kind, _ in node.uses}
    kinds = [kind for kind in (*REQUIRED, *OPTIONAL) if kind in REQUIRED or (wide and kind in there)]
    windows = [window for window in WINDOWS if window in seen.reports]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("NODE", no_wrap=True)
    for kind in kinds:
        for window in windows:
            table.add_column(f"{kind.upper()} {window}", justify="right", no_wrap=True)
    table.add_column("AGE", justify="right", no_wrap=True)
    table.add_column("VERDICT")
    for node in nodes:
        cells = [_use(node.uses.get((kind, window))) for kind in kinds for window in windows]
        verdict = node.verdict if seen.verdicts is not None else "-"
        table.add_row(_printable(node.name), *cells, _age(node.age_seconds), _printable(verdict))
    print_table(out, table, headers=headers)
    if seen.verdicts is not None and seen.verdicts.error is not None:
        out.print(f"the last fetch failed: {seen.verdicts.error}", markup=False, soft_wrap=True)


def _use(use: Use | None) -> str:
    if use is None or use.average is None:
        return "-"
    return f"{use.average:.1f}%" if use.deviation is None else f"{use.average:.1f}% ±{use.deviation:.1f}"


def _age(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.0f}s"


def _printable(text: str) -> str:
    """Return a name of a provider's, or a node's, without what a terminal would obey."""
    return "".join(char if char.isprintable() else "?" for char in text)
