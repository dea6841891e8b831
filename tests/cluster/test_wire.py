"""What is left of a pod when it has been decoded."""

import pytest

from slack.cluster import labels
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


def test_what_nobody_reads_is_not_built() -> None:
    metadata = as_pod(pod("a", labels={"team": "web"}, annotations={"prometheus.io/port": "9090"})).metadata
    assert (metadata.labels, metadata.annotations) == ({}, {})


def test_labels_that_are_null_or_absent_are_no_labels() -> None:
    metadata = as_pod(pod("a")).metadata
    assert (metadata.labels, metadata.label(labels.LABEL_POLICY)) == (None, "")
    assert metadata.annotation(labels.ANNOTATION_RESERVE) == ""
