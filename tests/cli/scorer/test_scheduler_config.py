"""`scorer scheduler-config`: the document it prints for one replica and for several, with a ceiling and without."""

from typing import Any

import pytest
import yaml

from tests.cli.conftest import Run


def printed(run: Run, *args: str) -> Any:
    found = run("scorer", "scheduler-config", *args)
    assert found.code == 0, found.stderr
    return yaml.safe_load(found.stdout)


def test_one_replica_elects_no_leader_and_several_share_a_lease_of_their_own_name(run: Run) -> None:
    assert printed(run)["leaderElection"] == {"leaderElect": False}
    several = printed(run, "--replicas", "3", "--scheduler-name", "by-load", "--lease-namespace", "schedulers")
    lease = {"leaderElect": True, "resourceName": "by-load", "resourceNamespace": "schedulers"}
    assert several["leaderElection"] == lease


def test_requests_to_the_api_server_are_bounded_as_asked_for(run: Run) -> None:
    assert printed(run)["clientConnection"] == {"qps": 50, "burst": 100}
    asked = printed(run, "--client-qps", "200", "--client-burst", "400", "--scheduler-kubeconfig", "k")
    assert asked["clientConnection"] == {"qps": 200, "burst": 400, "kubeconfig": "k"}


@pytest.mark.parametrize("verb", ["filterVerb", "preemptVerb"])
def test_a_ceiling_needs_both_verbs(run: Run, verb: str) -> None:
    assert printed(run, "--filter")["extenders"][0][verb] == verb.removesuffix("Verb")
    assert verb not in printed(run)["extenders"][0]
