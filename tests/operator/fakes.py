"""A small API server in memory: what the operator's room writes to, and what its view is fed from.

It keeps objects as JSON, applies patches, and plays the ReplicaSet controller in one call, so that the loop can be run
through its steps in milliseconds.
"""

import copy
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from slack.cluster import wire
from slack.cluster.hold import UNBOUND_SCHEDULER, Hold, ReleaseNodes
from slack.cluster.labels import LABEL_RELEASE
from slack.cluster.node_prices import NO_PRICES
from slack.kube.apply import Writer
from slack.kube.errors import ApiError, FieldCause, KubeError
from slack.kube.pipelining import OnAnswer, ShouldSend, WriteRequest
from slack.kube.retry import retrying
from slack.kube.watch import EventType
from slack.planner.policy.placeholders import Placeholders
from slack.planner.release import Claim
from slack_operator.learning.histories import Histories
from slack_operator.learning.objectives import Objectives
from slack_operator.placeholders.act.actuator import Actuator
from slack_operator.placeholders.act.creation_block import CreationBlock
from slack_operator.placeholders.act.executor import Executor, OnPlanned, PlaceholderManifests, Writers
from slack_operator.placeholders.act.own_priority_class import OwnPriorityClass
from slack_operator.placeholders.act.release_ways import MarkerPods, way_of
from slack_operator.placeholders.act.releasing import Releasing
from slack_operator.placeholders.act.rescue import Rescuer
from slack_operator.placeholders.act.soft_tainting import SoftTainting
from slack_operator.placeholders.act.unbound import UnboundTelling
from slack_operator.placeholders.forms import Forms
from slack_operator.placeholders.loop import Loop
from slack_operator.placeholders.node_owners import NodeOwners
from slack_operator.placeholders.observer import Observer
from slack_operator.placeholders.policies import DesiredPolicies
from slack_operator.placeholders.policy_planner import PlannerSettings, PolicyPlanner
from slack_operator.placeholders.reconciliation import Reconciliation
from slack_operator.placeholders.report.metrics import Metrics
from slack_operator.placeholders.report.publisher import Publisher
from slack_operator.placeholders.report.reporter import Reporter
from slack_operator.placeholders.view.autoscalers import Autoscaler, Recognition
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.placeholders.view.sinks import NamespaceSink, NodeSink, OwnSetSink, PodSink, PriorityClassSink
from slack_operator.runtime.debounce import Debouncer

Json = dict[str, Any]
NAMESPACE = "resource-slack"
TIME = "2026-01-01T00:00:00Z"


class Crash(BaseException):
    """The process is killed just before a write."""


class Clock:
    """Seconds that a test moves."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def merge(target: Json, patch: Mapping[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = copy.deepcopy(value)


class FakeApi:
    """Objects by path. `request` has the signature that `Writer` needs of a connection."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.log: list[tuple[str, str]] = []
        self.refuse: Callable[[str, str], ApiError | None] = lambda _verb, _path: None
        self.refuse_reading: Callable[[str], ApiError | None] = lambda _path: None
        self.admit: Callable[[Json], None] = lambda _item: None
        """What a mutating webhook makes of each ReplicaSet that is written."""
        self.crash_at: int | None = None
        self._version = 0

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: object = None,
        verb: str | None = None,
    ) -> bytes:
        verb = verb or method.lower()
        if verb == "get":
            unread = self.refuse_reading(path)
            if unread is not None:
                raise unread
            return json.dumps(self._get(path)).encode()
        if self.crash_at is not None and len(self.log) >= self.crash_at:
            raise Crash
        refusal = self.refuse(verb, path)
        self.log.append((verb, path))
        force = bool((query or {}).get("force"))
        if refusal is not None and not (force and refusal.causes):  # force knows no conflict over fields
            raise refusal
        if verb == "create":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                raise ApiError(409, "AlreadyExists", "is there already")
            return self._answer(self.put(path, body))
        if verb == "apply":
            return self._answer(self._apply(path, body))
        if verb == "patch":
            found = self._get(path.removesuffix("/status"))
            if isinstance(body, list):
                return self._answer(self._operated(found, body))
            if body.get("metadata", {}).get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
                raise ApiError(409, "Conflict", "another uid")
            version = found["metadata"]["resourceVersion"]
            if body.get("metadata", {}).get("resourceVersion", version) != version:
                raise ApiError(409, "Conflict", "the object has been modified")
            merge(found, body)
            return self._answer(self._bump(found))
        if verb == "delete":
            found = self._get(path)
            if body.get("preconditions", {}).get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
                raise ApiError(409, "Conflict", "another uid")
            del self.objects[path]
            for other, item in list(self.objects.items()):
                if any(o["uid"] == found["metadata"]["uid"] for o in item["metadata"].get("ownerReferences", ())):
                    del self.objects[other]
            return b"{}"
        raise AssertionError(verb)

    def put(self, path: str, item: Json) -> Json:
        item = copy.deepcopy(item)
        metadata = item["metadata"]
        metadata.setdefault("uid", f"uid-{len(self.log)}-{metadata['name']}")
        metadata.setdefault("creationTimestamp", TIME)
        self.objects[path] = item
        return self._bump(item)

    def items(self, part: str) -> dict[str, Json]:
        return {path.rpartition("/")[2]: item for path, item in self.objects.items() if f"/{part}/" in path}

    @property
    def writes(self) -> list[str]:
        return [f"{verb} {path.rpartition('/')[2]}" for verb, path in self.log]

    def _apply(self, path: str, body: Json) -> Json:
        if path.endswith("/status"):
            found = self._get(path.removesuffix("/status"))
            found["status"] = copy.deepcopy(body["status"])
            return self._bump(found)
        body = copy.deepcopy(body)
        self.admit(body)
        known = self.objects.get(path)
        if known is None or "spec" not in body:
            return self.put(path, body)
        if known["spec"] != body["spec"]:
            known["metadata"]["generation"] = known["metadata"].get("generation", 0) + 1
        known["spec"] = body["spec"]
        metadata = known["metadata"]
        for part in ("labels", "annotations"):
            metadata[part] = {**metadata.get(part, {}), **body["metadata"][part]}
        ours = body["metadata"].get("ownerReferences", [])
        uids = {owner["uid"] for owner in ours}
        metadata["ownerReferences"] = [*ours, *(o for o in metadata["ownerReferences"] if o["uid"] not in uids)]
        if sum(bool(owner.get("controller")) for owner in metadata["ownerReferences"]) > 1:
            raise ApiError(422, "Invalid", "Only one reference can have Controller set to true")
        metadata.pop("managedFields", None)  # what others held is ours now
        return self._bump(known)

    def _operated(self, item: Json, operations: Sequence[Json]) -> Json:
        """Carry out a JSON patch of `test` and `remove`."""
        for operation in operations:
            *parents, last = (part.replace("~1", "/") for part in operation["path"].split("/")[1:])
            holder = item
            for part in parents:
                holder = holder.get(part, {})
            if last not in holder or holder[last] != operation.get("value", holder[last]):
                raise ApiError(422, "Invalid", "the value is another")
            if operation["op"] == "remove":
                del holder[last]
        return self._bump(item)

    def _get(self, path: str) -> Json:
        if path not in self.objects:
            raise ApiError(404, "NotFound", f"{path} not found")
        return self.objects[path]

    def _bump(self, item: Json) -> Json:
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        item["metadata"].setdefault("generation", 1)
        return item

    def written_by(self, manager: str, path: str, change: Callable[[Json], None]) -> None:
        """Let somebody else write an object: kubectl, a controller."""
        item = self.objects[path]
        before, noted = copy.deepcopy(item["spec"]), dict(item["metadata"].get("annotations", {}))
        change(item)
        item["metadata"]["generation"] += item["spec"] != before
        held: Json = {"f:spec": {f"f:{name}": {} for name, value in item["spec"].items() if value != before.get(name)}}
        annotations = {k: v for k, v in item["metadata"].get("annotations", {}).items() if noted.get(k) != v}
        held["f:metadata"] = {"f:labels": {}, "f:annotations": {f"f:{name}": {} for name in annotations}}
        entry = {"manager": manager, "operation": "Update", "time": TIME, "fieldsV1": held}
        item["metadata"].setdefault("managedFields", []).append(entry)
        self._bump(item)

    @staticmethod
    def _answer(item: Json) -> bytes:
        return json.dumps(item).encode()


def conflict(field: str) -> ApiError:
    return ApiError(
        409, "Conflict", "conflict", (FieldCause(field, "FieldManagerConflict", 'conflict with "somebody"'),)
    )


def node(name: str, cpu: str = "8", memory: str = "32Gi", **labels: str) -> Json:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(name: str, node_name: str = "", cpu: str = "1", memory: str = "1Gi", **status: Any) -> Json:
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "labels": {"pod-template-hash": "abc"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "api-abc", "uid": "rs", "controller": True}],
        },
        "spec": {
            "nodeName": node_name or None,
            "priority": 0,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
        },
        "status": {"phase": "Running" if node_name else "Pending", **status},
    }


def daemon(name: str, node_name: str, cores: int) -> Json:
    """A DaemonSet's pod."""
    found = pod(name, node_name, cpu=str(cores), memory="1Mi")
    owner = {"kind": "DaemonSet", "name": "taker", "uid": "ds", "controller": True}
    found["metadata"] |= {"namespace": "kube-system", "ownerReferences": [owner]}
    return found


def policy(name: str, generation: int = 1, uid: str = "", **spec: Any) -> Json:
    return {
        "apiVersion": "resource-slack.io/v1alpha1",
        "kind": "SlackPolicy",
        "metadata": {"name": name, "uid": uid or f"uid-{name}", "generation": generation},
        "spec": spec,
    }


class Sender:
    """Sends one after the other."""

    def __init__(self, api: FakeApi) -> None:
        self._api = api

    def keep(self, asks: int) -> None:
        pass

    def send(self, asks: Sequence[WriteRequest], goes_on: ShouldSend, on_answer: OnAnswer) -> None:
        for index, ask in enumerate(asks):
            if not goes_on(index):
                continue
            try:
                path = ask.path.partition("?")[0]
                self._api.request(ask.method, path, body=ask.body, content_type=ask.content_type)
            except KubeError as error:
                on_answer(index, error)
            else:
                on_answer(index, None)

    def close(self) -> None:
        pass


class Fresh:
    """A view that is whole, until a test says otherwise."""

    def __init__(self) -> None:
        self.text = ""
        self.no_right = False

    def stale(self) -> str:
        return self.text

    def forbidden(self) -> bool:
        return self.no_right


class Recorder:
    """Keeps what would become Events."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str]] = []

    def record(self, regarding: Any, kind: Any, reason: str, message: str) -> None:
        self.lines.append((regarding.name, reason, message))


class World:
    """A FakeApi and one operator process in front of it; `restart` makes a new process."""

    priority = -10
    """What admission gives placeholders."""

    hold = Hold.AUTO
    """The form of policies that name none."""

    autoscaler: Autoscaler | None = None
    """The one that is recognised as keeping nodes for unbound placeholders."""
    recognition_lasts = True
    """Whether what is recognised, or its absence, is certain."""

    claims: Mapping[str, Claim] | None = None
    """Karpenter's NodeClaims by node."""

    claims_refused = False
    """They may not be watched."""

    release_nodes = ReleaseNodes.LABEL
    soft_taint = False

    prices = NO_PRICES
    """Of nodes."""

    extras = Placeholders()
    """What the operator gives the placeholders of all policies."""

    bound_allowed = True
    image = "pause"

    on_planned: tuple[OnPlanned, ...] = ()
    """Who acts by each plan; without any, who writes the condition of unbound placeholders."""
    on_reconciled: Callable[[Reconciliation], None] | None = None
    """Who is shown each reconciliation."""

    def __init__(self, nodes: int = 3, pods: int = 10, *, built_in: bool = False) -> None:
        self.built_in = built_in
        self.api = FakeApi()
        self.clock = Clock()
        self.wall = Clock(1_800_000_000.0)
        self.leading = True
        for number in range(nodes):
            self.api.put(f"/api/v1/nodes/n{number}", node(f"n{number}"))
        for number in range(pods):
            name = f"api-abc-{number}"
            self.api.put(f"/api/v1/namespaces/shop/pods/{name}", pod(name, f"n{number % nodes}"))
        self.restart()

    def restart(self) -> None:
        self.metrics = Metrics()
        self.recorder = Recorder()
        self.fresh = Fresh()
        self.wake = Debouncer(10.0, self.clock)
        self.view = ClusterView(NAMESPACE, lambda: None, clock=self.clock, wall=self.wall)
        self.desired = DesiredPolicies(lambda: None)
        # The fakes below stand for classes of which they have only the part that is called.
        once = retrying(threading.Event(), deadline_seconds=0.0)
        writer = Writer(self.api, threading.Event(), retry=once, clock=self.clock)  # type: ignore[arg-type]
        self.actuator = Actuator(
            writer, namespace=NAMESPACE, may_write=self.may_write, expectations=self.view, clock=self.clock
        )
        self.unbound = UnboundTelling(
            self.view,
            Sender(self.api),
            self.recorder,  # type: ignore[arg-type]  # it has the part that is called
            may_write=self.may_write,
            wall=self.wall,
        )
        markers = MarkerPods(self.view, writer, namespace=NAMESPACE, image="pause", user=65535, extras=self.extras)
        self.releasing = Releasing(
            self.view,
            lambda: self.claims,
            way_of(self.release_nodes, writer, markers),
            markers,
            blind=lambda: self.claims_refused,
            may_write=self.may_write,
        )
        self.tainting = SoftTainting(self.view, writer, enabled=self.soft_taint, may_write=self.may_write)
        self.objectives = Objectives(Histories(writer, namespace=NAMESPACE), self.may_write, self.clock, self.wall)
        rules: Any = {"may_write": self.may_write, "clock": self.clock}
        self.forms = Forms(
            scheduler=UNBOUND_SCHEDULER,
            default=self.hold,
            bound_allowed=self.bound_allowed,
            release_nodes=self.release_nodes,
            soft_taint=self.soft_taint,
            recognised=self.recognised,
            untold=lambda: self.unbound.problem,
            clock=self.clock,
            wall=self.wall,
        )
        rescuer = Rescuer(
            writer,
            self.recorder,  # type: ignore[arg-type]  # it has the part that is called
            self.metrics,
            enabled=True,
            server_version=lambda: "v1.36.3",
            **rules,
        )
        writers = Writers(
            actuator=self.actuator,
            creation_block=CreationBlock(writer, namespace=NAMESPACE, **rules),
            priority_class=OwnPriorityClass(writer, self.actuator.contests, **rules),
            releasing=self.releasing,
            rescuer=rescuer,
            on_planned=(self._look,),
        )
        owners = NodeOwners()
        act = Executor(
            self.view,
            writers,
            PlaceholderManifests(namespace=NAMESPACE, image=self.image, extras=self.extras),
            self.forms,
            owners,
            stale=self.fresh.stale,
            wake=self.wake,
            **rules,
        )
        self.loop = Loop(
            Observer(
                self.view,
                self.fresh,
                self.desired,
                self.forms,
                may_write=self.may_write,
                prices=lambda: self.prices,
                wall=self.wall,
            ),
            PolicyPlanner(
                self.forms,
                self.objectives,
                owners,
                PlannerSettings(default_rate=0.1, built_in_policy=self.built_in, prices=lambda: self.prices),
                node_starts=self.view.node_starts,
                timed=self.metrics.plan_duration.time,
                clock=self.clock,
            ),
            act,
            Publisher(
                Reporter(
                    writer,
                    self.recorder,  # type: ignore[arg-type]  # it has the part that is called
                    namespace=NAMESPACE,
                    wall=self.wall,
                    **rules,
                ),
                self.metrics,
                act,
                self.forms,
                self.objectives,
                wake=self.wake,
                conditions=(self.tainting.condition,),
                on_reconciled=self._show,
                clock=self.clock,
            ),
        )

    def _look(self, seen: Any, policies: Any, items: Any) -> None:
        for look in self.on_planned or (self.unbound.look, self.tainting.look):
            look(seen, policies, items)

    def _show(self, reconciliation: Reconciliation) -> None:
        if self.on_reconciled is not None:
            self.on_reconciled(reconciliation)

    def recognised(self) -> Recognition:
        return Recognition(self.autoscaler, lasting=self.recognition_lasts, note="there is no NodePool")

    def may_write(self) -> bool:
        return self.leading

    def apply_policy(self, document: Json) -> None:
        path = f"/apis/resource-slack.io/v1alpha1/slackpolicies/{document['metadata']['name']}"
        known = self.api.objects.get(path)
        if known is not None:
            document["status"] = known.get("status", {})
        self.api.put(path, document)

    def observe(self) -> None:
        """Bring the view and the policies to what the API server has, as lists would."""
        self.observe_cluster()
        documents = list(self.api.items("slackpolicies").values())
        self.desired.replace_all(documents, events_before=self.desired.events)

    def observe_cluster(self) -> None:
        """Bring the view to what the API server has; policies are not listed."""
        sinks: list[tuple[Any, str, type[msgspec.Struct]]] = [
            (NodeSink(self.view), "nodes", wire.Node),
            (PodSink(self.view), "pods", wire.Pod),
            (PriorityClassSink(self.view), "priorityclasses", wire.PriorityClass),
            (NamespaceSink(self.view), "namespaces", wire.Namespace),
            (OwnSetSink(self.view), "replicasets", wire.OwnReplicaSet),
            (self.view.pools, "activationpools", wire.ActivationPoolObject),
            (self.view.quotas, "resourcequotas", wire.ResourceQuota),
        ]
        for sink, part, kind in sinks:
            sink.begin()
            raw = [msgspec.json.encode(item) for _, item in sorted(self.api.items(part).items())]
            sink.apply([(EventType.ADDED, msgspec.json.decode(item, type=kind)) for item in raw])
            sink.end()

    def controllers(self) -> None:
        """The stock ReplicaSet controller and scheduler, once."""
        for name, item in self.api.items("replicasets").items():
            mine = sorted(
                (p for p in self.api.items("pods").values() if p["metadata"]["name"].startswith(name + "-")),
                key=lambda p: (
                    bool(p["spec"].get("nodeName")),
                    int(p["metadata"].get("annotations", {}).get("controller.kubernetes.io/pod-deletion-cost", 0)),
                    p["metadata"]["name"],
                ),
            )
            wanted = item["spec"]["replicas"]
            for gone in mine[: max(0, len(mine) - wanted)]:
                del self.api.objects[f"/api/v1/namespaces/{NAMESPACE}/pods/{gone['metadata']['name']}"]
            # Admission refuses pods of a class that there is none of.
            refused = item["spec"]["template"]["spec"].get("priorityClassName") not in self.api.items("priorityclasses")
            for _ in range(0 if refused else wanted - len(mine)):
                self._new_placeholder(name, item)
        self.controllers_see()

    def controllers_see(self) -> None:
        """The ReplicaSet controller has seen which pods there are, and says so."""
        owners = [name.rpartition("-")[0] for name in self.placeholders()]
        for name, item in self.api.items("replicasets").items():
            item["status"] = {"replicas": owners.count(name)}

    def _new_placeholder(self, name: str, item: Json) -> None:
        template = copy.deepcopy(item["spec"]["template"])
        self.made = getattr(self, "made", 0) + 1
        pod_name = f"{name}-{self.made:05d}"
        template["metadata"] |= {
            "name": pod_name,
            "namespace": NAMESPACE,
            "uid": f"uid-{pod_name}",
            "ownerReferences": [
                {"kind": "ReplicaSet", "name": name, "uid": item["metadata"]["uid"], "controller": True}
            ],
        }
        template["spec"] |= {"priority": self.priority}
        template["status"] = {"phase": "Pending"}
        if template["spec"]["schedulerName"] != UNBOUND_SCHEDULER:
            template["spec"]["nodeName"] = f"n{self.made % len(self.api.items('nodes'))}"
            template["status"] = {"phase": "Running"}
        self.api.put(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod_name}", template)

    def reconcile(self, *, seconds: float = 10.0) -> None:
        """Time passes, the view catches up, the operator turns, the controllers follow."""
        self.clock.now += seconds
        self.wall.now += seconds
        self.observe()
        self.wake.plan_started()
        self.loop.reconcile()
        self.wake.ended(0.0, 0.0)
        self.controllers()
        if self.hold is Hold.UNBOUND:
            self.observe_cluster()
            self.unbound.write_due()

    def settle(self, turns: int = 6, *, seconds: float = 10.0) -> None:
        for _ in range(turns):
            self.reconcile(seconds=seconds)

    def placeholders(self) -> dict[str, Json]:
        own = {n: p for n, p in self.api.items("pods").items() if p["metadata"].get("namespace") == NAMESPACE}
        return {n: p for n, p in own.items() if LABEL_RELEASE not in p["metadata"].get("labels", {})}

    def replicas(self) -> dict[str, int]:
        return {name: item["spec"]["replicas"] for name, item in self.api.items("replicasets").items()}

    def status(self, name: str) -> Json:
        status: Json = self.api.items("slackpolicies")[name].get("status", {})
        return status

    def condition(self, name: str, kind: str) -> Json:
        found = [c for c in self.status(name).get("conditions", []) if c["type"] == kind]
        return found[0] if found else {}
