"""Objects that controllers of other projects make: their annotations speak for the workload that their pods have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster.identity import workload_of, workload_of_owner
from slack.cluster.wire import Metadata, OwnerReference
from tests.cluster.build import Json, node, pod, workload
from tests.cluster.test_columns import names
from tests.cluster.test_identity import HASHES, NAMES
from tests.cluster.test_load import listed, read

HASH = "rollouts-pod-template-hash"


def made(maker: str, name: str, revision: str) -> tuple[str, str, str, dict[str, str]]:
    """Return kind, name, owner's kind and pods' labels of what a controller makes for `name`."""
    match maker:
        case "rollout":
            return "ReplicaSet", f"{name}-{revision}", "Rollout", {HASH: revision}
        case "ksvc":
            return "Deployment", f"{name}-00001-deployment", "Revision", {"serving.knative.dev/service": name}
        case "jobset":
            return "Job", f"{name}-workers-0", "JobSet", {"jobset.sigs.k8s.io/jobset-name": name}
        case _:
            return "StatefulSet", f"{name}-0", "LeaderWorkerSet", {"leaderworkerset.sigs.k8s.io/name": name}


@given(st.sampled_from(["rollout", "ksvc", "jobset", "lws"]), NAMES, HASHES)
def test_an_object_is_called_as_its_pods_are(maker: str, name: str, revision: str) -> None:
    kind, own, above, labels = made(maker, name, revision)
    item = _controlled(own, labels, above, name)
    owned = (
        _controlled("x", {"pod-template-hash": revision, **labels}, "ReplicaSet", f"{own}-{revision}")
        if kind == "Deployment"
        else _controlled("x", labels, kind, own)
    )
    assert workload_of_owner(kind, item) == workload_of(owned) == ("shop", maker, name)


def _controlled(name: str, labels: dict[str, str], kind: str, owner: str) -> Metadata:
    owners = [OwnerReference(kind=kind, name=owner, controller=True)]
    return Metadata(name=name, namespace="shop", labels=labels, owner_references=owners)


@given(NAMES, st.sampled_from(["Deployment", "ReplicaSet", "StatefulSet"]))
def test_a_label_on_an_object_that_nobody_controls_names_nothing(name: str, kind: str) -> None:
    labels = {"serving.knative.dev/service": "other", "leaderworkerset.sigs.k8s.io/name": "other"}
    assert workload_of_owner(kind, Metadata(name=name, namespace="shop", labels=labels))[2] == name


def _revision(name: str, replicas: int, key: str = "reserve", value: str = "1") -> Json:
    """Return a ReplicaSet of the Rollout `api`, with the annotation that Argo copies down."""
    annotations = {f"resource-slack.io/{key}": value}
    return workload("ReplicaSet", name, replicas=replicas, annotations=annotations, owner=("Rollout", "api"))


@pytest.mark.parametrize("order", [1, -1])
def test_a_rollout_reserves_once_by_the_revision_that_has_the_pods(order: int) -> None:
    revisions = [_revision("api-old", 0), _revision("api-new", 4, value="2")][::order]
    pods = [pod(f"p{i}", owner=("ReplicaSet", "api-new"), labels={HASH: "new"}) for i in (0, 1)]
    snapshot = read(listed(node("n1"), *pods, *revisions))
    (reserved,) = snapshot.reserved
    assert (str(reserved.workload), reserved.reserve, reserved.replicas) == ("shop/rollout/api", "2", 4)
    assert names(snapshot) == ["shop/rollout/api"]


def test_an_excluded_rollout_leaves_its_pods_out() -> None:
    owned = pod("p", owner=("ReplicaSet", "api-new"), labels={HASH: "new"})
    revision = _revision("api-new", 1, "exclude", "true")
    assert read(listed(node("n1"), owned, revision)).kinds.excluded.tolist() == [True]
