"""kubectl's habits: whose namespace is the default, which cluster and as whom, `-o`, `help`, helps that look alike."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from slack.cli.commands import app
from slack.cli.inputs.kubectl_flags import CONNECTION
from slack.cli.terminal.lazy import LazyGroup
from slack.cli.terminal.problems import Command, CommandGroup
from slack.cli.terminal.templates import (
    InvalidTemplate,
    columns_text,
    object_names,
    parse_columns,
    parse_template,
    template_text,
)
from slack.kube.access import ClusterAccess
from slack.kube.errors import ConnectionFailed
from slack.kube.kubeconfig import connect_with
from slack.kube.kubeconfig_files import current_namespace
from tests.cases import run_for_each
from tests.cli.conftest import Run
from tests.kube.fake_api import FakeApi, Reply

POOLS = "/apis/resource-slack.io/v1alpha1/namespaces/media/activationpools/"


def kubeconfig(folder: Path, server: str, *, namespace: str = "media") -> Path:
    """Write two contexts, clusters and users; the first context has the namespace."""
    document = {
        "current-context": "main",
        "clusters": [
            {"name": "here", "cluster": {"server": server}},
            {"name": "there", "cluster": {"server": "http://there"}},
        ],
        "users": [{"name": "ann", "user": {"token": "anns"}}, {"name": "bob", "user": {"token": "bobs"}}],
        "contexts": [
            {"name": "main", "context": {"cluster": "here", "user": "ann", "namespace": namespace}},
            {"name": "bare", "context": {"cluster": "here", "user": "ann"}},
        ],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as server:
        for name in ("thumbnail", "video"):
            server.put(POOLS + name, metadata={"labels": {"team": name}})
        yield server


@pytest.fixture
def config(api: FakeApi, tmp_path: Path) -> Path:
    return kubeconfig(tmp_path, f"http://127.0.0.1:{api.port}")


def test_the_namespace_is_the_contexts_unless_one_or_all_are_asked_for(run: Run, api: FakeApi, config: Path) -> None:
    def asked(*words: str) -> str:
        run(*words, "--kubeconfig", config)
        return next(seen.path for seen in reversed(api.seen) if seen.path != "/version")

    pools = "/apis/resource-slack.io/v1alpha1{}/activationpools"
    assert asked("demand", "top") == pools.format("/namespaces/media")
    assert asked("demand", "top", "--context", "bare") == pools.format("/namespaces/default")
    assert asked("demand", "top", "-n", "shop") == pools.format("/namespaces/shop")
    assert asked("demand", "top", "-A") == pools.format("")
    assert asked("demand", "explain", "thumbnail") == pools.format("/namespaces/media")
    assert asked("load", "--pods", "1").startswith("/api/v1/namespaces/media")
    assert asked("throttler", "explain", "pod/a").startswith("/api/v1/namespaces/media/")
    assert asked("throttler", "release") == "/api/v1/namespaces/media/pods"
    assert asked("throttler", "release", "-A") == "/api/v1/pods"
    run("migrate", "--kubeconfig", config)
    assert "/apis/apps/v1/namespaces/media/deployments" in {seen.path for seen in api.seen}
    assert "error: media/deploy/api: " in run("explain", "deploy/api", "--kubeconfig", config).stderr


def test_one_namespace_and_all_are_refused_together(run: Run, config: Path) -> None:
    found = run("demand", "top", "-A", "-n", "shop", "--kubeconfig", config)
    assert (found.code, found.stdout) == (2, "")
    assert "--all-namespaces: not together with --namespace" in found.stderr


def test_rows_are_chosen_by_labels_and_printed_as_kubectl_prints_them(run: Run, api: FakeApi, config: Path) -> None:
    def printed(*words: str) -> str:
        found = run("demand", "top", "--kubeconfig", config, *words)
        assert found.code == 0, found.stderr
        return found.stdout

    assert printed("-o", "name") == "".join(f"activationpool.resource-slack.io/{n}\n" for n in ("thumbnail", "video"))
    assert printed("-o", "jsonpath={.items[*].name}") == "thumbnail video\n"
    columns = "custom-columns=POOL:.name,READY:.ready"
    assert printed("-o", columns) == "POOL        READY\nthumbnail   <none>\nvideo       <none>\n"
    assert printed("-o", columns, "--no-headers") == "thumbnail   <none>\nvideo       <none>\n"
    assert printed().startswith("POOL ")
    assert printed("--no-headers").startswith("media/thumbnail ")
    printed("-l", "team=video")
    assert api.last("list").query["labelSelector"] == "team=video"


@pytest.fixture
def policies(api: FakeApi) -> FakeApi:
    for name in ("batch", "web"):
        path = f"/apis/resource-slack.io/v1alpha1/slackpolicies/{name}"
        api.put(path, kind="SlackPolicy", spec={}, metadata={"labels": {"team": name}})
    api.selects = True
    api.put("/api/v1/nodes/n1", status={"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}})
    return api


def test_a_plan_shows_the_policies_with_the_labels(run: Run, policies: FakeApi, config: Path) -> None:
    def planned(*words: str) -> str:
        return run("plan", "--kubeconfig", config, "-o", "jsonpath={.items[*].policy}", *words).stdout

    assert planned() == "batch web\n"
    assert planned("-l", "team=web") == "web\n"
    nobody = run("plan", "--kubeconfig", config, "-l", "team=none")
    assert (nobody.code, nobody.stderr) == (2, "error: --selector: no SlackPolicy has the labels team=none\n")


def test_what_is_migrated_is_chosen_by_labels_and_what_explains_it_is_not(run: Run, api: FakeApi, config: Path) -> None:
    run("migrate", "-l", "app=spare", "--kubeconfig", config)
    asked = {seen.path.rpartition("/")[2]: seen.query.get("labelSelector") for seen in api.seen}
    assert {asked[kind] for kind in ("deployments", "statefulsets", "jobs", "capacitybuffers")} == {"app=spare"}
    assert {asked[kind] for kind in ("configmaps", "horizontalpodautoscalers", "priorityclasses")} == {None}


@run_for_each(
    "template", ["jsonpath={.items", "jsonpath=", "custom-columns=NAME", "go-template={{.x}}", "jsonpath={[}"]
)
def test_a_bad_template_is_refused_before_a_server_is_asked(run: Run, template: str) -> None:
    found = run("status", "-o", template)
    assert (found.code, found.stdout) == (2, "")
    assert "'-o'" in found.stderr


DOCUMENT = {
    "kind": "Status",
    "good": True,
    "policies": [
        {"name": "web", "labels": {"app.kubernetes.io/name": "a"}, "cost": {"perHour": 1.5}},
        {"name": "batch", "labels": {}, "cost": None},
    ],
}


@run_for_each(
    ("template", "printed"),
    [
        ("{.kind}", "Status"),
        (".kind", "Status"),
        ("{.policies[*].name}", "web batch"),
        ("{.policies[-1].name} and {.good}", "batch and true"),
        ("{.policies[0].labels.app\\.kubernetes\\.io/name}", "a"),
        ("{.policies[0]['name']}{'\\t'}{.policies[0].cost}", 'web\t{"perHour":1.5}'),
        ('{range .policies[*]}{.name}={.cost.perHour}{"\\n"}{end}', "web=1.5\nbatch=\n"),
        ("{range .policies[*]}{@.name};{end}", "web;batch;"),
        ('{.policies[?(@.name=="batch")].cost}', ""),
        ("{.policies[?(@.cost.perHour>1.25)].name}", "web"),
        ("{..name}", "web batch"),
        ("{.nothing.here}", ""),
    ],
)
def test_a_jsonpath_template_prints_what_kubectl_prints(template: str, printed: str) -> None:
    assert template_text(parse_template(template), DOCUMENT) == printed


def test_columns_and_names() -> None:
    columns = parse_columns("NAME:.name,COST:{.cost.perHour},APP:.labels['app.kubernetes.io/name']")
    rows: Any = DOCUMENT["policies"]
    assert columns_text(columns, rows, headers=True) == [
        "NAME    COST     APP",
        "web     1.5      a",
        "batch   <none>   <none>",
    ]
    assert object_names([{"kind": "ReplicaSet", "name": "a"}], "", "name") == ["replicaset.apps/a"]
    for bad in ("", "NAME", ":.x", "A:[[["):
        with pytest.raises(InvalidTemplate):
            parse_columns(bad)


def test_cluster_user_token_impersonation_and_time_are_kubectls(api: FakeApi, tmp_path: Path) -> None:
    config = kubeconfig(tmp_path, f"http://127.0.0.1:{api.port}")

    def sent(**chosen: Any) -> dict[str, str]:
        connection = connect_with(ClusterAccess(config, **chosen))
        assert connection.server_version()
        connection.close()
        return {name.lower(): text for name, text in api.seen[-1].headers.items()}

    assert sent()["authorization"] == "Bearer anns"
    assert sent(user="bob")["authorization"] == "Bearer bobs"
    assert sent(token="mine")["authorization"] == "Bearer mine"
    assert connect_with(ClusterAccess(config, cluster="there")).host == "http://there"
    headers = sent(as_user="eve", as_groups=("ops", "dev"))
    assert headers["impersonate-user"] == "eve"
    assert "impersonate-group" in headers
    for chosen, words in (
        ({"user": "nobody"}, "--user: .* no user 'nobody' .there are: ann, bob."),
        ({"cluster": "no"}, "--cluster: .* no cluster 'no' .there are: here, there."),
        ({"as_groups": ("ops",)}, "--as-group: needs --as"),
    ):
        with pytest.raises(ConnectionFailed, match=words):
            connect_with(ClusterAccess(config, **chosen))
    assert "mine" not in repr(ClusterAccess(token="mine"))


def test_requests_are_logged_from_level_6_on_and_without_the_token(run: Run, config: Path) -> None:
    quiet, loud = (run("demand", "top", "--kubeconfig", config, *words) for words in ((), ("-v", "6")))
    assert quiet.stderr == ""
    assert loud.stderr.count("GET http://127.0.0.1:") == 2
    assert "/version 200 in " in loud.stderr
    assert "anns" not in loud.stderr
    assert run("demand", "top", "--kubeconfig", config, "--v=6").stderr.count("GET") == 2


def test_a_server_that_says_nothing_is_waited_for_as_long_as_was_asked(run: Run, api: FakeApi, config: Path) -> None:
    api.script("list", Reply(hang=True))
    found = run("demand", "top", "--kubeconfig", config, "--request-timeout", "300ms")
    assert found.code == 2
    assert "for 0.3 s" in found.stderr
    assert "--request-timeout: " in run("demand", "top", "--kubeconfig", config, "--request-timeout", "soon").stderr


def test_without_a_usable_kubeconfig_the_namespace_is_default(tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("{")
    assert current_namespace(ClusterAccess(tmp_path / "broken")) == "default"
    assert current_namespace(ClusterAccess(tmp_path / "none")) == "default"


def _all_commands() -> dict[str, Any]:
    found: dict[str, Any] = {}

    def walk(name: str, command: Any) -> None:
        found[name] = command
        for below, child in (getattr(command, "commands", None) or {}).items():
            walk(f"{name} {below}".strip(), child)

    walk("", typer.main.get_command(app))
    return found


@run_for_each(("name", "command"), _all_commands().items(), ids=str)
def test_every_help_has_the_same_layout_and_shared_flags_are_the_same(name: str, command: Any) -> None:
    assert isinstance(command, Command | CommandGroup | LazyGroup), name
    flags = {option: parameter for parameter in command.params for option in parameter.opts}
    own = {"operator", "audit agent", "audit controller", "load-watcher serve", "scorer serve", "demand controller"}
    processes = own | {"throttler agent", "throttler controller"}
    if "--kubeconfig" in flags and name not in processes and name != "scorer scheduler-config":
        assert {"--context", "--user", "--token", "--as", "--request-timeout", "-v"} <= flags.keys(), name
        assert getattr(flags["--kubeconfig"], "rich_help_panel", "") == CONNECTION
    if "--namespace" in flags and name not in processes:
        assert flags["--namespace"].metavar == "NAME", name


@run_for_each("words", [[], ["demand"], ["throttler"], ["scorer"], ["load-watcher"], ["monitoring"]])
def test_a_bare_command_prints_its_help_and_succeeds(run: Run, words: list[str]) -> None:
    found = run(*words)
    assert found.code == 0, found.stderr
    assert found.stdout.startswith("Usage: ")
    assert found.stdout.split() == run(*words, "--help").stdout.split()


@run_for_each("words", [["status"], ["demand", "top"], ["audit"]])
def test_help_of_a_command_is_its_help(run: Run, words: list[str]) -> None:
    found = run("help", *words)
    assert found.code == 0, found.stderr
    assert found.stdout == run(*words, "--help").stdout
    refused = run("help", *words, "nothing")
    assert (refused.code, refused.stdout) == (2, "")
    assert f"{' '.join(words)} nothing: no such command" in refused.stderr


def test_names_of_what_was_planned(run: Run, cluster: Path) -> None:
    assert run("plan", "--snapshot", cluster, "-o", "name").stdout == "slackpolicy.resource-slack.io/default\n"
    shown = json.loads(run("plan", "--snapshot", cluster, "-o", "jsonpath={.items[0].cost}").stdout)
    assert shown["node_hours_per_hour"] >= 0


@run_for_each(
    ("words", "said"),
    [
        (["statsu"], "error: no such command 'statsu'. Did you mean 'status'?\n  See 'resource-slack --help'.\n"),
        (["--nonsense"], "error: no such option: --nonsense\n  See 'resource-slack --help'.\n"),
        (["status", "--nonsense"], "error: no such option: --nonsense\n  See 'resource-slack status --help'.\n"),
        (
            ["throttler", "stats"],
            "error: no such command 'stats'. Did you mean 'status'?\n  See 'resource-slack throttler",
        ),
    ],
)
def test_wrong_words_are_told_as_every_other_error_is(run: Run, words: list[str], said: str) -> None:
    found = run(*words)
    assert (found.code, found.stdout) == (2, "")
    assert found.stderr.startswith(said)
