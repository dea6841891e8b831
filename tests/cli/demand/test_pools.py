"""`demand top`, `demand explain` and `demand replay`: what they print, and their exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from slack.demand.broker import QueueLag
from slack.demand.model import PoolSettings, QueueKey
from slack.demand.trace import SettingsLine, TickLine, encode
from tests.cli.conftest import Run
from tests.cli.test_documents import as_declared, golden
from tests.cli.test_uninstall import config
from tests.kube.fake_api import FakeApi

POOLS = "/apis/resource-slack.io/v1alpha1/namespaces/media/activationpools/"
KEY = QueueKey("media", "thumbnail")
STATUS: dict[str, Any] = {
    "containers": {"ready": 4, "creating": 1},
    "lag": {"queued": 37, "inFlight": 4, "oldestMs": 1240},
    "rate": {"arrivals": 61.2, "completions": 44.0},
    "demand": {"wanted": 6, "unmet": 1},
    "throttled": True,
    "throttle": {"reject": True, "reason": "NamespaceFull", "containers": 5, "limit": 5},
    "decision": {
        "at": "2026-01-01T00:00:00Z",
        "row": 9,
        "add": 1,
        "clippedBy": "ActionLimit",
        "reason": "why",
        "queued": 37,
    },
    "conditions": [
        {"type": "Ready", "status": "True", "reason": "FollowsQueue", "message": "m"},
        {"type": "BrokerReachable", "status": "True", "reason": "QueueRead", "message": "m"},
        {"type": "Throttled", "status": "True", "reason": "NamespaceFull", "message": "too many"},
    ],
}


@pytest.fixture
def api() -> Any:
    with FakeApi() as server:
        server.put(POOLS + "thumbnail", status=STATUS)
        starving = {"lag": {"queued": 3, "oldestMs": 10}, "containers": {"ready": 0, "creating": 0}}
        server.put(POOLS + "starving", status=starving)
        yield server


def test_top_has_the_worst_off_first(run: Run, api: FakeApi, tmp_path: Path) -> None:
    found = run("demand", "top", "-n", "media", "--kubeconfig", config(api, tmp_path))
    assert found.code == 0, found.stderr
    heading, first, second, *problems = found.stdout.splitlines()
    assert heading.split()[:4] == ["POOL", "WANTED", "READY", "CREATING"]
    assert first.split()[0] == "media/starving"
    assert first.split()[-1] == "starving"
    assert second.split() == [
        "media/thumbnail",
        "6",
        "4",
        "1",
        "1",
        "37",
        "1.2",
        "s",
        "61.2",
        "44",
        "yes",
        "FollowsQueue",
    ]
    assert problems == ["media/starving: no controller has seen it yet"]
    shown = run("demand", "top", "-n", "media", "-o", "json", "--kubeconfig", config(api, tmp_path))
    document = json.loads(shown.stdout)
    as_declared("demand-top", document)
    golden("demand-top", document)
    assert [item["starving"] for item in document["items"]] == [True, False]


def test_explain_tells_the_last_decision_with_what_it_was_given(run: Run, api: FakeApi, tmp_path: Path) -> None:
    found = run("demand", "explain", "-n", "media", "pool/thumbnail", "--kubeconfig", config(api, tmp_path))
    assert found.code == 0, found.stderr
    assert "by row 9 of the table: 1 container added" in found.stdout
    assert "clipped by ActionLimit" in found.stdout
    assert "queued               37" in found.stdout
    assert "Throttled is True (NamespaceFull): too many" in found.stdout
    shown = run("demand", "explain", "-n", "media", "thumbnail", "-o", "json", "--kubeconfig", config(api, tmp_path))
    as_declared("demand-explain", json.loads(shown.stdout))
    golden("demand-explain", json.loads(shown.stdout))


@pytest.mark.parametrize("name", ["pool/nobody", "deployment/thumbnail", "pool/"])
def test_explain_says_what_is_no_pool(run: Run, api: FakeApi, tmp_path: Path, name: str) -> None:
    found = run("demand", "explain", "-n", "media", name, "--kubeconfig", config(api, tmp_path))
    assert found.code == 2
    assert "pool" in found.stderr.lower()


def test_what_a_status_says_moves_no_cursor_and_sets_no_title(run: Run, api: FakeApi, tmp_path: Path) -> None:
    said = "a\x1b]0;title\x07\x1b[2J\x9b31m\rb [red]c"
    spoilt = {"type": "Ready", "status": "False", "reason": said, "message": said}
    api.put(POOLS + "spoilt", status={"conditions": [spoilt], "decision": {"row": 1, "reason": said}})
    for command in (["top", "-n", "media"], ["explain", "-n", "media", "pool/spoilt"]):
        found = run("demand", *command, "--kubeconfig", config(api, tmp_path))
        assert found.code == 0, found.stderr
        assert all(line.isprintable() for line in found.stdout.split("\n"))
        assert found.stdout.count("b [red]c") >= 2, "and it is no markup either"


@pytest.mark.parametrize(
    ("status", "complaint"),
    [
        ({"containers": "x"}, "containers: Expected `object | null`, got `str`"),
        ({"lag": []}, "lag: Expected `object | null`, got `array`"),
        ({"lag": {"queued": "many"}}, "lag.queued: Expected `int | null`, got `str`"),
        ({"decision": 1}, "decision: Expected `object | null`, got `int`"),
        ({"conditions": ["Ready"]}, "conditions[0]: Expected `object`, got `str`"),
        ("none", "Expected `object`, got `str`"),
    ],
)
def test_a_status_that_cannot_be_read_is_a_row_that_says_so_and_the_others_are_shown(
    run: Run, api: FakeApi, tmp_path: Path, status: Any, complaint: str
) -> None:
    api.put(POOLS + "broken", status=status)
    words = f"media/broken: its status cannot be read: {complaint}"
    found = run("demand", "top", "-n", "media", "--kubeconfig", config(api, tmp_path))
    assert found.code == 0, found.stderr
    assert [line.split()[0] for line in found.stdout.splitlines()[1:4]] == [
        "media/starving",
        "media/thumbnail",
        "media/broken",
    ]
    assert found.stdout.splitlines()[3].split()[-1] == "Unreadable"
    assert words in found.stdout
    shown = run("demand", "top", "-n", "media", "-o", "json", "--kubeconfig", config(api, tmp_path))
    as_declared("demand-top", json.loads(shown.stdout))
    found = run("demand", "explain", "-n", "media", "pool/broken", "--kubeconfig", config(api, tmp_path))
    assert (found.code, found.stdout.strip()) == (0, words)
    shown = run("demand", "explain", "-n", "media", "broken", "-o", "json", "--kubeconfig", config(api, tmp_path))
    as_declared("demand-explain", json.loads(shown.stdout))


def recording(folder: Path) -> Path:
    pool = PoolSettings(key=KEY, subject="act.media.thumbnail.256", revision="r", max_containers=3)
    lines: list[Any] = [SettingsLine(epoch="x", guards="all", pools=(pool,), fresh=True)]
    lines += [
        TickLine(now_seconds=1000.0 + number / 10, lags={pool.subject: QueueLag(backlog=5, in_flight=0)}, containers=())
        for number in range(3)
    ]
    file = folder / "trace.jsonl"
    file.write_bytes(b"".join(encode(line) for line in lines))
    return file


def test_a_last_line_that_was_cut_off_is_left_out_with_a_word_and_one_in_the_middle_is_an_error(
    run: Run, tmp_path: Path
) -> None:
    file = recording(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    found = run("demand", "replay", str(file))
    assert found.code == 0, found.stderr
    assert "2 ticks over 0.1 s" in found.stdout
    assert f"warning: {file}: line 4: was cut off while it was written: left out" in found.stderr
    file.write_bytes(whole[:-1])
    found = run("demand", "replay", str(file))
    assert "3 ticks" in found.stdout, "only its end is missing"
    assert not found.stderr
    for glued in (whole[:-20] + b"\n", whole[:-20] + whole):
        file.write_bytes(glued)
        found = run("demand", "replay", str(file))
        assert found.code == 2
        assert "line 4: JSON is malformed" in found.stderr or "line 4: Input data was truncated" in found.stderr


def test_replay_decides_a_recording_again(run: Run, tmp_path: Path) -> None:
    shown = run("demand", "replay", str(recording(tmp_path)), "-o", "json")
    document = json.loads(shown.stdout)
    as_declared("demand-replay", document)
    golden("demand-replay", document)
    assert document["ticks"] == 3
    assert document["created"] == 1, "the first container is waited for"
    assert "3 ticks over 0.2 s" in run("demand", "replay", str(recording(tmp_path))).stdout


@pytest.mark.parametrize(
    ("text", "flags", "words"),
    [
        (b'{"type":"tick"}\n', [], "line 1: "),
        (b"nonsense\n", [], "line 1: "),
        (b'{"type":"tick","now_seconds":1}\n', [], "the settings are missing"),
        (b"", [], "has no tick"),
        (b'{"type":"settings","epoch":"x","guards":"G9"}\n', [], "trace.jsonl: line 1: guards: G9 is no guard"),
        (None, ["--stale", "0s"], "stale_seconds: Expected `float` >= 0.001"),
        (None, ["--guards", "G9"], "--guards: G9 is no guard"),
        (None, ["--stale", "soon"], "--stale: 'soon' is not a duration"),
    ],
)
def test_what_is_no_recording_is_told_with_its_line(
    run: Run, tmp_path: Path, text: bytes | None, flags: list[str], words: str
) -> None:
    file = recording(tmp_path)
    if text is not None:
        file.write_bytes(text)
    found = run("demand", "replay", str(file), *flags)
    assert found.code == 2
    assert words in found.stderr
    assert "Traceback" not in found.stderr
