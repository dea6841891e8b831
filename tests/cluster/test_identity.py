"""A pod's workload is what its user has made, under one name over revisions and runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster.identity import deletion_cost, workload_of
from slack.cluster.labels import ANNOTATION_DELETION_COST
from slack.cluster.wire import NAMING_LABELS, Metadata, OwnerReference
from tests.cases import run_for_each

NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
HASHES = st.from_regex(r"[bcdfghjklmnpqrstvwxz2456789]{5,10}", fullmatch=True)


def _pod(kind: str, owner: str, labels: dict[str, str]) -> Metadata:
    owners = [OwnerReference(kind=kind, name=owner, controller=True)]
    return Metadata(name=f"{owner}-x", namespace="shop", labels=labels, owner_references=owners)


@run_for_each(
    ("kind", "owner", "labels", "expected"),
    [
        ("ReplicaSet", "api-6b8d9f7c5", {"pod-template-hash": "6b8d9f7c5"}, "deploy/api"),
        ("ReplicaSet", "api-6b8d9f7c5", {"rollouts-pod-template-hash": "6b8d9f7c5"}, "rollout/api"),
        ("ReplicaSet", "api-6b8d9f7c5", {}, "rs/api-6b8d9f7c5"),
        (
            "ReplicaSet",
            "hello-00007-deployment-7d9f",
            {"pod-template-hash": "7d9f", "serving.knative.dev/service": "hello"},
            "ksvc/hello",
        ),
        ("CloneSet", "web", {"pod-template-hash": "abc"}, "cloneset/web"),
        ("Job", "train-workers-0", {"jobset.sigs.k8s.io/jobset-name": "train"}, "jobset/train"),
        ("StatefulSet", "llm-0", {"leaderworkerset.sigs.k8s.io/name": "llm"}, "lws/llm"),
        ("SparkApplication", "etl", {"sparkoperator.k8s.io/app-name": "etl"}, "sparkapplication/etl"),
        ("Pod", "etl-driver", {"sparkoperator.k8s.io/app-name": "etl"}, "sparkapplication/etl"),
        (
            "Pod",
            "nightly-17-driver",
            {
                "sparkoperator.k8s.io/app-name": "nightly-17",
                "sparkoperator.k8s.io/scheduled-app-name": "nightly",
            },
            "scheduledsparkapplication/nightly",
        ),
        ("RayCluster", "chat-raycluster-x7k2p", {}, "raycluster/chat"),
        ("RayCluster", "chat-x7k2p", {"ray.io/originated-from-cr-name": "chat"}, "raycluster/chat"),
        ("RayCluster", "chat-x7k2p", {"ray.io/serve": "false"}, "raycluster/chat"),
        ("RayCluster", "chat-raycluster-x7k2p", {"ray.io/serve": "true"}, "raycluster/chat"),
        ("RayCluster", "chat-x7k2p", {}, "raycluster/chat-x7k2p"),
        ("RayCluster", "chat-raycluster-train", {}, "raycluster/chat-raycluster-train"),
        ("RayCluster", "notebook", {}, "raycluster/notebook"),
        ("ReplicationController", "api-7", {"deploymentconfig": "api", "deployment": "api-7"}, "dc/api"),
        ("ReplicationController", "old", {}, "replicationcontroller/old"),
        (
            "EphemeralRunner",
            "ci-x7k2p-runner-9",
            {"actions.github.com/scale-set-name": "ci"},
            "autoscalingrunnerset/ci",
        ),
        ("TaskRun", "run-8-build", {"tekton.dev/task": "build", "tekton.dev/pipeline": "ship"}, "pipeline/ship"),
        ("TaskRun", "run-9", {"tekton.dev/task": "build"}, "task/build"),
        ("Job", "nightly-29111040", {}, "cronjob/nightly"),
        ("PyTorchJob", "bert", {}, "pytorchjob/bert"),
    ],
)
def test_what_a_user_has_made_names_the_pod(kind: str, owner: str, labels: dict[str, str], expected: str) -> None:
    namespace, short, name = workload_of(_pod(kind, owner, labels))
    assert (namespace, f"{short}/{name}") == ("shop", expected)


@given(NAMES, HASHES, HASHES, st.sampled_from(["pod-template-hash", "rollouts-pod-template-hash"]))
def test_a_revision_never_changes_the_name(name: str, one: str, other: str, label: str) -> None:
    found = {workload_of(_pod("ReplicaSet", f"{name}-{hashed}", {label: hashed})) for hashed in (one, other)}
    assert {workload[2] for workload in found} == {name}
    assert len(found) == 1


@given(NAMES, st.dictionaries(st.sampled_from(NAMING_LABELS), NAMES), NAMES)
def test_a_label_without_its_controller_names_nothing(owner: str, labels: dict[str, str], kind: str) -> None:
    assert workload_of(_pod(kind.title() + "X", owner, labels)) == ("shop", (kind.title() + "X").lower(), owner)


@pytest.mark.parametrize(
    ("text", "cost"),
    [("5", 5), ("-2147483648", -(1 << 31)), ("2147483648", 0), ("9" * 30, 0), ("9" * 5000, 0), ("", 0), ("much", 0)],
)
def test_a_deletion_cost_is_an_int32_or_none(text: str, cost: int) -> None:
    assert deletion_cost(Metadata(name="p", annotations={ANNOTATION_DELETION_COST: text})) == cost
