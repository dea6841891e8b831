"""The images of workloads follow their pod templates."""

import msgspec

from slack.cluster import wire
from slack.kube.watch import EventType
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.placeholders.view.sinks import PodSink, WorkloadSink
from slack_operator.placeholders.view.template_images import MAX_WORKLOADS, TemplateImages
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


def pod(kind: str, owner: str, image: str) -> wire.Pod:
    owners = [{"kind": kind, "name": owner, "uid": owner, "controller": True}] if owner else []
    document = {
        "metadata": {"name": f"{owner}-1", "namespace": "shop", "uid": f"{owner}-1", "ownerReferences": owners},
        "spec": {"containers": [{"name": "c", "image": image, "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Pending"},
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=wire.Pod)


def test_a_workload_without_a_template_has_the_images_of_its_newest_pod() -> None:
    view = ClusterView(NAMESPACE, lambda: None, clock=Clock(), wall=Clock())
    sink: WorkloadSink[wire.Deployment] = WorkloadSink(view, "StatefulSet")
    sink.begin()
    sink.apply([(EventType.ADDED, deployment("db", "db:1"))])
    sink.end()
    pods = PodSink(view)
    pods.begin()
    pods.apply([(EventType.ADDED, pod("RayCluster", "early", "ray:0"))])
    assert view.images_by_workload() == {"shop/sts/db": ("db:1",)}, "nobody had asked before"
    pods.apply(
        [(EventType.ADDED, pod("RayCluster", "ray", "ray:1")), (EventType.ADDED, pod("StatefulSet", "db", "x:1"))]
    )
    pods.apply([(EventType.ADDED, pod("RayCluster", "ray", "ray:2")), (EventType.ADDED, pod("", "", "alone:1"))])
    pods.end()
    assert view.images_by_workload() == {"shop/raycluster/ray": ("ray:2",), "shop/sts/db": ("db:1",)}


def test_what_is_known_by_pods_alone_is_bounded() -> None:
    images = TemplateImages()
    for number in range(MAX_WORKLOADS + 10):
        images.see_pod(pod("Notebook", f"n{number}", "i:1"))
    found = images.by_workload()
    assert (len(found), "shop/notebook/n9" in found, "shop/notebook/n10" in found) == (MAX_WORKLOADS, False, True)
