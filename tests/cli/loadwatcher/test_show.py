"""`load-watcher show` and `serve`: what they print, and what they say to bad input."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from slack.loadwatcher.analysis import Analyser
from slack.loadwatcher.encoding import ReportFormat
from slack.loadwatcher.node_names import KnownNode, NodeNames
from slack.loadwatcher.payload import MetricType
from slack.loadwatcher.readings import ReadingKey, Statistic
from slack.loadwatcher.reports import assemble
from slack.loadwatcher.verdicts import DroppedSeries, InvalidVerdicts, Verdicts, decode, encode
from slack.process.http_server import TEXT, HttpRequest, HttpServer, Reply
from slack_operator.loadwatcher.api import Api
from slack_operator.loadwatcher.report_store import LoadSnapshot, ReportStore
from tests.cli.conftest import Run
from tests.cli.test_documents import as_declared, golden
from tests.loadwatcher.build import NOW, readings


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slack.cli.loadwatcher.show.time.time", lambda: NOW + 5)


def board(*, full: bool = True) -> ReportStore:
    found = ReportStore(ReportFormat.PROPOSAL, max_age_seconds=300, clock=lambda: NOW)
    if not full:
        return found
    negative = {ReadingKey(Statistic.LATEST, MetricType.MEMORY): {"node-2": -1.0}}
    fetched = readings(["node-1:9100", "node-2", "stranger"], more=negative)
    names = NodeNames.from_nodes([KnownNode("node-1"), KnownNode("node-2"), KnownNode("node-3")])
    judgement = Analyser(max_age_seconds=300).judge(fetched, NOW)
    made = assemble(fetched, judgement, names, source="Prometheus")
    dropped = tuple(
        DroppedSeries(bad.name, names.node(bad.name), bad.type, bad.fault, bad.detail) for bad in judgement.dropped
    )
    verdicts = Verdicts("Prometheus", int(NOW), "it was away", dropped, made.unmatched, ("node-3",))
    found.publish(LoadSnapshot(made.reports, names, verdicts))
    return found


@contextmanager
def served(api: Api) -> Iterator[str]:
    server = HttpServer("127.0.0.1", 0, api.answer)
    server.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.stop()


def test_a_line_a_node_has_its_use_by_window_its_age_and_the_analysers_verdict(run: Run) -> None:
    with served(Api(board(), ReportFormat.PROPOSAL, lambda: None)) as address:
        found = run("load-watcher", "show", "--address", address)
    assert found.code == 0, found.stderr
    lines = found.stdout.splitlines()
    columns = [f"{kind} {window}" for kind in ("CPU", "MEMORY") for window in ("15m", "10m", "5m")]
    assert " ".join(lines[0].split()) == " ".join(["NODE", *columns, "AGE", "VERDICT"])
    assert lines[1].split() == ["node-1", *["20.0%", "±5.0"] * 6, "15s", "good"]
    assert lines[2].split()[:8] == ["node-2", *["20.0%", "±5.0"] * 3, "-"]
    assert "memory: Negative, -1 %" in lines[2]
    assert "the provider has nothing of it" in lines[3]
    assert "no node goes by this name" in lines[4]
    assert lines[-1] == "the last fetch failed: it was away"


def test_the_document_is_as_it_is_published(run: Run) -> None:
    with served(Api(board(), ReportFormat.PROPOSAL, lambda: None)) as address:
        shown = json.loads(run("load-watcher", "show", "--address", address, "-o", "json").stdout)
    as_declared("load-watcher", shown)
    golden("load-watcher", shown)


def test_a_watcher_without_an_analyser_is_shown_too(run: Run) -> None:
    api = Api(board(), ReportFormat.PROPOSAL, lambda: None)

    def upstream(request: HttpRequest) -> Reply:
        if request.path == "/analysis":
            return Reply(404, TEXT, b"404 page not found\n")
        return api.answer(request._replace(query="window=15m"))

    server = HttpServer("127.0.0.1", 0, upstream)
    server.start()
    try:
        found = run("load-watcher", "show", "--address", f"http://127.0.0.1:{server.port}", "-o", "wide")
    finally:
        server.stop()
    assert found.code == 0, found.stderr
    assert found.stdout.splitlines()[0].split() == ["NODE", "CPU", "15m", "MEMORY", "15m", "AGE", "VERDICT"]
    assert found.stdout.splitlines()[1].split()[-1] == "-"


def test_a_watcher_that_knows_nothing_says_why(run: Run) -> None:
    with served(Api(board(full=False), ReportFormat.PROPOSAL, lambda: "the provider is away")) as address:
        found = run("load-watcher", "show", "--address", address)
    assert found.code == 2
    assert "it knows nothing: the provider is away" in found.stderr


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [(200, b"<html>", "no payload of a load watcher"), (403, b"no\x1b[31m", "403 no")],
)
def test_another_server_is_told_apart(run: Run, status: int, body: bytes, words: str) -> None:
    server = HttpServer("127.0.0.1", 0, lambda _: Reply(status, TEXT, body))
    server.start()
    try:
        found = run("load-watcher", "show", "--address", f"http://127.0.0.1:{server.port}")
    finally:
        server.stop()
    assert found.code == 2
    assert words in found.stderr
    assert "\x1b" not in found.stderr


def test_verdicts_are_read_back_and_others_refused() -> None:
    verdicts = board().view.verdicts
    assert verdicts is not None
    assert decode(encode(verdicts)) == verdicts
    for body in (b"", b"[]", b"\xff"):
        with pytest.raises(InvalidVerdicts, match="no analysis"):
            decode(body)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--provider", "datadog"), "--provider: should be"),
        (("--provider", "prometheus"), "--address: needed with --provider prometheus"),
        (("--provider", "prometheus", "--address", "nowhere"), "--address: 'nowhere' is no http or https address"),
    ],
)
def test_a_bad_configuration_ends_with_2_and_the_flag(run: Run, flags: tuple[str, ...], words: str) -> None:
    found = run("load-watcher", "serve", *flags)
    assert found.code == 2
    assert words in found.stderr
