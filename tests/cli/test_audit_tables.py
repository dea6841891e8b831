"""What people see of an audit: never wider than their terminal, never a 0 % where there is none."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from slack.cfs.finding import Severity
from slack.cfs.sample import Level, NodeFacts, Sample, Target, Trouble
from slack.cli.audit_explain import explain
from slack.cli.audit_look import Look, Wanted, states
from slack.cli.audit_options import Kind, Where
from slack.cli.audit_output import markdown
from slack.cli.audit_tables import fitting, plain, render
from slack.cli.audit_words import milliseconds, percent, who
from tests.cli.auditing import KUBEPODS, POD_UID, container, kubelet_pods, look, pod, rose

BAD = rose(container(), 40_000, throttled=99, stop_ms=79.4, use=0.4)
FINE = rose(container("side"), 40_000, use=0.1)
FREE = rose(container("free"), None, use=0.1)


def shown(
    found: Look,
    wanted: Wanted | None = None,
    width: int | None = None,
    *,
    where: Where | None = None,
    redrawn: bool = False,
) -> str:
    wanted = wanted or Wanted()
    where = where or Where(found.kind)
    asked = wanted.asked(found)
    lines = wanted.shown(asked)
    if width is None:
        return plain(found, asked, lines, where=where, program="resource-slack")
    out = Console(width=width, color_system=None, highlight=False)
    with out.capture() as capture:
        parts = render(found, asked, lines, where=where, width=width, program="resource-slack", redrawn=redrawn)
        out.print(parts, crop=False)
    return capture.get()


def next_command(told: str) -> str:
    (line,) = (one for one in told.splitlines() if one.startswith("All of it"))
    return line.partition(" explain ")[2]


@pytest.mark.parametrize("width", [30, 50, 79, 100, 120])
def test_no_line_is_wider_than_the_terminal_and_no_figure_is_cut(width: int) -> None:
    found = look(BAD, FINE, FREE, troubles={Trouble.FORBIDDEN: 2})
    told = shown(found, Wanted(everything=True), width, redrawn=True)
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
    everything = shown(found, Wanted(everything=True))
    assert "/side" in everything
    assert any(line.strip().startswith("no limit") for line in everything.splitlines() if "/free" in line)


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
    assert "there is no verdict: take a longer --window." in shown(look(short, kind=Kind.PROMETHEUS))


def test_an_empty_machine_and_an_empty_answer_are_told_apart() -> None:
    assert "There is no cgroup of Kubernetes" in shown(look())
    assert "Nothing of what was asked for is here." in shown(look(FINE), Wanted(namespace="db"))


def test_troubles_are_counted_with_an_example() -> None:
    told = shown(look(FINE, troubles={Trouble.GONE: 3, Trouble.EMPTY: 0}))
    assert "not read: 3 gone, such as /kubepods/gone/cpu.stat: gone\n" in told
    assert "empty" not in told


def test_nodes_are_named_where_there_are_several_and_share_a_line_a_kernel() -> None:
    facts = {name: NodeFacts(2, "6.18.44", "#1") for name in ("a", "b")} | {"old": NodeFacts(2, "4.18.20", "")}
    one = rose(container(node="a"), 40_000, throttled=99, stop_ms=79, use=0.4)
    told = shown(look(one, facts=facts, kind=Kind.CADVISOR))
    assert "a: shop/api-1a/main" in told
    assert "kernel 6.18.44: the CFS quota bugs are fixed (a, b)\n" in told
    assert "kernel 4.18.20: affected by the CFS quota bug (slice expiry) (old; audit kernel says why)" in told
    assert "audit explain -n shop pod/api-1a/main --cluster" in told


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        (Wanted(), 3),
        (Wanted(namespace="shop"), 2),
        (Wanted(pod="api-1a"), 2),
        (Wanted(pod=POD_UID[:8]), 2),
        (Wanted(level=Level.POD), 1),
        (Wanted(namespace="shop", level=Level.CONTAINER), 1),
        (Wanted(pod="web"), 0),
    ],
)
def test_what_is_asked_for_is_what_is_told(wanted: Wanted, count: int) -> None:
    found = look(BAD, rose(pod(), None), rose(KUBEPODS, None))
    assert len(wanted.asked(found)) == count


def test_a_node_is_asked_for_by_name_in_a_cluster_only() -> None:
    one, other = rose(container(node="a"), 40_000), rose(container(node="b"), 40_000)
    facts = {name: NodeFacts(2, "6.18.44") for name in "ab"}
    assert len(Wanted(nodes=("a",)).asked(look(one, other, facts=facts, kind=Kind.CADVISOR))) == 1
    assert len(Wanted(nodes=("a",)).asked(look(one, other, facts=facts))) == 2


def test_states_are_counted_in_the_order_of_harm() -> None:
    counts = states(look(FREE, FINE, BAD).findings)
    assert list(counts.items()) == [("high", 1), ("fine", 1), ("no limit", 1)]


def test_markdown_cells_do_not_break_the_table() -> None:
    odd = Target(Level.OTHER, "/system.slice/a|b.service")
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
        (line,) = (one for one in shown(found).splitlines() if one.startswith("All of it"))
        *_, last = line.split()
        assert explain(found, last, "", None).subject is found.findings[0]


def test_what_to_run_next_opens_the_same_source() -> None:
    local = Where(
        Kind.CGROUPS,
        Path("/host fs"),
        30.0,
        "30s",
        kubelet_pods="http://127.0.0.1:10255/pods",
        nodes=("n1",),
        names=False,
        kubeconfig=Path("k.yaml"),
        context="it's",
    )
    command = shlex.split(next_command(shown(look(BAD), where=local)))
    assert command == [
        *("-n", "shop", "pod/api-1a/main", "--root", "/host fs", "--interval", "30s", "--node", "n1"),
        *("--kubelet-pods", "http://127.0.0.1:10255/pods", "--no-names", "--kubeconfig", "k.yaml"),
        *("--context", "it's"),
    ]
    history = Where(Kind.PROMETHEUS, prometheus="http://me:secret@host:9090/p?", duration="7d", seconds=7 * 86400)
    told = next_command(shown(look(BAD, kind=Kind.PROMETHEUS), where=history))
    assert told == "-n shop pod/api-1a/main --prometheus http://me:PASSWORD@host:9090/p --window 7d"


def test_a_path_is_looked_for_on_the_node_that_has_it() -> None:
    facts = {name: NodeFacts(2, "6.18.44") for name in ("a", "b")}
    top = rose(replace(KUBEPODS, node="b"), 40_000, throttled=99, stop_ms=79, use=0.4)
    told = next_command(shown(look(top, facts=facts, kind=Kind.CADVISOR)))
    assert told == "/kubepods --cluster --node b"


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
    from tests.cfs.test_recorded_trees import container_id, pod_uid

    uid, full = pod_uid("ten"), container_id("ten")
    bare = Target(Level.CONTAINER, f"/kubepods/burstable/pod{uid}/{full}", "", uid, full)
    found = look(rose(bare, 40_000, throttled=99, stop_ms=70, use=0.4), pods=kubelet_pods("ten"))
    assert who(found.findings[0].window.target) == "shop/ten-1a/ten"
    assert found.findings[0].severity is Severity.HIGH
    assert any("Deployment shop/api" in patch.about for one in found.of(found.findings[0]) for patch in one.patches)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (container(), "shop/api-1a/main"),
        (pod(), "shop/api-1a"),
        (Target(Level.POD, "/x", pod_uid=POD_UID), "pod 4c1f0a2b-1c2d"),
        (Target(Level.CONTAINER, "/x", pod_uid=POD_UID, container_id="3a9b" * 16), "pod 4c1f0a2b-1c2d/3a9b3a9b3a9b"),
        (Target(Level.OTHER, "/system.slice/a.service"), "/system.slice/a.service"),
        (Target(Level.NODE, ""), "/"),
    ],
)
def test_everything_has_a_name(target: Target, name: str) -> None:
    assert who(target) == name


def test_what_is_not_known_is_not_zero() -> None:
    assert (percent(None), percent(0.0), milliseconds(None), milliseconds(0.0034)) == ("-", "0.0 %", "-", "3.4 ms")
