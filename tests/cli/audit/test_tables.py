"""What people see of an audit: never wider than their terminal, never a 0 % where there is none."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as changed
from rich.console import Console

from slack.audit.findings.finding import Severity
from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, CgroupTarget, ReadError, Sample
from slack.audit.results.audit_result import AuditResult, FindingFilter, counts_by_verdict
from slack.audit.results.source_kind import SourceKind
from slack.cli.audit.explain import explain
from slack.cli.audit.export import markdown
from slack.cli.audit.formats import milliseconds, percent, target_name
from slack.cli.audit.options import SourceOptions
from slack.cli.audit.period_chart import lines
from slack.cli.audit.tables import fitting, plain, render
from slack.kube.access import ClusterAccess
from tests.cli.audit.build import KUBEPODS, POD_UID, container, kubelet_pods, look, pod, rose

BAD = rose(container(), 40_000, throttled=99, stop_ms=79.4, use=0.4)
FINE = rose(container("side"), 40_000, use=0.1)
FREE = rose(container("free"), None, use=0.1)


def shown(
    found: AuditResult,
    wanted: FindingFilter | None = None,
    width: int | None = None,
    *,
    options: SourceOptions | None = None,
    redrawn: bool = False,
) -> str:
    wanted = wanted or FindingFilter()
    options = options or SourceOptions(found.kind)
    asked = wanted.asked(found)
    lines = wanted.shown(asked)
    if width is None:
        return plain(found, asked, lines, options=options, program="resource-slack")
    out = Console(width=width, color_system=None, highlight=False)
    with out.capture() as capture:
        parts = render(found, asked, lines, options=options, width=width, program="resource-slack", redrawn=redrawn)
        out.print(parts, crop=False)
    return capture.get()


def next_command(told: str) -> str:
    (line,) = (line for line in told.splitlines() if line.startswith("All of it"))
    return line.partition(" explain ")[2]


@pytest.mark.parametrize("width", [30, 50, 79, 100, 120])
def test_no_line_is_wider_than_the_terminal_and_no_figure_is_cut(width: int) -> None:
    found = look(BAD, FINE, FREE, troubles={ReadError.FORBIDDEN: 2})
    told = shown(found, FindingFilter(everything=True), width, redrawn=True)
    assert max(map(len, told.splitlines())) <= width
    joined = " ".join(told.split())
    for figure in ("99.0 %", "79.1 %", "80 ms", "0.40/0.40"):
        assert figure in joined
    assert "\u2026" not in told


def test_a_command_is_one_line_however_narrow_the_terminal_is() -> None:
    told = shown(look(BAD), None, 40)
    assert next_command(told) == "-n shop pod/api-1a/main"
    below = told.partition("What to do first\n")[2].partition("All of it")[0]
    assert all(line.startswith("  ") for line in below.splitlines()), "what goes on is indented as it began"
    assert all(len(line) <= 40 for line in told.splitlines() if not line.startswith("All of it"))


def test_what_is_fine_is_counted_and_only_shown_with_all() -> None:
    found = look(BAD, FINE, FREE)
    assert "/side" not in shown(found)
    assert "3 cgroups in 10.0 s: 1 high, 1 fine, 1 no limit; 1.57 cores lost to throttling (threads" in shown(found)
    everything = shown(found, FindingFilter(everything=True))
    assert "/side" in everything
    assert any(line.strip().startswith("no limit") for line in everything.splitlines() if "/free" in line)


def waited(pair: tuple[Sample, Sample], some_s: float, full_s: float) -> tuple[Sample, Sample]:
    before, after = pair
    times = {"waiting_ns": round(some_s * 1e9), "stalled_ns": round(full_s * 1e9)}
    return changed(before, waiting_ns=0, stalled_ns=0), changed(after, **times)


def test_neighbours_have_a_column_where_somebodys_are_known_and_a_line_where_they_matter() -> None:
    assert "NEIGHBOURS" not in shown(look(BAD, FREE), FindingFilter(everything=True))
    found = look(waited(BAD, 9.6, 7.9), FINE, waited(FREE, 6.5, 6.0))
    table = shown(found, FindingFilter(everything=True))
    header, *rows = table.splitlines()
    assert header.split()[3] == "NEIGHBOURS"
    (bad,) = (row for row in rows if row.endswith("raise-limit"))
    (free,) = (row for row in rows if "/free " in row)
    (fine,) = (row for row in rows if "/side " in row)
    assert "0.0 %" in bad
    assert "60.0 %" in free
    assert "%" not in fine.partition("0.10/0.40")[0].replace("0.0 %", ""), "what is not known is not 0"
    assert "1 container waits for CPUs that neighbours have" in table
    assert "shop/api-1a/free, 60.0 %. No limit does that" in table
    assert "neighbours" not in shown(look(waited(BAD, 9.6, 7.9))).replace("NEIGHBOURS", "")
    assert "| neighbours |" in markdown(found, found.findings, found.findings)
    narrow = shown(found, FindingFilter(everything=True), 60)
    assert "neighbours 60.0 %, pressure 65.0 %" in narrow


def test_an_explanation_tells_pressure_and_what_of_it_is_the_neighbours() -> None:
    found = look(waited(BAD, 9.6, 9.0))
    told = "\n".join(map(str, lines(explain(found, "pod/api-1a/main", "shop", None), width=100)))
    share = percent(0.9 - (found.findings[0].lost_ratio or 0.0))
    assert f"waited for a CPU 96.0 % of the time, for whatever reason; {share} of the time for neighbours" in told


def test_nothing_bad_is_said_in_so_many_words() -> None:
    assert "Nothing is throttled enough to matter." in shown(look(FINE, FREE))


def test_no_verdict_yet_is_not_the_same_as_nothing_bad() -> None:
    idle = container("idle")
    short = (Sample(idle, 0.0, 40_000, 100_000, 0, 0, 0, 0), Sample(idle, 10.0, 40_000, 100_000, 20, 1, 1000, 0))
    assert "take a longer --interval" in shown(look(short, FREE))
    assert "there is no verdict" not in shown(look(short, FINE))
    assert "Nothing is throttled enough" not in shown(look(short, FREE))


def test_what_was_throttled_in_too_few_periods_is_told_with_what_to_do() -> None:
    busy = container("busy")
    short = (Sample(busy, 0.0, 40_000, 100_000, 0, 0, 0, 0), Sample(busy, 10.0, 40_000, 100_000, 80, 78, 10**9, 0))
    told = shown(look(short, FINE))
    assert "1 cgroup with throttled periods had fewer than 100, too few to judge" in told
    assert "take a longer --interval, such as 15s." in told
    assert "Of what could be judged, nothing is throttled enough to matter." in told
    assert "too few to judge: take a longer --interval" in shown(look(short, BAD))
    assert "there is no verdict: take a longer --interval, such as 15s." in shown(look(short))
    assert "there is no verdict: take a longer --window." in shown(look(short, kind=SourceKind.PROMETHEUS))


def test_an_empty_machine_and_an_empty_answer_are_told_apart() -> None:
    assert "There is no cgroup of Kubernetes" in shown(look())
    assert "Nothing of what was asked for is here." in shown(look(FINE), FindingFilter(namespace="db"))


def test_troubles_are_counted_with_an_example() -> None:
    told = shown(look(FINE, troubles={ReadError.GONE: 3, ReadError.EMPTY: 0}))
    assert "not read: 3 gone, such as /kubepods/gone/cpu.stat: gone\n" in told
    assert "empty" not in told


def test_nodes_are_named_where_there_are_several_and_share_a_line_a_kernel() -> None:
    facts = {name: CgroupNodeFacts(2, "6.18.44", "#1") for name in ("a", "b")} | {
        "old": CgroupNodeFacts(2, "4.18.20", "")
    }
    pair = rose(container(node="a"), 40_000, throttled=99, stop_ms=79, use=0.4)
    told = shown(look(pair, facts=facts, kind=SourceKind.CADVISOR))
    assert "a: shop/api-1a/main" in told
    assert "kernel 6.18.44: the CFS quota bugs are fixed (a, b)\n" in told
    assert "kernel 4.18.20: affected by the CFS quota bug (slice expiry) (old; audit kernel says why)" in told
    assert "audit explain -n shop pod/api-1a/main --all-nodes" in told


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        (FindingFilter(), 3),
        (FindingFilter(namespace="shop"), 2),
        (FindingFilter(pod="api-1a"), 2),
        (FindingFilter(pod=POD_UID[:8]), 2),
        (FindingFilter(level=CgroupLevel.POD), 1),
        (FindingFilter(namespace="shop", level=CgroupLevel.CONTAINER), 1),
        (FindingFilter(pod="web"), 0),
    ],
)
def test_what_is_asked_for_is_what_is_told(wanted: FindingFilter, count: int) -> None:
    found = look(BAD, rose(pod(), None), rose(KUBEPODS, None))
    assert len(wanted.asked(found)) == count


def test_a_node_is_asked_for_by_name_in_a_cluster_only() -> None:
    first, other = rose(container(node="a"), 40_000), rose(container(node="b"), 40_000)
    facts = {name: CgroupNodeFacts(2, "6.18.44") for name in "ab"}
    assert len(FindingFilter(nodes=("a",)).asked(look(first, other, facts=facts, kind=SourceKind.CADVISOR))) == 1
    assert len(FindingFilter(nodes=("a",)).asked(look(first, other, facts=facts))) == 2


def test_states_are_counted_in_the_order_of_harm() -> None:
    counts = counts_by_verdict(look(FREE, FINE, BAD).findings)
    assert list(counts.items()) == [("high", 1), ("fine", 1), ("no limit", 1)]


def test_markdown_cells_do_not_break_the_table() -> None:
    odd = CgroupTarget(CgroupLevel.OTHER, "/system.slice/a|b.service")
    found = look(rose(odd, 40_000, throttled=99, stop_ms=70, use=0.4))
    row = next(line for line in markdown(found, found.findings, found.findings).splitlines() if "system.slice" in line)
    assert "a\\|b" in row


@pytest.mark.parametrize(("width", "height", "count"), [(160, 24, 10), (160, 100, 50), (60, 24, 2), (60, 5, 1)])
def test_a_terminal_gets_as_many_findings_as_it_has_lines_for(width: int, height: int, count: int) -> None:
    pairs = [rose(container(f"c{n}"), 40_000, throttled=99, stop_ms=79, use=0.4) for n in range(50)]
    found = look(*pairs)
    fits = fitting(found, found.findings, width=width, height=height)
    assert len(fits) == count
    assert fits[0] is found.findings[0]


def test_what_to_run_next_explains_that_very_finding() -> None:
    nameless = replace(container(), namespace="", pod="", container="")
    for pair in (
        BAD,
        rose(nameless, 40_000, throttled=99, stop_ms=79, use=0.4),
        rose(pod(), 40_000, throttled=99, stop_ms=79),
    ):
        found = look(pair)
        (line,) = (line for line in shown(found).splitlines() if line.startswith("All of it"))
        *_, last = line.split()
        assert explain(found, last, "", None).subject is found.findings[0]


def test_what_to_run_next_opens_the_same_source() -> None:
    local = SourceOptions(
        SourceKind.CGROUPS,
        Path("/host fs"),
        30.0,
        "30s",
        kubelet_pods="http://127.0.0.1:10255/pods",
        nodes=("n1",),
        names=False,
        access=ClusterAccess(Path("k.yaml"), "it's"),
    )
    command = shlex.split(next_command(shown(look(BAD), options=local)))
    assert command == [
        *("-n", "shop", "pod/api-1a/main", "--root", "/host fs", "--interval", "30s", "--node", "n1"),
        *("--kubelet-pods", "http://127.0.0.1:10255/pods", "--no-names", "--kubeconfig", "k.yaml"),
        *("--context", "it's"),
    ]
    history = SourceOptions(
        SourceKind.PROMETHEUS, prometheus="http://me:secret@host:9090/p?", duration="7d", seconds=7 * 86400
    )
    told = next_command(shown(look(BAD, kind=SourceKind.PROMETHEUS), options=history))
    assert told == "-n shop pod/api-1a/main --prometheus http://me:PASSWORD@host:9090/p --window 7d"


def test_a_path_is_looked_for_on_the_node_that_has_it() -> None:
    facts = {name: CgroupNodeFacts(2, "6.18.44") for name in ("a", "b")}
    top = rose(replace(KUBEPODS, node="b"), 40_000, throttled=99, stop_ms=79, use=0.4)
    told = next_command(shown(look(top, facts=facts, kind=SourceKind.CADVISOR)))
    assert told == "/kubepods --all-nodes --node b"


@pytest.mark.parametrize("name", ["x" * 5000, "a\x1b[2Jb", "-rf"])
def test_a_hostile_name_is_short_and_its_command_goes_by_id(name: str) -> None:
    target = container(of=name)
    found = look(rose(target, 40_000, throttled=99, stop_ms=79, use=0.4))
    told = shown(found)
    assert max(map(len, told.splitlines())) < 250
    assert "\x1b" not in told
    assert next_command(told) == target.container_id[:12]
    row = next(line for line in told.splitlines() if "/main" in line)
    assert "shop/" in row
    assert ("\u2026" in row) is (len(name) > 120)


def test_names_from_the_cluster_are_put_to_cgroups() -> None:
    from tests.audit.test_recorded_trees import container_id, pod_uid

    uid, full = pod_uid("ten"), container_id("ten")
    bare = CgroupTarget(CgroupLevel.CONTAINER, f"/kubepods/burstable/pod{uid}/{full}", "", uid, full)
    nodes = {"": CgroupNodeFacts(16, "6.18.44", "#1 SMP", "v1")}
    risen = rose(bare, 200_000, throttled=99, stop_ms=70, use=2.0, cpus=10)
    found = look(risen, pods=kubelet_pods("ten"), facts=nodes)
    assert target_name(found.findings[0].window.target) == "shop/ten-1a/ten"
    assert found.findings[0].severity is Severity.HIGH
    assert any(
        "Deployment shop/api" in patch.about
        for advice in found.advice_for(found.findings[0])
        for patch in advice.patches
    )


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (container(), "shop/api-1a/main"),
        (pod(), "shop/api-1a"),
        (CgroupTarget(CgroupLevel.POD, "/x", pod_uid=POD_UID), "pod 4c1f0a2b-1c2d"),
        (
            CgroupTarget(CgroupLevel.CONTAINER, "/x", pod_uid=POD_UID, container_id="3a9b" * 16),
            "pod 4c1f0a2b-1c2d/3a9b3a9b3a9b",
        ),
        (CgroupTarget(CgroupLevel.OTHER, "/system.slice/a.service"), "/system.slice/a.service"),
        (CgroupTarget(CgroupLevel.NODE, ""), "/"),
    ],
)
def test_everything_has_a_name(target: CgroupTarget, name: str) -> None:
    assert target_name(target) == name


def test_what_is_not_known_is_not_zero() -> None:
    assert (percent(None), percent(0.0), milliseconds(None), milliseconds(0.0034)) == ("-", "0.0 %", "-", "3.4 ms")
