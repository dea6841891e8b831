"""`resource-slack uninstall`, which `helm uninstall` runs first: what it takes, what it leaves, when it refuses."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from slack.cli.terminal.problems import UserError
from slack.cli.uninstall import uninstall
from tests.kube.fake_api import FakeApi

HERE = "/namespaces/resource-slack"
SET = f"/apis/apps/v1{HERE}/replicasets/slack-web-1"
STRAY = f"/api/v1{HERE}/pods/stray"
CLASS = "/apis/scheduling.k8s.io/v1/priorityclasses/resource-slack"
LEASE = f"/apis/coordination.k8s.io/v1{HERE}/leases/resource-slack"
DEPLOYMENT = f"/apis/apps/v1{HERE}/deployments/resource-slack"
PLACEHOLDER = {"app.kubernetes.io/managed-by": "resource-slack", "resource-slack.io/placeholder": "true"}
Run = Callable[..., str]


def lease(api: FakeApi, holder: str | None, age_seconds: float = 0.0, duration_seconds: int = 15) -> None:
    renewed = (datetime.now(UTC) - timedelta(seconds=age_seconds)).isoformat()
    api.put(LEASE, spec={"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": duration_seconds})


@contextmanager
def renewed(api: FakeApi, holder: str, age_seconds: float = 0.0) -> Iterator[None]:
    """Let somebody hold the lease and renew it, by a clock that is so many seconds late."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(0.2):
            lease(api, holder, age_seconds)

    lease(api, holder, age_seconds)
    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as fake:
        fake.put(SET, metadata={"labels": PLACEHOLDER})
        fake.put(STRAY, metadata={"labels": PLACEHOLDER})
        fake.put(CLASS, metadata={"labels": {"app.kubernetes.io/managed-by": "resource-slack"}})
        fake.put(DEPLOYMENT, spec={"replicas": 2})
        yield fake


@pytest.fixture
def run(api: FakeApi, tmp_path: Path) -> Run:
    """Run the command, with nothing to wait for."""
    kubeconfig = tmp_path / "kubeconfig"
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{api.port}"}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [context],
                "current-context": "c",
            }
        )
    )

    def execute(*, yes: bool = False, stop: str | None = None) -> str:
        app = typer.Typer()
        app.command()(uninstall)
        flags = [f"--kubeconfig={kubeconfig}", "--wait-seconds=0"]
        flags += ["--yes"] if yes else []
        flags += [f"--stop-deployment={stop}"] if stop else []
        result = CliRunner().invoke(app, flags, catch_exceptions=True)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.output

    return execute


def left(api: FakeApi) -> set[str]:
    return {name for _, _, _, name in api.objects}


def test_without_yes_it_only_says_what_it_would_delete(api: FakeApi, run: Run) -> None:
    said = run(stop="resource-slack")
    assert "deployment resource-slack/resource-slack would be scaled to zero" in said
    assert "replicaset resource-slack/slack-web-1 would be deleted" in said
    assert "priorityclass resource-slack would be deleted" in said
    assert "nothing was deleted; add --yes" in said
    assert all(seen.verb in {"get", "list", "version"} for seen in api.seen)


def test_it_stops_the_operator_and_deletes_what_it_made(api: FakeApi, run: Run) -> None:
    lease(api, None)
    api.put(f"/apis/apps/v1{HERE.replace('resource-slack', 'shop')}/replicasets/elsewhere")
    run(yes=True, stop="resource-slack")
    assert left(api) == {"resource-slack", "elsewhere"}  # the Deployment, which is the chart's, and another namespace's
    assert api.objects["apps/v1", "deployments", "resource-slack", "resource-slack"]["spec"]["replicas"] == 0


@pytest.mark.parametrize("late_seconds", [0.0, 3600.0, -3600.0])
def test_while_somebody_renews_the_lease_nothing_is_deleted_whatever_his_clock_says(
    api: FakeApi, run: Run, late_seconds: float
) -> None:
    with renewed(api, "operator-1", late_seconds):
        with pytest.raises(UserError, match="operator-1 holds the lease resource-slack/resource-slack"):
            run(yes=True)
        assert {"slack-web-1", "stray"} <= left(api)


@pytest.mark.parametrize("late_seconds", [60.0, -3600.0])
def test_a_lease_that_nobody_renews_holds_nobody_up(api: FakeApi, run: Run, late_seconds: float) -> None:
    lease(api, "operator-1", late_seconds, duration_seconds=1)
    assert "lease resource-slack/resource-slack deleted" in run(yes=True)


def test_what_another_release_keeps_in_the_namespace_stays(api: FakeApi, run: Run) -> None:
    with renewed(api, "other-resource-slack-5d8f7c9b4-x2x7k_1a2b3c4d"):
        said = run(yes=True, stop="resource-slack")
    assert "another installation leads in namespace resource-slack (other-resource-slack-5d8f7c9b4-x2x7k" in said
    assert {"slack-web-1", "stray"} <= left(api)
    assert api.objects["apps/v1", "deployments", "resource-slack", "resource-slack"]["spec"]["replicas"] == 0


APPLIED = {"resource-slack.io/applied": "0123456789abcdef"}
OWNED = {"apiVersion": "resource-slack.io/v1alpha1", "kind": "SlackPolicy", "name": "web", "uid": "u"}
CLASSED = {"template": {"spec": {"priorityClassName": "resource-slack"}}}


@pytest.mark.parametrize(
    "trace",
    [{"metadata": {"annotations": APPLIED}}, {"metadata": {"ownerReferences": [OWNED]}}, {"spec": CLASSED}],
)
def test_a_replica_set_that_lost_its_labels_is_found(api: FakeApi, run: Run, trace: dict[str, Any]) -> None:
    api.put(f"/apis/apps/v1{HERE}/replicasets/slack-web-1a2b3c4d", **{"metadata": {}, **trace})
    api.put(f"/apis/apps/v1{HERE}/replicasets/slack-bot-77777777", metadata={"labels": {"app": "slack-bot"}})
    assert "replicaset resource-slack/slack-web-1a2b3c4d deleted" in run(yes=True)
    assert "slack-web-1a2b3c4d" not in left(api)
    assert "slack-bot-77777777" in left(api), "of somebody else's objects the name is not enough"


@pytest.mark.parametrize(("until", "gone"), [("2020-01-01T00:00:00+00:00", True), ("2999-01-01T00:00:00+00:00", False)])
def test_what_a_load_left_goes_and_one_that_runs_stays(api: FakeApi, run: Run, until: str, gone: bool) -> None:
    load = {
        "labels": {"app.kubernetes.io/managed-by": "resource-slack-load"},
        "annotations": {"resource-slack.io/load-until": until},
    }
    api.put("/apis/apps/v1/namespaces/shop/deployments/resource-slack-load", metadata=load)
    said = run(yes=True)
    assert ("deployment shop/resource-slack-load deleted" in said) == gone
    assert ("deployment shop/resource-slack-load is kept" in said) != gone
    assert ("resource-slack-load" not in left(api)) == gone


def test_a_priority_class_of_helms_is_left_to_helm(api: FakeApi, run: Run) -> None:
    api.put(CLASS, metadata={"labels": {"app.kubernetes.io/managed-by": "Helm"}})
    assert "priorityclass resource-slack deleted" not in run(yes=True)
    assert ("scheduling.k8s.io/v1", "priorityclasses", "", "resource-slack") in api.objects


def test_a_second_time_there_is_nothing_left_to_do(api: FakeApi, run: Run) -> None:
    api.remove(DEPLOYMENT)
    run(yes=True)
    said = run(yes=True, stop="resource-slack")
    assert "deployment resource-slack/resource-slack was gone already" in said
    assert "nothing of resource-slack is left in namespace resource-slack" in said
