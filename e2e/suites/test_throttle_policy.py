"""The API server and the command line refuse the same ThrottlePolicies, in the same words."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness.cluster.backend import Backend
from e2e.harness.product.operator import install
from slack.cluster.labels import API_VERSION
from slack.kube.connection import Connection
from slack.kube.errors import ApiError
from slack.kube.kubeconfig import connect
from slack.kube.paths import resource_path
from slack.throttler.config import KIND, RATES_CROSSED, SPELT_TWICE, InvalidThrottlePolicy, parse_throttle_policy
from slack.throttler.crd import PLURAL
from slack.throttler.fields import NOT_A_NUMBER, NOT_A_SHARE, NOT_PER_CORE, out_of_bounds

Spec = dict[str, Any]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "throttlepolicy.yaml"
OFF = ("maxStartingContainersPerCore", "maxLoadAverageMultiplier", "maxCPU", "maxIOPressure", "minRate", "maxRate")
GOOD: tuple[Spec, ...] = (
    {},
    dict.fromkeys(OFF),
    {"minRate": None, "maxRate": "0.01"},
    {"maxRate": "0.05"},
    {"minRate": "20"},
    {"maxStartingContainersPerCore": "1/3"},
    {"minRate": "0.1", "maxRate": "0.1"},
    {"maxLoadAverageMulitplier": "1.5"},
    {"maxLoadAverageMulitplier": None, "maxLoadAverageMultiplier": "2"},
    {"maxCPU": "100%", "maxCPUPressure": "0.5%", "maxShare": 1},
    {
        "maxShare": 0.25,
        "gateRestarts": False,
        "byPriority": True,
        "noProbeHold": "0s",
        "failOpenAfter": "1h",
        "averageOver": "1m30s",
    },
    {"startTimeout": {}, "nodeSelector": {"pool": "web", "a.b/c": ""}},
    {"startTimeout": {"after": "24h", "then": "Delete"}},
)
BAD: tuple[tuple[Spec, str, str], ...] = (
    ({"minRate": "10", "maxRate": "0.1"}, "spec", RATES_CROSSED),
    ({"maxLoadAverageMulitplier": "1", "maxLoadAverageMultiplier": "2"}, "spec", SPELT_TWICE),
    ({"maxCPU": "180%"}, "spec.maxCPU", NOT_A_SHARE),
    ({"maxCPU": "0%"}, "spec.maxCPU", NOT_A_SHARE),
    ({"maxCPUPressure": "-1%"}, "spec.maxCPUPressure", NOT_A_SHARE),
    ({"maxIOPressure": "0.4"}, "spec.maxIOPressure", NOT_A_SHARE),
    ({"minRate": "0"}, "spec.minRate", NOT_A_NUMBER),
    ({"minRate": "0.0"}, "spec.minRate", NOT_A_NUMBER),
    ({"maxRate": "-1"}, "spec.maxRate", NOT_A_NUMBER),
    ({"maxRate": "1e3"}, "spec.maxRate", NOT_A_NUMBER),
    ({"maxStartingContainersPerCore": ""}, "spec.maxStartingContainersPerCore", NOT_PER_CORE),
    ({"maxStartingContainersPerCore": "0/3"}, "spec.maxStartingContainersPerCore", NOT_PER_CORE),
    ({"maxStartingContainersPerCore": "1/0"}, "spec.maxStartingContainersPerCore", NOT_PER_CORE),
    ({"maxStartingContainersPerCore": "1/3.5"}, "spec.maxStartingContainersPerCore", NOT_PER_CORE),
    ({"averageOver": "1h"}, "spec", out_of_bounds("averageOver")),
    ({"noProbeHold": "11m"}, "spec", out_of_bounds("noProbeHold")),
    ({"failOpenAfter": "4s"}, "spec", out_of_bounds("failOpenAfter")),
    ({"startTimeout": {"after": "0s"}}, "spec.startTimeout", out_of_bounds("after")),
    ({"startTimeout": {"then": "Kill"}}, "spec.startTimeout.then", ""),
    ({"maxShare": 0}, "spec.maxShare", "should be greater than 0"),
    ({"maxShare": 1.5}, "spec.maxShare", "should be less than or equal to 1"),
    ({"maxShare": "50%"}, "spec.maxShare", ""),
    ({"maxRate": 10}, "spec.maxRate", ""),
    ({"gateRestarts": "yes"}, "spec.gateRestarts", ""),
    ({"byPriority": "high"}, "spec.byPriority", ""),
    ({"maxCpu": "80%"}, "spec.maxCpu", "unknown field"),
    ({"startTimeout": {"colour": "red"}}, "spec.startTimeout.colour", "unknown field"),
    ({"nodeSelector": {"bad key": "x"}}, "spec.nodeSelector", ""),
)


@pytest.fixture
def connection(cluster: Backend) -> Iterator[Connection]:
    install(cluster)
    found = connect(cluster.kubeconfig, None)
    yield found
    found.close()


def document(spec: Spec) -> Spec:
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "web"}, "spec": spec}


def server_says(connection: Connection, manifest: Spec) -> str:
    """What the API server has against a policy, as kubectl would send it; nothing is stored."""
    path = resource_path(API_VERSION, PLURAL)
    try:
        connection.request("POST", path, query={"dryRun": "All", "fieldValidation": "Strict"}, body=manifest)
    except ApiError as error:
        return error.message
    return ""


def command_says(manifest: Spec) -> str:
    try:
        parse_throttle_policy(manifest, source="file")
    except InvalidThrottlePolicy as error:
        return str(error)
    return ""


def test_both_take_what_is_good(connection: Connection) -> None:
    for manifest in [*map(document, GOOD), *yaml.safe_load_all(EXAMPLE.read_text())]:
        assert server_says(connection, manifest) == "", manifest
        assert command_says(manifest) == "", manifest


def test_both_refuse_what_is_bad_with_the_field_and_in_the_same_words(connection: Connection) -> None:
    for spec, field, words in BAD:
        for said in (server_says(connection, document(spec)), command_says(document(spec))):
            assert field in said, spec
            assert words in said, spec


def test_null_is_kept_for_it_turns_a_limit_off(connection: Connection) -> None:
    path = resource_path(API_VERSION, PLURAL)
    kept = connection.request("POST", path, query={"dryRun": "All"}, body=document({"maxCPU": None, "maxRate": None}))
    assert b'"maxCPU":null' in kept.replace(b" ", b"")
