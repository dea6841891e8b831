"""Serving through a small API server: probed, held, told of, left to others, and taken away."""

import threading
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from slack.capacity_buffers.api import CapacityBuffer, PodTemplateObject, Serve
from slack.capacity_buffers.ceiling import BufferCeiling
from slack.capacity_buffers.probing import PROBE_AGAIN_SECONDS, PROBE_NAME, PROBE_SECONDS
from slack.cluster.labels import LABEL_BUFFER
from slack.kube.apply import Writer
from slack.kube.retry import retrying
from slack.kube.watch import EventType
from slack.planner.objects.manifests import priority_class
from slack_operator.capacity_buffers.buffer_serving import BufferServing, ServingOptions
from slack_operator.capacity_buffers.buffer_writer import BufferWriter
from slack_operator.capacity_buffers.server_probe import ServerProbe
from slack_operator.capacity_buffers.targets import Targets
from tests.operator.fakes import NAMESPACE, Json, World

GROUP = "/apis/autoscaling.x-k8s.io"
RESOURCES = f"{GROUP}/v1beta1"
OURS = "buffer.resource-slack.io/placeholder-pods"


class Watching:
    """Stands for the watches: what they would show is listed by the test."""

    def follow(self, api: object) -> None:
        self.api = api

    def stop(self) -> None:
        pass

    def unready(self) -> None:
        return None

    def unhealthy(self) -> None:
        return None


class BufferWorld(World):
    """A cluster with the kind, and one process that serves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, serve: Serve = Serve.UNSERVED, **options: Any) -> None:
        self._patch = monkeypatch
        self.options = ServingOptions(serve=serve, namespace=NAMESPACE, image="pause", **options)
        super().__init__(nodes=3, pods=0)
        self.install_kind()
        self.api.put("/apis/scheduling.k8s.io/v1/priorityclasses/resource-slack", priority_class())

    def install_kind(self) -> None:
        self.api.objects[GROUP] = {"versions": [{"version": "v1beta1"}], "metadata": {}}
        kind = {"name": "capacitybuffers", "namespaced": True}
        self.api.objects[RESOURCES] = {"resources": [kind], "metadata": {}}

    def restart(self) -> None:
        super().restart()
        once = retrying(threading.Event(), deadline_seconds=0.0)
        connection: Any = self.api
        writer = Writer(connection, threading.Event(), retry=once, clock=self.clock)
        rules: Any = {"may_write": self.may_write, "clock": self.clock}
        recorder: Any = self.recorder
        self.serving = BufferServing(
            self.options,
            connection,
            self.view,
            BufferWriter(writer, namespace=NAMESPACE, **rules),
            ServerProbe(writer, namespace=NAMESPACE, image="pause", clock=self.clock, wall=self.wall),
            Targets(connection, {}),
            self.unbound,
            recorder,
            recognised=self.recognised,
            may_write=self.may_write,
            wall=self.wall,
        )
        self._patch.setattr(self.serving, "_watches", Watching())

    def step(self, seconds: float = 1.0) -> None:
        """Let time pass, and everybody act once."""
        self.clock.now += seconds
        self.wall.now += seconds
        self.show()
        self.view.require_labels((), ())
        self.serving.look(self.view.observe(self.wall()), (), ())
        self.serving.serve_due()
        self.controllers()
        self.observe_cluster()
        self.unbound.write_due()

    def show(self) -> None:
        self.observe_cluster()
        for store, part, kind in (
            (self.serving.buffers, "capacitybuffers", CapacityBuffer),
            (self.serving.templates, "podtemplates", PodTemplateObject),
        ):
            target: Any = store
            target.begin()
            found = [msgspec.json.encode(item) for item in self.api.items(part).values()]
            target.apply([(EventType.ADDED, msgspec.json.decode(raw, type=kind)) for raw in found])
            target.end()

    def pass_probe(self) -> None:
        """Step until the probe has its answer, and then on until everything is settled."""
        for _ in range(int(PROBE_SECONDS) + 8):
            self.step()

    def put_buffer(self, name: str = "cb", **spec: Any) -> None:
        path = f"{RESOURCES}/namespaces/shop/capacitybuffers/{name}"
        spec = {"provisioningStrategy": "buffer.x-k8s.io/active-capacity", **spec}
        self.api.put(path, {"metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}"}, "spec": spec})

    def put_template(self, cpu: str = "1", name: str = "chunk", **spec: Any) -> None:
        container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **spec}}
        path = f"/api/v1/namespaces/shop/podtemplates/{name}"
        self.api.put(path, {"metadata": {"name": name, "namespace": "shop"}, "template": template})

    def buffer(self, name: str = "cb") -> Json:
        return self.api.items("capacitybuffers")[name]

    def of(self, name: str = "cb") -> dict[str, tuple[str, str]]:
        """Return status and reason by condition."""
        conditions = self.buffer(name).get("status", {}).get("conditions", ())
        return {each["type"]: (each["status"], each["reason"]) for each in conditions}

    def written_by(self, manager: str, name: str, status: Json) -> None:
        """Let another server write a status, as it would be seen."""
        item = self.buffer(name)
        at = datetime.fromtimestamp(self.wall.now + 5, UTC).isoformat()
        entry = {"manager": manager, "operation": "Update", "subresource": "status", "time": at, "fieldsV1": {}}
        item["metadata"]["managedFields"] = [entry]
        item["status"] = status
        self.api._bump(item)


FITS = ("True", "FitsExistingCapacity")
CHUNK: Json = {"podTemplateRef": {"name": "chunk"}, "replicas": 4}


def test_a_buffer_is_held_told_of_and_steady(monkeypatch: pytest.MonkeyPatch) -> None:
    world = BufferWorld(monkeypatch)
    world.put_template()
    world.put_buffer(**CHUNK)
    world.step()
    assert not world.replicas(), "nothing before it is known who serves"
    world.pass_probe()

    assert list(world.replicas().values()) == [4]
    assert world.of() == {
        "ReadyForProvisioning": ("True", "Resolved"),
        "Provisioning": FITS,
        "LimitedByQuotas": ("False", "ResourceQuotasAllocated"),
    }
    status = world.buffer()["status"]
    assert (status["replicas"], status["podTemplateRef"], status["provisioningStrategy"]) == (
        4,
        {"name": "chunk"},
        OURS,
    )
    assert {each["observedGeneration"] for each in status["conditions"]} == {1}
    pods = world.placeholders().values()
    assert all(pod["metadata"]["labels"][LABEL_BUFFER] == "uid-cb" for pod in pods)
    assert all(pod["status"]["conditions"][0]["reason"] == "Unschedulable" for pod in pods)
    writes = len(world.api.log)
    for _ in range(20):
        world.step()
    assert len(world.api.log) == writes, "nothing is written in a steady cluster"


def test_a_server_that_is_switched_on_later_gets_all_buffers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = BufferWorld(monkeypatch)
    world.put_template()
    world.put_buffer(**CHUNK)
    world.put_buffer("ours", **CHUNK, provisioningStrategy=OURS)
    world.pass_probe()
    assert len(world.replicas()) == 2
    ready = {"type": "ReadyForProvisioning", "status": "True", "reason": "AttributesSetSuccessfully"}
    world.written_by("cluster-autoscaler", PROBE_NAME, {"replicas": 0, "conditions": [ready]})
    world.step()
    world.step(0.2)
    assert sorted(world.replicas().values()) == [0, 4], "the controller of ReplicaSets deletes pods soonest"
    world.step(0.2)
    assert list(world.replicas().values()) == [4], "its own strategy is left to us"
    assert world.serving.report.finding.server == "ClusterAutoscalerController"
    empty = {"type": "Provisioning", "status": "False", "reason": "BufferIsEmpty"}
    for _ in range(62):
        world.step()
    world.written_by("cluster-autoscaler", PROBE_NAME, {"replicas": 0, "conditions": [ready, empty]})
    for _ in range(int(PROBE_SECONDS) + 2):
        world.step()
    assert world.serving.report.finding.server == "ClusterAutoscaler", "a new probe has confirmed it"
    assert list(world.replicas().values()) == [4]


def test_provisioning_is_true_only_while_all_chunks_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    world = BufferWorld(monkeypatch)
    world.put_template(cpu="6")
    world.put_buffer(**CHUNK)
    world.pass_probe()
    assert world.of()["Provisioning"] == ("False", "RequiresNewCapacity")
    assert world.buffer()["status"]["conditions"][1]["message"] == "3 of 4 chunks fit; 1 wait for a node"

    world.buffer()["spec"]["replicas"] = 3
    world.step()
    assert world.of()["Provisioning"][0] == "False"
    for _ in range(4):
        world.step()
    assert world.of()["Provisioning"] == FITS

    world.put_template(cpu="9")
    for _ in range(3):
        world.step()
    assert world.of()["Provisioning"] == ("False", "RequiresNewCapacity")
    for _ in range(40):
        world.step()
    assert world.of()["Provisioning"] == ("False", "Infeasible"), "no node could hold a chunk"


def test_what_is_gone_is_taken_away_after_a_restart_too(monkeypatch: pytest.MonkeyPatch) -> None:
    world = BufferWorld(monkeypatch)
    world.put_template()
    world.put_buffer(**CHUNK)
    world.put_buffer("other", **CHUNK)
    world.pass_probe()
    assert len(world.replicas()) == 2

    del world.api.objects[f"{RESOURCES}/namespaces/shop/capacitybuffers/other"]
    world.restart()
    for _ in range(2):
        world.step()  # the probe before has its answer still
    assert len(world.replicas()) == 1
    assert world.of()["Provisioning"] == FITS, "a restart turns nothing"


def test_a_missing_template_is_said_after_ten_seconds_and_nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    world = BufferWorld(monkeypatch)
    world.put_template()
    world.put_buffer(**CHUNK)
    world.pass_probe()
    del world.api.objects["/api/v1/namespaces/shop/podtemplates/chunk"]
    for _ in range(9):
        world.step()
    assert world.of()["Provisioning"] == FITS
    assert list(world.replicas().values()) == [4]
    for _ in range(3):
        world.step()
    assert world.of() == {
        "ReadyForProvisioning": ("False", "PodTemplateNotFound"),
        "Provisioning": ("False", "NotReadyForProvisioning"),
    }
    assert not world.replicas()
    assert "replicas" not in world.buffer()["status"]


def test_a_workload_gives_size_and_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    world = BufferWorld(monkeypatch)
    container = {"name": "c", "resources": {"requests": {"cpu": "500m"}}}
    path = "/apis/apps/v1/namespaces/shop/deployments/web"
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    world.api.put(
        path, {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": 5, "template": template}}
    )
    reference = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}
    world.put_buffer(scalableRef=reference, percentage=50)
    world.put_buffer("rollout", scalableRef={"apiGroup": "argoproj.io", "kind": "Rollout", "name": "x"}, replicas=1)
    world.pass_probe()
    assert (world.buffer()["status"]["replicas"], list(world.replicas().values())) == (3, [3])
    assert "podTemplateRef" not in world.buffer()["status"]
    assert world.of("rollout")["ReadyForProvisioning"] == ("False", "ResolutionFailed")

    world.api.objects[path]["spec"]["replicas"] = 8
    world.view.on_workload("Deployment", "shop", "web")
    for _ in range(2):
        world.step()
    assert list(world.replicas().values()) == [4]
    del world.api.objects[path]
    world.view.on_workload("Deployment", "shop", "web")
    for _ in range(14):
        world.step()
    assert world.of()["ReadyForProvisioning"] == ("False", "ScalableRefNotFound")
    assert not world.replicas()


def test_a_workload_over_zones_has_chunks_in_each_and_one_status(monkeypatch: pytest.MonkeyPatch) -> None:
    world = BufferWorld(monkeypatch)
    for number, own in enumerate(world.api.items("nodes").values()):
        own["metadata"].setdefault("labels", {})["example.com/rack"] = f"r{number}"
        world.api._bump(own)
    constraint = {"topologyKey": "example.com/rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    world.put_template(topologySpreadConstraints=[{**constraint, "labelSelector": {"matchLabels": {"app": "chunk"}}}])
    world.put_buffer(**CHUNK)
    world.pass_probe()

    assert sorted(world.replicas().values()) == [1, 1, 2]
    assert world.of()["Provisioning"] == FITS
    world.buffer()["spec"]["replicas"] = 1
    for _ in range(4):
        world.step()
    assert list(world.replicas().values()) == [1]
    assert world.buffer()["status"]["replicas"] == 1


def test_a_buffer_that_another_server_writes_is_let_go_until_the_next_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    world = BufferWorld(monkeypatch)
    world.put_template()
    world.put_buffer(**CHUNK)
    world.pass_probe()
    world.written_by("cluster-autoscaler", "cb", {"replicas": 4})
    for _ in range(3):
        world.step()

    assert not world.replicas()
    assert world.buffer()["status"] == {"replicas": 4}, "nobody is fought with"
    assert [line[:2] for line in world.recorder.lines if line[1] == "Conflict"] == [("cb", "Conflict")]
    assert world.of(PROBE_NAME)["Conflict"] == ("True", "Conflict")

    world.clock.now += PROBE_AGAIN_SECONDS
    world.wall.now += PROBE_AGAIN_SECONDS
    world.pass_probe()
    assert world.of()["Provisioning"] == FITS


@pytest.mark.parametrize(
    ("manager", "reasons", "served"),
    [
        ("karpenter", ("Resolved", "BufferEmpty"), set()),
        ("cluster-autoscaler", ("AttributesSetSuccessfully", "BufferIsEmpty"), {"ours"}),
        ("gke", ("Fine", "Fine"), set()),
    ],
)
def test_where_another_server_answers_only_what_it_leaves_alone_is_served(
    monkeypatch: pytest.MonkeyPatch, manager: str, reasons: tuple[str, str], served: set[str]
) -> None:
    world = BufferWorld(monkeypatch)
    world.put_template()
    world.put_buffer(**CHUNK)
    world.put_buffer("ours", **CHUNK, provisioningStrategy=OURS)
    world.step()
    kinds = ("ReadyForProvisioning", "Provisioning")
    conditions = [{"type": k, "status": "True", "reason": r} for k, r in zip(kinds, reasons, strict=True)]
    world.written_by(manager, PROBE_NAME, {"conditions": conditions})
    world.pass_probe()

    assert {name for name in ("cb", "ours") if world.of(name)} == served
    assert len(world.replicas()) == len(served)
    assert manager in world.serving.report.finding.evidence
    assert sum(line[1] == "BufferServerFound" for line in world.recorder.lines) == 1


def test_own_serves_the_own_strategy_only(monkeypatch: pytest.MonkeyPatch) -> None:
    world = BufferWorld(monkeypatch, Serve.OWN)
    world.put_template()
    world.put_buffer(**CHUNK)
    world.put_buffer("ours", **CHUNK, provisioningStrategy=OURS)
    world.pass_probe()

    assert not world.of()
    assert world.of("ours")["Provisioning"] == FITS


def test_a_ceiling_cuts_and_off_takes_everything_away(monkeypatch: pytest.MonkeyPatch) -> None:
    world = BufferWorld(monkeypatch, ceiling=BufferCeiling(cpu=3000))
    world.put_template()
    world.put_buffer(**CHUNK)
    world.pass_probe()
    assert list(world.replicas().values()) == [3]
    assert world.of()["LimitedByQuotas"][0] == "True"

    world.options = ServingOptions(serve=Serve.OFF, namespace=NAMESPACE, image="pause")
    world.restart()
    for _ in range(2):
        world.step()
    assert not world.replicas()


def test_a_kind_that_is_removed_takes_everything_away_and_may_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world = BufferWorld(monkeypatch)
    world.put_template()
    world.put_buffer(**CHUNK)
    world.pass_probe()
    kept = {path: world.api.objects.pop(path) for path in list(world.api.objects) if path.startswith(GROUP)}
    for _ in range(6):
        world.step(10)
    assert not world.replicas()
    assert "raw.githubusercontent.com" in world.serving.report.finding.evidence

    world.api.objects.update(kept)
    for _ in range(6):
        world.step(10)
    world.pass_probe()
    assert world.of()["Provisioning"] == FITS
    assert list(world.replicas().values()) == [4]


def test_a_cluster_scoped_kind_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    world = BufferWorld(monkeypatch)
    world.api.objects[RESOURCES]["resources"][0]["namespaced"] = False
    world.put_template()
    world.put_buffer(**CHUNK)
    world.pass_probe()

    assert not world.replicas()
    assert "cluster-scoped" in world.serving.report.finding.evidence
