"""What is left of a pod when it has been decoded."""

import sys

import msgspec
import pytest

from slack.cluster import labels, wire
from tests.cluster.build import as_pod, pod

LABELS = (labels.LABEL_PLACEHOLDER, labels.LABEL_POLICY, labels.LABEL_SHAPE, labels.LABEL_TEMPLATE_HASH)
ANNOTATIONS = (
    labels.ANNOTATION_DELETION_COST,
    labels.ANNOTATION_EXCLUDE,
    labels.ANNOTATION_RESERVE,
    labels.ANNOTATION_STATIC_POD,
)


@pytest.mark.parametrize("key", LABELS)
def test_every_label_of_a_pod_that_is_read_is_there(key: str) -> None:
    metadata = as_pod(pod("a", labels={"team": "web", key: "x"})).metadata
    assert metadata.label(key) == "x"


@pytest.mark.parametrize("key", ANNOTATIONS)
def test_every_annotation_of_a_pod_that_is_read_is_there(key: str) -> None:
    metadata = as_pod(pod("a", annotations={"prometheus.io/port": "9090", key: "x"})).metadata
    assert metadata.annotation(key) == "x"
    assert metadata.annotations is not None
    assert key in metadata.annotations


def test_annotations_that_nobody_reads_are_not_built() -> None:
    metadata = as_pod(pod("a", labels={"team": "web"}, annotations={"prometheus.io/port": "9090"})).metadata
    assert (metadata.labels, metadata.annotations) == ({"team": "web"}, {})


def test_labels_that_are_null_or_absent_are_no_labels() -> None:
    metadata = as_pod(pod("a")).metadata
    assert (metadata.labels, metadata.label(labels.LABEL_POLICY)) == (None, "")
    assert metadata.annotation(labels.ANNOTATION_RESERVE) == ""


def _full() -> object:
    container = {"name": "a", "resources": {"requests": {"cpu": "1"}}, "ports": [{"hostPort": 1}]}
    own = {"name": "a", "allocatedResources": {"cpu": "1"}, "resources": {}}
    return {
        "metadata": {"name": "a", "ownerReferences": [{"kind": "Job"}], "managedFields": [{"manager": "kubelet"}]},
        "spec": {
            "containers": [container, container],
            "initContainers": [container],
            "affinity": {"nodeAffinity": {}},
            "tolerations": [{"key": "a"}],
            "schedulingGroup": {"podGroupName": "a"},
        },
        "status": {"conditions": [{"type": "Ready"}], "containerStatuses": [own], "initContainerStatuses": [own]},
    }


def test_a_pod_that_is_kept_holds_nothing_of_the_message_that_it_came_in() -> None:
    message = msgspec.json.encode(_full())
    before = sys.getrefcount(message)
    kept = msgspec.json.decode(message, type=wire.Pod)
    assert sys.getrefcount(message) > before
    kept.detach()
    assert sys.getrefcount(message) == before
    assert kept == msgspec.json.decode(message, type=wire.Pod)


def test_a_replica_set_of_ours_that_is_kept_holds_nothing_of_its_message_either() -> None:
    managed = [{"manager": "a", "fieldsV1": {"f:spec": {}}}]
    document = {"metadata": {"name": "a", "managedFields": managed}, "spec": {"replicas": 1}}
    message = msgspec.json.encode(document)
    before = sys.getrefcount(message)
    kept = msgspec.json.decode(message, type=wire.OwnReplicaSet).detach()
    assert sys.getrefcount(message) == before
    assert kept == msgspec.json.decode(message, type=wire.OwnReplicaSet)
