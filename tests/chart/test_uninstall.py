"""`resource-slack uninstall`, which `helm uninstall` runs first: what it takes, what it leaves, when it refuses."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

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
Run = Callable[..., str]


def lease(api: FakeApi, holder: str | None, age_seconds: float = 0.0) -> None:
    renewed = (datetime.now(UTC) - timedelta(seconds=age_seconds)).isoformat()
    api.put(LEASE, spec={"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15})


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as fake:
        fake.put(SET)
        fake.put(STRAY)
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


def test_while_somebody_holds_the_lease_nothing_is_deleted(api: FakeApi, run: Run) -> None:
    lease(api, "operator-1")
    with pytest.raises(UserError, match="operator-1 holds the lease resource-slack/resource-slack"):
        run(yes=True)
    assert {"slack-web-1", "stray"} <= left(api)


def test_a_lease_that_ran_out_holds_nobody_up(api: FakeApi, run: Run) -> None:
    lease(api, "operator-1", age_seconds=60)
    assert "lease resource-slack/resource-slack deleted" in run(yes=True)


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
