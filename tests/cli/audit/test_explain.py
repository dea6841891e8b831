"""`resource-slack audit explain`: what is meant, the picture of a period, whose quota it is."""

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner

from slack.audit.findings.period_shape import period_shape
from slack.audit.findings.sample import CgroupNodeFacts, CgroupTarget, Sample
from slack.audit.results.explanation import CgroupExplanation
from slack.audit.results.source_kind import SourceKind
from slack.cli.audit.explain import document, explain, title
from slack.cli.audit.period_chart import RUNS, STOPS, fit_rows, lines, picture
from slack.cli.commands import app
from slack.cli.terminal.problems import UserError
from tests.audit.test_recorded_trees import container_id, pod_uid
from tests.cases import run_for_each
from tests.cli.audit.build import KUBEPODS, POD_UID, QOS, container, kubelet_pods, look, pod, recorded, rose
from tests.cli.conftest import Run
from tests.examples import by_profile

__all__ = ["recorded"]
TEN_THREADS = rose(container(), 40_000, throttled=99, stop_ms=79.4, use=0.4)


def text(*pairs: tuple[Sample, Sample]) -> str:
    explanation = explain(look(*pairs), "pod/api-1a", "", 10)
    return "\n".join(line.plain for line in lines(explanation, width=160))


def bars(drawn: str) -> list[str]:
    return [line.partition("  ")[2] for line in drawn.splitlines() if line.startswith("cpu ")]


def test_the_article_s_second_scenario_is_drawn_as_it_is_told() -> None:
    """Ten busy threads under 200 ms: gone in 20 ms, then 80 ms of stop."""
    drawn = [line.plain for line in picture(period_shape(200_000, 100_000, 10), width=160)]
    shown = [line[7:] for line in drawn if line.startswith("cpu ")]
    assert shown == [(RUNS * 8 + STOPS * 32) * 2] * 10
    assert drawn[0].split() == ["ms", "0", "20", "100", "120", "200"]
    assert drawn[0].index("20") - 7 == 8, "the label stands where the bar ends"


def test_the_article_s_first_scenario_never_stops() -> None:
    drawn = [line.plain for line in picture(period_shape(200_000, 100_000, 2), width=160)]
    assert [line[7:] for line in drawn if line.startswith("cpu ")] == [RUNS * 80] * 2


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_the_picture_fits_a_terminal(width: int) -> None:
    for line in picture(period_shape(200_000, 100_000, 16), width=width):
        assert cell_len(line.plain) <= width + 6  # the last label of the axis begins at its end
    (bar,) = {line.plain for line in picture(period_shape(50_000, 100_000, 1), width=width) if "cpu" in line.plain}
    assert cell_len(bar) <= width


def test_more_cpus_than_one_wants_to_see_are_told_in_a_line() -> None:
    drawn = [line.plain for line in picture(period_shape(200_000, 100_000, 64), width=160)]
    assert "       and 52 more alike" in drawn


def test_quota_threads_stop_and_the_limit_that_would_end_it_are_told() -> None:
    told = text(TEN_THREADS, rose(pod(), None), rose(KUBEPODS, None))
    assert "quota        40 ms of CPU time each 100 ms: 0.40 cores; its own" in told
    assert "threads      10" in told
    assert re.search(r"each CPU runs 20(\.\d)? ms of it, then all stand still for (79\.\d|80) ms", told)
    assert re.search(r"A limit of (2|1\.\d+) cores \(the node has 2\) would end it", told)
    assert re.search(r"container\s+0\.40 cores\s+99\.0 %\s+.*<- this quota stops it", told)
    assert "What to do, in this order" in told
    assert "Risk: " in told


def test_the_pods_quota_is_blamed_when_it_is_the_pods() -> None:
    told = text(
        rose(QOS, None), rose(pod(), 50_000, throttled=99, stop_ms=73, use=0.5), rose(container(), None, use=0.5)
    )
    (blamed,) = (line for line in told.splitlines() if "this quota stops it" in line)
    assert blamed.split()[0] == "pod"
    of_container = explain(
        look(rose(pod(), 50_000, throttled=99, stop_ms=73, use=0.5), rose(container(), None, use=0.5)),
        "pod/api-1a/main",
        "shop",
        None,
    )
    assert of_container.governing is not None
    assert of_container.governing.window.target == pod()
    told = "\n".join(line.plain for line in lines(of_container, width=160))
    assert "quota        50 ms of CPU time each 100 ms: 0.50 cores; that of its pod, shop/api-1a" in told
    assert "The quota of the pod shop/api-1a is to blame." in told
    assert "threads      unknown" in told


def test_a_container_that_is_not_throttled_gets_the_picture_of_its_limit_anyway() -> None:
    explanation = explain(look(rose(container(), 150_000, use=0.3)), "pod/api-1a", "", 10)
    told = "\n".join(line.plain for line in lines(explanation, width=160))
    assert "Nothing is throttled." in told
    assert "If 2 CPUs were busy all the time, each would run 75 ms of a period and stand still for 25 ms" in told
    assert "Nothing needs to be done." in told
    assert document(explanation)["period"]["busyCpusAssumed"] is True


def few(target: CgroupTarget, throttled: int, *, periods: int = 96, quota_us: int = 40_000) -> tuple[Sample, Sample]:
    """A window with fewer periods than a verdict needs."""
    before, after = rose(target, quota_us, throttled=throttled, stop_ms=70, use=0.3)
    return before, msgspec.structs.replace(after, periods=periods)


def test_too_few_periods_are_no_all_clear() -> None:
    explanation = explain(look(few(container(), 88)), "pod/api-1a/main", "", 10)
    told = "\n".join(line.plain for line in lines(explanation, width=160))
    assert "Too few periods to judge (88 of 96 were throttled); take a longer --interval." in told
    assert "busy CPUs    2, if all ran that can\n" in told
    assert not re.search("nothing (is|was) throttled|Nothing needs to be done", told, re.IGNORECASE)
    assert document(explanation)["throttled"] is None
    assert title(explanation).endswith(
        "too few periods to judge (88 of 96 were throttled), drawn as if all CPUs were busy"
    )
    none = explain(look(few(container(), 0, periods=7)), "pod/api-1a/main", "", 10)
    assert "Too few periods to judge (0 of 7 were throttled)" in "\n".join(
        line.plain for line in lines(none, width=160)
    )


def test_a_level_above_that_never_stopped_is_no_all_clear_either() -> None:
    """The pod was busy in 100 periods, its container, of the same limit, in 96."""
    explanation = explain(look(rose(pod(), 40_000, use=0.3), few(container(), 88)), "pod/api-1a/main", "", 10)
    assert explanation.governing is explanation.subject
    assert document(explanation)["throttled"] is None


def test_of_a_history_the_window_should_be_longer() -> None:
    explanation = explain(look(few(container(), 88), kind=SourceKind.PROMETHEUS), "pod/api-1a/main", "", None)
    assert any("take a longer --window" in line.plain for line in lines(explanation, width=160))


def test_a_pod_without_a_quota_of_its_own_means_its_container_nearest_the_limit() -> None:
    """The pod's cgroup has no quota when one of its containers has no limit; those of the others stop them all the
    same."""
    near, far = rose(container("near"), 100_000, use=0.8), rose(container("far"), 100_000, use=0.1)
    explanation = explain(look(rose(pod(), None, use=0.9), far, near), "pod/api-1a", "", 10)
    assert explanation.subject.window.target.container == "near"
    told = "\n".join(line.plain for line in lines(explanation, width=160))
    assert "of the limits in pod/api-1a this one is the nearest to being used up" in told
    assert "No level has a CPU limit" not in told
    assert (document(explanation)["governing"]["container"], document(explanation)["throttled"]) == ("near", False)


def test_a_container_that_was_throttled_in_too_few_periods_is_the_nearest_to_its_limit() -> None:
    pairs = rose(pod(), None, use=0.9), rose(container("idle"), 100_000, use=0.9), few(container("main"), 88)
    assert explain(look(*pairs), "pod/api-1a", "", 10).subject.window.target.container == "main"


def test_a_pod_that_is_named_by_its_path_stays_the_pod_but_its_containers_limits_are_told() -> None:
    explanation = explain(look(rose(pod(), None), rose(container(), 100_000)), pod().path, "", 10)
    told = "\n".join(line.plain for line in lines(explanation, width=160))
    assert explanation.subject.window.target == pod()
    assert "No quota stops it as a whole; 1 container of it has a CPU limit: shop/api-1a/main." in told


def test_without_any_limit_nothing_can_stop_it() -> None:
    told = text(rose(container(), None, use=0.3), rose(pod(), None))
    assert "No level has a CPU limit: no quota can stop it." in told
    assert not bars(told)


def test_a_deployment_means_its_worst_pod() -> None:
    labels = ("ten", "two")
    pods = kubelet_pods(*labels)
    pairs = [
        rose(
            container(label, f"{label}-1a", pod_uid(label)),
            40_000,
            throttled=throttled,
            stop_ms=70,
            use=0.4,
        )
        for label, throttled in zip(labels, (20, 99), strict=True)
    ]
    explanation = explain(look(*pairs, pods=pods), "deploy/api", "shop", None)
    assert (explanation.subject.window.target.pod, explanation.alike) == ("two-1a", 2)
    assert "the worst of 2 pods" in "\n".join(line.plain for line in lines(explanation, width=160))


@run_for_each(
    ("name", "namespace", "said"),
    [
        ("pod/apy-1a", "", "pod/apy-1a: no such pod is seen here; near it are api-1a"),
        ("pod/api", "", "pod/api: no such pod is seen here; near it are api-1a"),
        ("pod/zzz", "", "pod/zzz: no such pod is seen here; 1 pod is: api-1a"),
        ("pod/api-1a", "db", "pod/api-1a in namespace db: no pod at all is seen here"),
        ("pod/api-1a/side", "", "no container 'side' is seen in it; there are main"),
        ("deploy/api", "", "deploy/api: no deployment at all is seen here"),
        ("/kubepods/x", "", "/kubepods/x: no such cgroup is seen here; 1 cgroup is: /kubepods/burstable/pod"),
        ("", "", "nothing is named: write pod/NAME"),
        (" ", "", "nothing is named: write pod/NAME"),
        ("api", "", "api: write pod/NAME, deploy/NAME, a pod's uid"),
        ("pod/", "", "pod/: write KIND/NAME"),
        ("pod/a/b/c", "", "pod/a/b/c: write KIND/NAME"),
    ],
)
def test_what_is_not_there_is_told_with_what_is_near(name: str, namespace: str, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        explain(look(TEN_THREADS), name, namespace, None)


def test_a_pod_is_found_by_the_name_of_its_workload() -> None:
    """Names of a Deployment's pods are long: close in letters they are not."""
    made = rose(container(of="api-7d9f8b6c5-x2x4z"), 40_000), rose(container(of="apex", uid="5" * 36), 40_000)
    with pytest.raises(UserError, match=re.escape("no such pod is seen here; near it are api-7d9f8b6c5-x2x4z, apex")):
        explain(look(*made), "pod/api", "shop", None)


def on_terminal(explanation: CgroupExplanation, width: int) -> list[str]:
    """Every row that is written, with its own end of line."""
    out = Console(width=width, color_system=None, highlight=False)
    with out.capture() as capture:
        for line in lines(explanation, width=width):
            for row in fit_rows(line, out):
                out.print(row, soft_wrap=True)
    return capture.get().splitlines()


@pytest.mark.parametrize("width", [50, 80, 120])
def test_a_terminal_breaks_prose_under_its_beginning_and_never_what_is_to_be_copied(width: int) -> None:
    told = on_terminal(explain(look(TEN_THREADS, rose(pod(), None), pods=named_pods()), "pod/api-1a", "", 10), width)
    (command,) = (row for row in told if "kubectl" in row)
    assert shlex.split(command)[-1].endswith("}"), "the whole command is one row"
    (mark,) = (row for row in told if "<- " in row)
    assert mark.endswith("<- this quota stops it")
    advice = told[next(at for at, row in enumerate(told) if row.startswith("1. ")) :]
    assert all(row.startswith(("   ", "1. ", "2. ", "3. ")) for row in advice if row)
    kept = (command, *(row for row in told if row.lstrip().startswith(("/kubepods", "container ", "pod "))))
    assert all(cell_len(row) <= width for row in told if row not in kept)
    assert (
        " ".join("".join(f"{row.strip()} " for row in told).split()).count("the node must have that much to spare") == 1
    )


def named_pods() -> str:
    return json.dumps(
        {
            "items": [
                {
                    "metadata": {"name": "api-1a", "namespace": "shop", "uid": POD_UID},
                    "spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "400m"}}}]},
                }
            ]
        }
    )


def test_what_a_name_holds_cannot_move_the_cursor() -> None:
    name = "api\x1b[2J\n1a"
    pods = named_pods().replace("api-1a", json.dumps(name)[1:-1])
    made = look(rose(container(of=name), 40_000, throttled=99, stop_ms=79, use=0.4), pods=pods)
    told = [line.plain for line in lines(explain(made, POD_UID, "", None), width=80)]
    assert any("kubectl" in line for line in told)
    assert all(line.isprintable() for line in told)


def test_one_name_in_two_namespaces_asks_which() -> None:
    other = replace(container(uid="5" * 36), namespace="db")
    with pytest.raises(UserError, match="is in namespaces db, shop; choose one with -n"):
        explain(look(TEN_THREADS, rose(other, 40_000)), "pod/api-1a", "", None)


def test_uids_and_container_ids_do_where_names_are_not_known(recorded: Callable[[str], Path]) -> None:
    for text in (container_id("ten"), container_id("ten")[:12], f"containerd://{container_id('ten')}"):
        root = str(recorded("v2-6.12"))
        found = CliRunner().invoke(app, ["audit", "explain", "--root", root, "--no-names", text, "-o", "json"])
        assert found.exit_code == 0, found.output
        shown = json.loads(found.stdout)
        assert shown["finding"]["containerId"] == container_id("ten")
    assert shown["period"] == {
        "quotaMicroseconds": 200_000,
        "periodMicroseconds": 100_000,
        "burstMicroseconds": 0,
        "busyCpus": pytest.approx(10, rel=0.02),
        "busyCpusAssumed": False,
        "runsMicroseconds": pytest.approx(20_000, rel=0.02),
        "stopsMicroseconds": pytest.approx(80_000, rel=0.02),
        "limitCores": 2.0,
        "endingLimitCores": pytest.approx(10, rel=0.02),
    }
    assert shown["levels"][0]["level"] == "kubepods"


@pytest.mark.parametrize("ending", ["svg", pytest.param("png", marks=pytest.mark.thorough)])
def test_a_picture_file_is_drawn_the_same_each_time(
    ending: str, recorded: Callable[[str], Path], tmp_path: Path
) -> None:
    root = str(recorded("v2-6.12"))
    drawn = []
    for name in by_profile("a", "ab"):
        file = tmp_path / f"{name}.{ending}"
        args = ["audit", "explain", "--root", root, "--no-names", container_id("ten"), "--picture", str(file)]
        found = CliRunner().invoke(app, args)
        assert found.exit_code == 0, found.output
        drawn.append(file.read_bytes())
        recorded("v2-6.12")
    assert drawn[0] == drawn[-1]
    assert drawn[0].startswith(b"\x89PNG" if ending == "png" else b"<?xml")


def test_a_picture_of_another_kind_is_refused_before_anything_is_waited_for(run: Run) -> None:
    found = run("audit", "explain", "pod/x", "--picture", "x.gif")
    assert (found.code, "ends in neither .png nor .svg" in found.stderr) == (2, True)


def test_what_nobody_knows_is_told_before_anything_is_waited_for(
    recorded: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = str(recorded("hybrid"))
    monkeypatch.setattr("slack.cli.audit.sampling._waited", lambda *_: pytest.fail("it waits"))
    for target, said in (("pod/api", "no pod's name is known"), ("/nosuch", "no such cgroup is seen here")):
        found = CliRunner().invoke(app, ["audit", "explain", "--root", root, "--no-names", target])
        assert (found.exit_code, said in found.output) == (2, True)


def test_a_name_without_names_is_told(recorded: Callable[[str], Path]) -> None:
    found = CliRunner().invoke(app, ["audit", "explain", "--root", str(recorded("hybrid")), "--no-names", "pod/api"])
    assert found.exit_code == 2
    assert "no pod's name is known; give its uid" in found.output


def test_a_node_that_nobody_knows_the_cpus_of_is_drawn_too() -> None:
    explanation = explain(
        look(rose(container(), 150_000, use=0.3), facts={"": CgroupNodeFacts(None)}), "pod/api-1a", "", None
    )
    assert explanation.shape is not None
    assert explanation.shape.busy_cpus == 3
