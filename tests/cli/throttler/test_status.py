"""`throttler status`: what it asks for, what it says, and what it says where it may not ask."""

import json
import signal
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.harness.cluster.certificates import Authority
from slack.throttler.fsm import StartState
from slack.throttler.reports.messages import SilentNode, encode
from tests.cli.conftest import COMMAND, Run
from tests.cli.test_documents import as_declared, golden, printed
from tests.cli.throttler.viewing import (
    NOW,
    POLICIES,
    PROXY,
    TOKEN,
    cluster,
    controller,
    lease,
    policy,
    report,
    row,
    shown,
    token,
    view,
    viewer_token,
)
from tests.kube.fake_api import Reply

STATUS = ("throttler", "status", "--kubeconfig", "config")
SILENT = SilentNode(node="node-2", policy="default", at=NOW - 300)
TEXT = {"Content-Type": "text/plain"}


def test_the_leader_is_asked_through_the_api_server_with_a_short_token(run: Run, tmp_path: Path) -> None:
    with cluster(tmp_path, lease(), shown(view(report()))) as api:
        found = run(*STATUS)
        asked = api.last("post")
        proxied = next(seen for seen in api.seen if seen.path == PROXY)
    assert (found.code, found.stderr) == (0, "")
    assert asked.path == TOKEN
    assert json.loads(asked.body)["spec"] == {"audiences": ["throttler"], "expirationSeconds": 600}
    assert proxied.headers["Resource-Slack-Token"] == "viewer.token.x"
    assert proxied.query == {}


def test_policies_and_who_starts_and_who_waits_are_told(run: Run, tmp_path: Path) -> None:
    with cluster(tmp_path, lease(), shown(view(report(), report("calm", counts={StartState.READY: 3}, containers=())))):
        found = run(*STATUS)
    assert [line.split() for line in found.stdout.splitlines()] == [
        ["POLICY", "READY", "NODES", "REPORTING", "SILENT", "STARTING", "PENDING", "BLOCKED", "FAILED", "FORCED"],
        ["default", "True", "3", "2", "1", "3", "2", "1", "5", "4"],
        [],
        [
            "node-1",
            "policy",
            "default;",
            "1",
            "starting,",
            "of",
            "2",
            "slots;",
            "1",
            "failed,",
            "2",
            "pending,",
            "1",
            "blocked",
        ],
        ["STATE", "SINCE", "PLACE", "CONTAINER", "WHY"],
        ["pending", "30s", "1", "shop/api-1", "api", "2", "start,", "and", "2", "may;", "forced", "in", "4s"],
        ["pending", "12s", "2", "shop/api-0", "api", "1", "before", "it;", "2", "start,", "and", "2", "may"],
        ["starting", "30s", "-", "shop/db-0", "db", "forced", "by", "minRate;", "late", "in", "4m"],
        ["failed", "6m", "-", "shop/job", "work", "-"],
        ["blocked", "30s", "-", "shop/api-0", "web", "depends", "on", "api", "(pending)"],
        [],
        ["verdict", "1", "failed,", "2", "pending,", "1", "starting,", "1", "blocked"],
    ]


def test_one_node_is_told_with_all_rows_even_where_nobody_waits(run: Run, tmp_path: Path) -> None:
    calm = report("calm", policy="", slots=None, counts={StartState.READY: 3}, containers=())
    with cluster(tmp_path, lease(), shown(view(calm))) as api:
        found = run(*STATUS, "--node", "calm")
        proxied = next(seen for seen in api.seen if seen.path == PROXY)
    assert proxied.query == {"node": "calm"}
    assert "calm  no policy: nothing is held back; 0 starting, no limit\n" in found.stdout
    assert found.stdout.splitlines()[-1] == "verdict   nobody waits"


def test_silent_agents_are_told_and_end_with_3(run: Run, tmp_path: Path) -> None:
    never = SilentNode(node="node-3")
    with cluster(tmp_path, lease(), shown(view(report(), silent=(SILENT, never)))):
        found = run(*STATUS)
    assert found.code == 3
    assert "! the agents of 2 nodes do not report: node-2 (for 5m), node-3\n" in found.stdout
    assert found.stdout.splitlines()[-1].endswith("; something is wrong")


def test_agents_that_see_no_pods_are_told_with_the_reason(run: Run, tmp_path: Path) -> None:
    blind = SilentNode(node="node-3", at=NOW - 5, reason="the watch is refused")
    with cluster(tmp_path, lease(), shown(view(report(), silent=(blind,)))):
        found = run(*STATUS)
    assert found.code == 3
    assert "! the agents of 1 node do not see the pods of their nodes: node-3 (the watch is refused)\n" in found.stdout
    assert "do not report" not in found.stdout


def test_a_policy_that_does_not_work_is_told_with_its_message(run: Run, tmp_path: Path) -> None:
    with cluster(tmp_path, lease(), shown(view(report()))) as api:
        api.put(f"{POLICIES}/broken", **policy("broken", "False"))
        api.put(
            f"{POLICIES}/odd", metadata={"name": "odd"}, spec={}, status={"conditions": "x", "nodes": [], "forced": "2"}
        )
        found = run(*STATUS, "-o", "wide")
    assert found.code == 3
    assert "! broken: of 3 nodes 2 report\n" in found.stdout
    assert next(line for line in found.stdout.splitlines() if line.startswith("odd")).split() == ["odd", *["-"] * 12]


def test_a_storm_is_told_in_a_few_lines_and_wide_in_all(run: Run, tmp_path: Path) -> None:
    rows = tuple(row(f"pod-{number}", "app", StartState.PENDING, position=number + 1) for number in range(40))
    counts = {StartState.PENDING: 40}
    storm = [report(f"node-{number:03}", containers=rows, counts=counts, left_out=2) for number in range(500)]
    stuck = report("stuck", containers=rows[:1], counts={StartState.PENDING: 1, StartState.FAILED: 1})
    with cluster(tmp_path, lease(), shown(view(*storm, stuck))):
        found = run(*STATUS)
    lines = found.stdout.splitlines()
    assert len(lines) < 200
    assert lines[3].startswith("stuck  ")
    assert "and 489 nodes more with 19560 pending; -o wide shows all, --node NAME one" in lines
    assert "  and 34 more; --node node-000 shows them" in lines
    with cluster(tmp_path, lease(), shown(view(*storm[:20]))):
        wide = run(*STATUS, "-o", "wide")
    assert sum("shop/pod-" in line for line in wide.stdout.splitlines()) == 800
    assert "  and 2 more" in wide.stdout.splitlines()


def test_the_document_is_as_it_is_published(run: Run, tmp_path: Path) -> None:
    with cluster(tmp_path, *(2 * [lease(), shown(view(report(), silent=(SILENT,)))]), tokens=(token(), token())):
        found = printed(run, *STATUS)
    as_declared("throttler-status", found)
    golden("throttler-status", found)


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml"])
def test_a_hostile_name_or_reason_does_nothing_to_a_terminal(run: Run, tmp_path: Path, output: str) -> None:
    evil = "\x1b[2J[red]x[/red]\x9b31m\u202e\r\n\x07"
    rows = (row(evil, "a[/]b", StartState.PENDING, position=1, reason=evil),)
    given = report(f"n{evil}", policy=evil, containers=rows)
    with cluster(tmp_path, lease(), shown(view(given, silent=(SilentNode(node=evil),)))) as api:
        api.put(
            f"{POLICIES}/x", **policy("x", "False", conditions=[{"type": "Ready", "status": "False", "message": evil}])
        )
        found = run(*STATUS, "-o", output)
    assert found.code == 3, found.stderr
    assert all(char.isprintable() or char == "\n" for char in found.stdout + found.stderr)
    assert "[red]x[/red]" in found.stdout
    assert "a[/]b" in found.stdout


@dataclass(frozen=True)
class Case:
    gets: tuple[Reply, ...]
    words: str
    token: Reply | None = None


def forbidden(what: str) -> Reply:
    body = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "message": f'{what} is forbidden: User "u"'}
    return Reply(403, body)


def unreached(code: int) -> Reply:
    message = "error trying to reach service: dial tcp 10.0.0.9:7473: connect: connection refused"
    return Reply(code, {"kind": "Status", "reason": "ServiceUnavailable", "message": message})


CASES = {
    "no lease": Case((Reply.status(404, "NotFound"),), "there is none: is the throttler installed (throttler.en"),
    "no right to the lease": Case((forbidden("leases"),), "needs get of leases in coordination.k8s.io"),
    "nobody leads": Case((lease(None),), "nobody holds it: does a pod of the throttler's controller run?"),
    "no pod holds it": Case((lease("../../../x y_1"),), "its holder '../../../x y_1' is no pod"),
    "no right to a token": Case((lease(),), "needs create of serviceaccounts/token", forbidden("serviceaccounts")),
    "no account": Case((lease(),), "does the throttler's release have another name?", Reply.status(404, "NotFound")),
    "an empty token": Case((lease(),), "the answer has no token", token("")),
    "no token": Case((lease(),), "missing required field `status`", Reply(201, {"kind": "TokenRequest"})),
    "no right to the proxy": Case(
        (lease(), forbidden('pods "https:x:7473" (pods/proxy)')), "needs get of pods/proxy in"
    ),
    "the pod is gone": Case(
        (lease(), Reply(404, {"kind": "Status", "reason": "NotFound", "message": 'pods "throttler-7d9-x" not found'})),
        "pod throttler-7d9-x in resource-slack holds the lease and is not there any more",
    ),
    "it is not reached": Case((lease(), unreached(503)), "is not reached at port 7473: does it run, and does"),
    "a gateway": Case((lease(), unreached(502)), "is not reached at port 7473"),
    "a standby": Case(
        (lease(), Reply(503, b"another one leads\n", TEXT)), "does not answer now: another one leads; it"
    ),
    "the token is refused": Case(
        (lease(), Reply(403, b"not a viewer\n", TEXT)),
        "refuses: not a viewer; it takes tokens of ServiceAccount resource-slack-throttler-viewer",
    ),
    "another program": Case(
        (lease(), Reply(404, b"404: Not Found", TEXT)), "it knows no /v1/starts: is it the reports"
    ),
    "half an answer": Case((lease(), Reply(200, b'{"at": 1, "repo')), "no view of a throttler's controller"),
    "something else": Case((lease(), Reply(200, b"<html>")), "no view of a throttler's controller"),
    "out of order": Case((lease(), Reply(500, b"broken", TEXT)), "500 Internal Server Error: broken"),
}


@pytest.mark.parametrize("name", CASES)
def test_each_way_to_fail_is_one_line_that_says_what_would_be_right(run: Run, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    with cluster(tmp_path, *case.gets, tokens=(case.token or token(),)) as api:
        found = run(*STATUS)
    assert (found.code, found.stdout) == (2, "")
    assert case.words in found.stderr
    assert found.stderr.startswith(f"error: http://127.0.0.1:{api.port}: ")
    assert found.stderr.count("\n") == 1


def test_another_release_is_asked_by_name(run: Run, tmp_path: Path) -> None:
    with cluster(tmp_path, lease(), shown(view())) as api:
        found = run(*STATUS, "--throttler-namespace", "ops", "--throttler-name", "paced")
    paths = [seen.path for seen in api.seen]
    assert found.code == 0, found.stderr
    assert "/apis/coordination.k8s.io/v1/namespaces/ops/leases/resource-slack-throttler" in paths
    assert "/api/v1/namespaces/ops/serviceaccounts/paced-viewer/token" in paths
    assert "/api/v1/namespaces/ops/pods/https:throttler-7d9-x:7473/proxy/v1/starts" in paths
    assert found.stdout.splitlines()[-1] == "verdict   no agent reports"


@pytest.mark.parametrize(
    ("code", "words"),
    [(403, "policies: not allowed to list throttlepolicies"), (404, "policies: the API server does not know the kind")],
)
def test_what_may_not_be_seen_of_policies_is_said(run: Run, tmp_path: Path, code: int, words: str) -> None:
    with cluster(tmp_path, lease(), shown(view(report())), policies=False) as api:
        api.script("list", Reply.status(code))
        found = run(*STATUS)
    assert found.code == 0, found.stderr
    assert f"not seen  {words}" in found.stdout


def test_a_controller_is_asked_directly_without_an_api_server(run: Run, tmp_path: Path) -> None:
    with controller(encode(view(report()))) as address:
        found = run("throttler", "status", "--controller", address, "--token-file", viewer_token(tmp_path))
    assert found.code == 0, found.stderr
    assert "node-1  policy default; 1 starting, of 2 slots" in found.stdout
    assert "not seen  policies: " in found.stdout


def test_a_token_for_a_controller_comes_from_the_api_server_where_no_file_has_one(run: Run, tmp_path: Path) -> None:
    with cluster(tmp_path) as api, controller(encode(view(report()))) as address:
        found = run(*STATUS, "--controller", address)
        assert api.count("post") == 1
    assert found.code == 0, found.stderr
    assert "default  True" in found.stdout


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--controller", "nowhere"), "--controller: 'nowhere' is no address such as https://127.0.0.1:7473"),
        (("--controller", "http://10.0.0.9:7473"), "would send the token in the clear; use https"),
        (("--controller", "https://u:secret@10.0.0.9"), "--controller: https://10.0.0.9: should be a scheme"),
        (("--controller", "https://127.0.0.1/x?y"), "should be a scheme, a host and a port, and nothing else"),
        (("--controller", "https://127.0.0.1:1", "--ca-file", "none"), "--ca-file: none: no such file or directory"),
        (("--controller", "https://127.0.0.1:1", "--ca-file", "token"), "--ca-file: token: has no certificate in PEM"),
        (("--ca-file", "token"), "--ca-file: goes with --controller"),
        (("--token-file", "token"), "--token-file: goes with --controller"),
        (("--controller-name", "a"), "--controller-name: goes with --controller"),
        (("--controller", "http://127.0.0.1:1", "--token-file", "."), "--token-file: .: is a directory"),
        (("--controller", "http://127.0.0.1:1", "--token-file", "empty"), "--token-file: empty: holds no token"),
        (
            ("--controller", "http://127.0.0.1:1", "--token-file", "token"),
            ": http://127.0.0.1:1: no answer",
        ),
    ],
)
def test_flags_that_cannot_be_are_refused_by_name(run: Run, tmp_path: Path, flags: tuple[str, ...], words: str) -> None:
    viewer_token(tmp_path)
    (tmp_path / "empty").write_text("\n")
    found = run("throttler", "status", *flags)
    assert (found.code, found.stdout) == (2, "")
    assert words in found.stderr
    assert "secret" not in found.stderr


def test_a_certificate_is_held_to_its_name_and_its_authority(run: Run, tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "authority")
    pair = authority.issue("reports", hosts=["throttler.example"])
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.certificate, pair.key)
    flags = ("--token-file", viewer_token(tmp_path), "--ca-file", authority.certificate_path)
    with controller(encode(view(report())), tls=tls) as address:
        asked = ("throttler", "status", "--controller", address, *flags)
        strange = run(*asked)
        foreign = run(*asked[:-2], "--controller-name", "throttler.example")
        found = run(*asked, "--controller-name", "throttler.example")
    assert strange.code == foreign.code == 2
    assert "127.0.0.1" in strange.stderr
    assert "certificate" in foreign.stderr
    assert found.code == 0, found.stderr


def test_a_direct_controller_that_refuses_says_why(run: Run, tmp_path: Path) -> None:
    with controller(b"this one does not lead", 503) as address:
        found = run("throttler", "status", "--controller", address, "--token-file", viewer_token(tmp_path))
    assert found.code == 2
    assert f"error: --controller: {address}: the controller does not answer now: this one does not lead" in found.stderr


def test_watching_shows_each_change_and_asks_for_one_token(tmp_path: Path) -> None:
    calm = report("node-1", counts={StartState.READY: 3}, containers=())
    with cluster(tmp_path, lease(), shown(view(report())), lease(), shown(view(calm))) as api:
        command = [
            str(COMMAND),
            "throttler",
            "status",
            "--watch",
            "-o",
            "json",
            "--kubeconfig",
            str(tmp_path / "config"),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            first, second = (json.loads(process.stdout.readline()) for _ in range(2))
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
        assert api.count("post") == 1
    assert [len(found["nodes"][0]["containers"]) for found in (first, second)] == [5, 0]
