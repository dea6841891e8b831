"""Images are pulled on nodes with placeholders: pods are made, watched and deleted, and nothing is left over."""

from collections import Counter
from typing import Any

import pytest

from slack.kube.apply import Json
from slack.kube.errors import ApiError
from slack.planner.policy.placeholders import Placeholders
from slack.planner.policy.spec import parse_policy
from slack.planner.warm.choice import WarmLimits
from slack.planner.warm.images import WantedImage
from slack_operator.warm.node_warming import NodeWarming, WarmPolicy
from slack_operator.warm.warm_api import NodeImages, WarmPod
from tests.operator.fakes import Clock

APP = "r.example.com/app:1"
GB = 10**9


class FakeCluster:
    """Nodes with images, and pods that stay as they are until a test moves them."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeImages] = {}
        self.there: dict[str, WarmPod] = {}
        self.made: list[Json] = []
        self.programs = 0
        self.refusal: ApiError | None = None

    def node(self, name: str) -> NodeImages | None:
        return self.nodes.get(name)

    def pods(self) -> list[WarmPod]:
        return list(self.there.values())

    def create(self, pod: Json) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.made.append(pod)
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        self.there[name] = WarmPod(name, f"uid-{name}", node, "Pending", "")

    def delete(self, pod: WarmPod) -> None:
        del self.there[pod.name]

    def write_program(self) -> None:
        self.programs += 1

    def end(self, phase: str, reason: str = "", message: str = "") -> None:
        self.there = {
            name: WarmPod(name, pod.uid, pod.node, phase, reason, message) for name, pod in self.there.items()
        }


class Warming:
    def __init__(self, *nodes: str, enabled: bool = True, **warm: Any) -> None:
        self.clock, self.cluster, self.leading = Clock(100.0), FakeCluster(), True
        self.pulls: list[tuple[str, str, int]] = []
        for name in nodes:
            self.has(name)
        self.warming = NodeWarming(
            self.cluster,
            dict,
            enabled=enabled,
            namespace="slack",
            user=65535,
            extras=Placeholders(),
            limits=WarmLimits(2, 100 * GB),
            may_write=lambda: self.leading,
            on_pull=lambda *pull: self.pulls.append(pull),
            clock=self.clock,
        )
        document = {
            "apiVersion": "resource-slack.io/v1alpha1",
            "kind": "SlackPolicy",
            "metadata": {"name": "web"},
            "spec": {"warm": warm},
        }
        policy = parse_policy(document, source="test")
        assert policy.spec.warm is not None
        wanted = [WantedImage(APP, "shop/deploy/api", 1.0)]
        self.wants = WarmPolicy(policy, policy.spec.warm, Counter(dict.fromkeys(nodes, 1)), wanted)
        self.warming._policies = [self.wants]

    def has(self, name: str, *images: str, pressure: bool = False, architecture: str = "amd64") -> None:
        found = [((image,), GB) for image in images]
        self.cluster.nodes[name] = NodeImages(f"uid-{name}", found, 100 * GB, pressure, architecture)

    @property
    def said(self) -> tuple[str, str] | None:
        """Reason and message of the condition."""
        found = self.warming.condition(self.wants.policy)
        return None if found is None else (found.reason, found.message)

    def turn(self, seconds: float = 5.0) -> None:
        self.clock.now += seconds
        self.warming.warm_due()


def test_an_image_is_pulled_and_its_pod_goes() -> None:
    w = Warming("n1", imagePullSecrets=[{"name": "corp"}])
    w.turn()
    (pod,) = w.cluster.made
    assert (pod["spec"]["nodeName"], pod["spec"]["containers"][0]["image"]) == ("n1", APP)
    assert pod["spec"]["imagePullSecrets"] == [{"name": "corp"}]
    w.turn()
    assert (len(w.cluster.made), w.cluster.programs) == (1, 1)
    w.cluster.end("Succeeded")
    w.has("n1", APP)
    w.turn()
    assert not w.cluster.there
    w.turn(600.0)
    assert len(w.cluster.made) == 1
    assert w.said is None
    assert w.pulls == [("web", "Pulled", 1 << 30)]


def test_few_nodes_pull_at_once() -> None:
    w = Warming("n1", "n2", "n3")
    w.turn()
    assert len(w.cluster.there) == 2
    w.cluster.end("Succeeded")
    w.turn()
    assert [pod["spec"]["nodeName"] for pod in w.cluster.made] == ["n1", "n2", "n3"]


def test_a_failing_registry_backs_off_and_is_told() -> None:
    w = Warming("n1")
    w.turn()
    w.cluster.end("Pending", "ErrImagePull", "connection refused")
    w.turn()
    assert not w.cluster.there
    assert w.said == ("ImagePullFailed", f"{APP} is not pulled on n1: ErrImagePull: connection refused")
    assert w.pulls == [("web", "ErrImagePull", 0)]
    w.turn()
    assert len(w.cluster.made) == 1
    w.turn(60.0)
    assert len(w.cluster.made) == 2


def test_nothing_is_pulled_under_disk_pressure_or_on_an_unknown_processor() -> None:
    w = Warming("n1", "n2")
    w.has("n1", pressure=True)
    w.has("n2", architecture="mips")
    w.turn()
    assert not w.cluster.made
    assert w.said == ("DiskShort", f"{APP} is not pulled on n1: the node has DiskPressure")


def test_pods_are_removed_when_no_policy_warms_and_left_alone_by_a_standby() -> None:
    w = Warming("n1")
    w.turn()
    w.leading = False
    w.turn()
    assert len(w.cluster.there) == 1
    w.leading = True
    w.warming._policies = []
    w.turn()
    assert not w.cluster.there


def test_a_restart_removes_what_it_does_not_know() -> None:
    w = Warming("n1")
    w.cluster.there["slack-warm-old"] = WarmPod("slack-warm-old", "u", "n9", "Pending", "")
    w.turn()
    assert "slack-warm-old" not in w.cluster.there


def test_where_it_is_switched_off_pods_of_before_go_and_a_policy_that_asks_is_told() -> None:
    w = Warming("n1", enabled=False)
    w.warming._policies = []
    w.cluster.there["slack-warm-old"] = WarmPod("slack-warm-old", "u", "n9", "Pending", "")
    w.turn()
    assert not w.cluster.there
    assert w.said is not None
    assert w.said[0] == "WarmNotEnabled"


def test_a_refused_pod_is_tried_later() -> None:
    w = Warming("n1")
    w.cluster.refusal = ApiError(403, "Forbidden", "quota")
    with pytest.raises(ApiError):
        w.turn()
    w.cluster.refusal = None
    w.turn()
    assert not w.cluster.made
    assert w.said == ("WarmRefused", f"{APP} is not pulled on n1: 403 Forbidden: quota")
    w.turn(60.0)
    assert len(w.cluster.made) == 1
