"""`load` as a person calls it: what it refuses, what it asks, and that nothing is left."""

import json
from pathlib import Path

import pytest

from slack.cli.load.report_text import lines, print_report, question
from slack.cli.load.run import Finished, LoadRequest
from slack.cli.terminal.formats import TABLE
from slack.loadtest.meter import LoadMeter
from slack.loadtest.shape import LoadShape
from tests.cli.conftest import Run
from tests.cli.test_uninstall import config
from tests.kube.fake_api import FakeApi

DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--cpu", "much"), "--cpu: "),
        (("--memory", "0"), "--memory: '0' is no request of a pod"),
        (("--for", "soon"), "--for: "),
        (("--cpu", "2Gi"), "--cpu: cpu is in cores"),
        (("--memory", "512m"), "--memory: memory and ephemeral-storage are in bytes, such as 512Mi"),
        (("--memory", "512"), "less than 1Mi must be a slip, but for 0, not '512'"),
        (("--name", "Bad_Name"), "--name: 'Bad_Name' is no name of a Deployment"),
        (("--name", "x" * 64), "up to 63 of a-z"),
        (("--pods", "0"), "--pods: '0' is no number of pods from 1 to 5000, such as 50"),
        (("--pods", "1.5"), "--pods: '1.5' is no number of pods"),
        (("--pods", "5001"), "--pods: '5001' is no number of pods"),
        (("--shape", "wave"), "'wave' is not one of 'burst', 'ramp', 'sine'"),
    ],
)
def test_bad_flags_are_told_before_anything_is_asked(run: Run, args: tuple[str, str], said: str) -> None:
    found = run("load", "-n", "shop", *(() if args[0] == "--pods" else ("--pods", "5")), *args)
    assert (found.code, said in found.stderr) == (2, True), found.stderr


def test_a_namespace_that_is_not_there_is_told(run: Run, tmp_path: Path) -> None:
    with FakeApi() as api:
        found = run("load", "-n", "shp", "--pods", "5", "--yes", "--kubeconfig", config(api, tmp_path))
        assert api.count("post") + api.count("create") == 0
    assert (found.code, "there is no namespace 'shp'" in found.stderr) == (2, True)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (
            {"app.kubernetes.io/managed-by": "resource-slack-load"},
            "an earlier load is still there; take it away: kubectl",
        ),
        ({}, "is there already and no load of ours; give another --name"),
    ],
)
def test_what_is_there_already_is_left_alone(run: Run, tmp_path: Path, labels: dict[str, str], said: str) -> None:
    with FakeApi() as api:
        api.put("/api/v1/namespaces/shop")
        api.put(f"{DEPLOYMENTS}/resource-slack-load", metadata={"labels": labels})
        found = run("load", "-n", "shop", "--pods", "5", "--yes", "--kubeconfig", config(api, tmp_path))
        assert api.count("delete") == 0
    assert (found.code, said in found.stderr) == (2, True), found.stderr


@pytest.mark.parametrize(("until", "code"), [("2020-01-01T00:00:00+00:00", 0), ("2999-01-01T00:00:00+00:00", 2)])
def test_what_an_earlier_load_left_is_removed_when_its_deadline_has_passed(
    run: Run, tmp_path: Path, until: str, code: int
) -> None:
    left = {
        "labels": {"app.kubernetes.io/managed-by": "resource-slack-load"},
        "annotations": {"resource-slack.io/load-until": until},
    }
    with FakeApi() as api:
        api.put("/api/v1/namespaces/shop")
        api.put(f"{DEPLOYMENTS}/resource-slack-load", metadata=left)
        found = run(
            "load", "-n", "shop", "--pods", "5", "--for", "1s", "--watch-nodes", "0s", "--yes",
            "--kubeconfig", config(api, tmp_path),
        )  # fmt: skip
        assert api.count("delete") == (0 if code else 3), "the one that was left; this one, and its Job"
    assert (found.code != 2) == (code != 2), found.stderr


def test_nothing_is_made_where_nobody_can_say_yes(run: Run, tmp_path: Path) -> None:
    with FakeApi() as api:
        api.put("/api/v1/namespaces/shop")
        found = run("load", "-n", "shop", "--pods", "5", "--kubeconfig", config(api, tmp_path))
        assert api.count("create") == 0
    assert found.code == 2
    assert "5 pods of 500m cpu, 512Mi memory (2500m cpu, 2560Mi memory in all)" in found.stderr.replace(
        "2.5Gi", "2560Mi"
    )
    assert "add --yes" in found.stderr


ASKED = LoadRequest("shop", "load", "pause", 3, {"cpu": "1"}, LoadShape.BURST, None, 300.0, 900.0)


def finished(**changes: object) -> Finished:
    meter = LoadMeter(0.0)
    meter.node_seen("a", 0.0, ready=True)
    meter.tick(0.0)
    for uid in ("1", "2"):
        meter.pod_seen(uid, None, "", 1.0)
    meter.pod_seen("1", "a", "", 1.2)
    meter.pod_seen("2", None, "0/1 nodes are available: 1 Insufficient cpu.", 1.2)
    meter.tick(5.0)
    meter.ended(9.0)
    meter.tick(9.0)
    values = {
        "asked": ASKED,
        "report": meter.report(9.0),
        "interrupted": False,
        "missing": 0,
        "refusal": "",
        "ended_by": "",
        "unseen": (),
        "left": "",
    }
    return Finished(**(values | changes))  # type: ignore[arg-type]


def test_the_answer_has_figures_a_picture_and_the_schedulers_words() -> None:
    shown = "\n".join(lines(finished(), 60))
    assert "pods      1 of 2 pods got a node" in shown
    assert "instant   1 of 2 within 2 s (50.0 %)" in shown
    assert "to bind   p50 0.20 s, p99 8.00 s" in shown
    assert "nodes     1 before, 1 at most: none had to come" in shown
    assert "1 pod got no node, in the scheduler's words: 0/1 nodes are available: 1 Insufficient cpu." in shown
    assert "█" in shown


def test_a_quota_and_what_is_left_are_told() -> None:
    shown = "\n".join(lines(finished(refusal="exceeded quota: q", missing=1, left="the Deployment is still there"), 60))
    assert "not created: 1 pod: exceeded quota: q" in shown
    assert "the Deployment is still there" in shown


def test_words_of_others_do_not_reach_the_terminals_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(finished(refusal="exceeded \x1b[2Jquota"), TABLE)
    assert "\x1b" not in capsys.readouterr().out


def test_who_may_not_see_nodes_gets_no_picture_of_them() -> None:
    shown = "\n".join(lines(finished(unseen=("nodes",)), 60))
    assert "nodes may not be seen with these rights" in shown
    assert "displaced 0" in shown
    assert "displaced" not in "\n".join(lines(finished(unseen=("placeholders",)), 60))
    assert "█" not in shown


def test_the_question_says_what_it_comes_to_and_where() -> None:
    said = question(ASKED, "https://prod.example")
    assert "3 pods of 1 cpu (3 cpu in all) as deployment shop/load at https://prod.example" in said
    assert "an autoscaler may start nodes" in said


def test_json_is_for_programs() -> None:
    from slack.cli.load.report_text import notes
    from slack.loadtest.report import document

    shown = json.loads(json.dumps(document(finished().report, notes(finished()))))
    assert (shown["kind"], shown["pods"], shown["instant"], shown["p99_seconds"]) == ("Load", 2, 1, 8.0)
    assert shown["timeline"][0] == {"seconds": 0.0, "bound": 0, "waiting": 0, "placeholders": 0, "nodes": 1}
