"""What goes between agent and controller: whole, small, bounded, and readable by another version."""

import gzip
import json
import re
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.audit.api import messages as wire
from slack.audit.api.encoding import InvalidAuditMessage, decode_answer, decode_report, encode
from slack.audit.api.messages import MAX_ROWS, AgentReport, BurstOrder, ControllerAnswer, PodCounts, PodName, Row
from slack.audit.api.window_report import window_report
from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, CgroupTarget, ReadError
from slack.audit.findings.window import Window, Windows, WindowState
from slack.process.reporting.packing import InvalidReportBody, pack, unpack
from tests.cases import run_for_each
from tests.examples import examples

UID = "4c1f7a30-8b1e-4f0e-9d53-0a4ad5b7f0aa"


def window(
    path: str,
    level: CgroupLevel = CgroupLevel.CONTAINER,
    state: WindowState = WindowState.MEASURED,
    **figures: int | None,
) -> Window:
    parts = path.split("/")
    pod = next((part.removeprefix("pod") for part in parts if part.startswith("pod")), "")
    container = parts[-1] if level is CgroupLevel.CONTAINER else ""
    defaults: dict[str, int | None] = {
        "quota_us": None if state is WindowState.NO_LIMIT else 20_000,
        "period_us": 100_000,
    }
    target = CgroupTarget(level, path, pod_uid=pod, container_id=container)
    return Window(target, state, 300.0, **(defaults | figures))  # type: ignore[arg-type]  # by name, of many types


def windows(*all_of_them: Window) -> Windows:
    return Windows(all_of_them, {"": CgroupNodeFacts(4)}, {}, {}, 300.0)


THROTTLED = window(f"/kubepods/pod{UID}/a1", periods=3000, throttled=1200, throttled_ns=7 * 10**10, usage_ns=6 * 10**10)


def paths(report: wire.WindowReport) -> set[str]:
    return {row.path for row in report.rows}


def test_a_report_comes_back_as_it_was_sent() -> None:
    report = AgentReport(
        node="node-1",
        cpus=16,
        kernel_release="6.1.0",
        windows={"5m": window_report(windows(THROTTLED))},
        troubles={ReadError.GONE: 3},
        unnamed=(UID,),
    )
    again = decode_report(encode(report))
    assert again == report
    measured = again.measured("5m")
    assert measured.windows == (replace(THROTTLED, target=replace(THROTTLED.target, node="node-1")),)
    assert measured.nodes["node-1"].cpus == 16
    assert again.measured("7d").windows == ()


def test_an_answer_comes_back_as_it_was_sent() -> None:
    answer = ControllerAnswer(
        names={UID: PodName(namespace="shop", name="api-1", containers={"a1": "api"})},
        bursts=(BurstOrder(pod_uid=UID, container_id="a1", burst_us=20_000),),
    )
    assert decode_answer(encode(answer)) == answer


def test_only_what_was_throttled_and_its_own_pod_and_the_limited_levels_above_have_rows() -> None:
    pod = window(f"/kubepods/pod{UID}", CgroupLevel.POD, WindowState.NO_LIMIT)
    sibling = window(f"/kubepods/pod{UID}/b2", periods=3000)
    kubepods = window("/kubepods", CgroupLevel.KUBEPODS, quota_us=400_000, periods=3000)
    quiet = window("/kubepods/pod9/c3", periods=3000)
    report = window_report(
        windows(window("/", CgroupLevel.NODE, WindowState.NO_LIMIT), kubepods, pod, THROTTLED, sibling, quiet)
    )
    assert paths(report) == {"/kubepods", pod.target.path, THROTTLED.target.path, sibling.target.path}
    assert report.states == {WindowState.MEASURED: 4, WindowState.NO_LIMIT: 2}
    assert report.pods == {UID: PodCounts(measured=2), "9": PodCounts(measured=1)}


def test_containers_below_a_throttled_pod_or_qos_level_have_rows_though_their_counters_are_zero() -> None:
    """Kernels without cpu.stat.local show nothing at all in the child."""
    child = window("/kubepods/burstable/pod7/c1", state=WindowState.NO_LIMIT)
    throttled_pod = window(
        "/kubepods/burstable/pod7", CgroupLevel.POD, periods=3000, throttled=3000, throttled_ns=10**11
    )
    throttled_qos = window("/kubepods/burstable", CgroupLevel.QOS, periods=3000, throttled=3000, throttled_ns=10**11)
    assert child.target.path in paths(window_report(windows(throttled_pod, child)))
    assert child.target.path in paths(window_report(windows(throttled_qos, child)))


def test_more_rows_than_a_report_may_have_lose_those_that_lost_least_and_are_counted() -> None:
    many = [window(f"/kubepods/pod{i}/c", periods=3000, throttled=9, throttled_ns=i) for i in range(1, MAX_ROWS + 51)]
    report = window_report(windows(*many))
    assert len(report.rows) == MAX_ROWS
    assert report.left_out == 50
    assert min(row.throttled_ns for row in report.rows) == 51
    assert decode_report(encode(AgentReport(node="n", windows={"5m": report}))).windows["5m"] == report


def test_a_report_of_500_pods_with_everything_throttled_is_well_below_the_limit_and_small_when_packed() -> None:
    all_of_them = [
        window(
            f"/kubepods/burstable/pod{i:036d}/{i:032x}{j:032x}", periods=3000, throttled=900, throttled_ns=10**10 + i
        )
        for i in range(500)
        for j in range(2)
    ]
    report = window_report(windows(*all_of_them))
    data = encode(AgentReport(node="n", windows={"1m": report, "5m": report, "1h": report}))
    body, encoding = pack(data)
    assert len(data) < wire.MAX_REPORT_BYTES / 2
    assert encoding == "gzip"
    assert len(body) < 200_000
    assert unpack(body, encoding, wire.MAX_REPORT_BYTES) == data


def test_a_small_message_is_sent_as_it_is() -> None:
    assert pack(b"{}") == (b"{}", "")
    assert unpack(b"{}", "", 10) == b"{}"


def test_names_of_cgroups_that_are_no_text_and_counters_beyond_64_bits_can_be_sent() -> None:
    row = Row.from_window(
        window("/system.slice/\udcff\udcfe.service", CgroupLevel.OTHER, periods=2**70, throttled_ns=2**65)
    )
    report = AgentReport(node="n", windows={"5m": wire.WindowReport(rows=(row,))})
    assert decode_report(encode(report)) == report


def test_a_path_that_is_too_long_for_a_report_is_left_out_of_it() -> None:
    long = window("/kubepods/" + "x" * wire.MAX_PATH, periods=3000, throttled=5, throttled_ns=5)
    assert paths(window_report(windows(long, THROTTLED))) == {THROTTLED.target.path}


def test_a_field_of_a_newer_version_is_passed_over() -> None:
    report = json.loads(encode(AgentReport(node="n"))) | {"colour": "blue", "version": 9}
    assert decode_report(json.dumps(report).encode()).version == 9


@run_for_each(
    ("message", "words"),
    [
        (b"", "truncated"),
        (b"{}", "node"),
        (b'{"node": ""}', "length >= 1"),
        (b'{"node": "n", "cpus": -1}', "$.cpus"),
        (b'{"node": "n", "cpus": 1e99}', "$.cpus"),
        (b'{"node": "n", "at_unix": NaN}', "malformed"),
        (b'{"node": "n", "windows": {"5m": {"rows": [{"level": "moon", "path": "/"}]}}}', "moon"),
        (b'{"node": "n", "unnamed": ["' + b"x" * 256 + b'"]}', "length <= 255"),
        (b'{"node": "\xff"}', "utf-8"),
        (b"[" * 100_000, "object"),
    ],
)
def test_a_bad_report_is_refused_with_the_field_that_is_wrong(message: bytes, words: str) -> None:
    with pytest.raises(InvalidAuditMessage, match=re.escape(words)):
        decode_report(message)


def test_a_small_body_cannot_become_a_large_one() -> None:
    bomb = gzip.compress(b"0" * 10_000_000)
    with pytest.raises(InvalidReportBody, match="longer than 1000000 bytes when unpacked"):
        unpack(bomb, "gzip", 1_000_000)


@pytest.mark.parametrize(
    ("data", "encoding", "words"),
    [
        (b"x" * 11, "", "longer than 10"),
        (b"no gzip", "gzip", "no gzip"),
        (gzip.compress(b"12345678", mtime=0)[:-4], "gzip", "ends too early"),
        (b"{}", "br", "'br' is not known"),
    ],
)
def test_a_body_that_cannot_be_unpacked_says_why(data: bytes, encoding: str, words: str) -> None:
    with pytest.raises(InvalidReportBody, match=words):
        unpack(data, encoding, 10)


@examples(300)
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_whatever_raise_anything_else(data: bytes) -> None:
    for read in (decode_report, decode_answer, lambda body: unpack(body, "gzip", 1000)):
        with suppress(InvalidReportBody, InvalidAuditMessage):
            read(data)
