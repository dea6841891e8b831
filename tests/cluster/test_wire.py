"""What is left of a pod when it has been decoded."""

import pytest

from slack.cluster import identity
from slack.planner import manifests
from tests.cluster.build import as_pod, pod

LABELS = (identity.PLACEHOLDER_LABEL, identity.POLICY_LABEL, identity.SHAPE_LABEL, identity.TEMPLATE_HASH)
ANNOTATIONS = (identity.DELETION_COST, identity.EXCLUDE, identity.RESERVE, "kubernetes.io/config.mirror")


@pytest.mark.parametrize(
    "key", sorted({*LABELS, manifests.LABEL_PLACEHOLDER, manifests.LABEL_POLICY, manifests.LABEL_SHAPE})
)
def test_every_label_of_a_pod_that_is_read_is_there(key: str) -> None:
    metadata = as_pod(pod("a", labels={"team": "web", key: "x"})).metadata
    assert metadata.label(key) == "x"


@pytest.mark.parametrize("key", sorted({*ANNOTATIONS, manifests.DELETION_COST}))
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
    assert (metadata.labels, metadata.label(identity.POLICY_LABEL)) == (None, "")
    assert metadata.annotation(identity.RESERVE) == ""
