"""The images of workloads follow their pod templates."""

import msgspec

from slack.cluster import wire
from slack.kube.watch import EventType
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.placeholders.view.sinks import WorkloadSink
from tests.operator.fakes import NAMESPACE, Clock


def deployment(name: str, *images: str) -> wire.Deployment:
    spec = {"template": {"spec": {"containers": [{"name": "c", "image": image} for image in images]}}}
    document = {"metadata": {"name": name, "namespace": "shop", "uid": name}, "spec": spec}
    return msgspec.json.decode(msgspec.json.encode(document), type=wire.Deployment)


def test_a_rollout_shows_the_new_image_before_its_first_pod() -> None:
    view = ClusterView(NAMESPACE, lambda: None, clock=Clock(), wall=Clock())
    sink: WorkloadSink[wire.Deployment] = WorkloadSink(view, "Deployment")
    sink.begin()
    sink.apply([(EventType.ADDED, deployment("api", "api:1", "sidecar:1", "api:1"))])
    sink.apply([(EventType.ADDED, deployment("web", "web:1"))])
    sink.end()
    found = {"shop/deploy/api": ("api:1", "sidecar:1"), "shop/deploy/web": ("web:1",)}
    assert view.images_by_workload() == found
    sink.apply([(EventType.MODIFIED, deployment("api", "api:2"))])
    sink.apply([(EventType.DELETED, deployment("web", "web:1"))])
    assert view.images_by_workload() == {"shop/deploy/api": ("api:2",)}
    sink.begin()
    sink.end()
    assert view.images_by_workload() == {}
