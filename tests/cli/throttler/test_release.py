"""`throttler release`: who would start, who does, and what a server that refuses or falls silent leaves."""

import json
from pathlib import Path

import pytest

from slack.cli.throttler import release
from tests.cli.conftest import Run
from tests.cli.test_documents import as_declared, golden
from tests.cli.test_uninstall import config
from tests.kube.fake_api import FakeApi, Reply

POD = "/api/v1/namespaces/shop/pods/"


def put(api: FakeApi, name: str, *, gated: bool = True) -> None:
    """Have a pod there that waits for a key of a ConfigMap, or for nothing."""
    variables = [{"name": "RESOURCE_SLACK_START_PERMIT"}] if gated else []
    annotations = {"throttler.resource-slack.io/permits": f"permits-{name}"} if gated else {}
    api.put(
        POD + name,
        metadata={"annotations": annotations},
        spec={"nodeName": "node-1", "containers": [{"name": "main", "env": variables}]},
    )


def test_without_yes_it_only_says_who_would_start(run: Run, tmp_path: Path) -> None:
    with FakeApi() as api:
        put(api, "api-0")
        put(api, "free", gated=False)
        found = run("throttler", "release", "-A", "--kubeconfig", config(api, tmp_path))
        shown = run("throttler", "release", "-A", "-o", "json", "--kubeconfig", config(api, tmp_path))
        assert (api.count("post"), api.count("patch")) == (0, 0)
    assert (found.code, found.stdout) == (0, "pod shop/api-0 would start: main\n")
    assert "add --yes to do it" in found.stderr
    document = json.loads(shown.stdout)
    as_declared("throttler-release", document)
    golden("throttler-release", document)


def test_with_yes_the_keys_are_written(run: Run, tmp_path: Path) -> None:
    with FakeApi() as api:
        put(api, "api-0")
        api.script("patch", Reply.status(200, "Success"))
        found = run("throttler", "release", "--yes", "-n", "shop", "--kubeconfig", config(api, tmp_path))
        made = json.loads(api.last("post").body)
    assert (found.code, found.stdout) == (0, "pod shop/api-0 may start: main\n"), found.stderr
    assert made["data"] == {"main": "true"}


def test_nobody_waits(run: Run, tmp_path: Path) -> None:
    with FakeApi() as api:
        put(api, "free", gated=False)
        found = run("throttler", "release", "--yes", "-A", "--kubeconfig", config(api, tmp_path))
    assert (found.code, found.stdout) == (0, "")
    assert "no pod waits" in found.stderr


def test_one_refusal_does_not_keep_others_waiting(run: Run, tmp_path: Path) -> None:
    with FakeApi() as api:
        put(api, "api-0")
        put(api, "api-1")
        api.script("post", Reply.status(403, "Forbidden"))
        api.script("patch", Reply.status(200, "Success"))
        found = run("throttler", "release", "--yes", "-A", "-o", "json", "--kubeconfig", config(api, tmp_path))
    assert found.code == 2
    outcomes = [(item["pod"], item["outcome"]) for item in json.loads(found.stdout)["items"]]
    assert outcomes == [("api-0", "Left"), ("api-1", "MayStart")]


def test_a_server_that_falls_ill_is_not_asked_for_each_pod(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "_RETRY_SECONDS", 0.3)
    with FakeApi() as api:
        put(api, "api-0")
        api.script("post", *[Reply.status(500)] * 99)
        found = run("throttler", "release", "--yes", "-A", "--kubeconfig", config(api, tmp_path))
    assert found.code == 2
    assert found.stdout.startswith("pod shop/api-0 cannot be let in: main: ")
    assert "Traceback" not in found.stderr
