"""The view of the cluster: what cannot be read is logged once for as long as it exists."""

import logging

import msgspec
import pytest

from slack.cluster.wire import Pod
from slack.kube.watch import EventType
from slack.scorer.inputs.cluster_state import ClusterState
from slack.scorer.inputs.objects import NodeObject
from slack.scorer.inputs.prediction import demand_of
from slack.scorer.rules import Prediction
from slack_operator.scorer.cluster_view import BoundPodSink, ScorerNodeSink, ScorerView


def unreadable(name: str) -> Pod:
    container = {"name": "c", "resources": {"requests": {"cpu": "much"}}}
    document = {"metadata": {"name": name, "namespace": "shop"}, "spec": {"nodeName": "a", "containers": [container]}}
    return msgspec.json.decode(msgspec.json.encode(document), type=Pod)


def test_what_cannot_be_read_is_logged_once_and_forgotten_when_it_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    view = ScorerView(
        lambda leave_out: ClusterState(lambda pod: demand_of(pod.spec, Prediction()), "slack", 600.0, leave_out)
    )
    pods = BoundPodSink(view, lambda: None, lambda *_: None)
    nodes = ScorerNodeSink(view, lambda: None)
    wrong = msgspec.convert({"metadata": {"name": "a"}, "status": {"capacity": {"cpu": "much"}}}, NodeObject)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            pods.apply([(EventType.ADDED, unreadable("p"))])
            nodes.apply([(EventType.ADDED, wrong)])
    logged = sorted(record.getMessage().partition(" is left out")[0] for record in caplog.records)
    assert logged == ["node a", "pod shop/p"]
    pods.apply([(EventType.DELETED, unreadable("p"))])
    nodes.apply([(EventType.DELETED, wrong)])
    assert not view._reported
    for number in range(1_000):
        pods.apply([(EventType.ADDED, unreadable(f"p{number}"))])
    pods.begin()
    assert not view._reported, "the list names those that are there"
