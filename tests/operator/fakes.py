"""A small API server in memory: what the operator's room writes to, and what its view is fed from.

It keeps objects as JSON, applies patches, and plays the ReplicaSet controller in one call, so that the loop can be run
through its steps in milliseconds.
"""

import copy
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from slack.cluster import wire
from slack.kube.apply import Writer
from slack.kube.errors import ApiError, Cause
from slack.kube.watch import EventType
from slack_operator.actuate import Actuator
from slack_operator.desired import DesiredPolicies
from slack_operator.loop import Loop
from slack_operator.metrics import Metrics
from slack_operator.reporting import Reporter
from slack_operator.rescue import Rescuer
from slack_operator.sinks import NodeSink, OwnSetSink, PodSink, PriorityClassSink
from slack_operator.view import View
from slack_operator.wake import Wake

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
            if body.get("metadata", {}).get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
                raise ApiError(409, "Conflict", "another uid")
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
        known = self.objects.get(path)
        if known is None:
            return self.put(path, body)
        if known["spec"] != body["spec"]:
            known["metadata"]["generation"] = known["metadata"].get("generation", 0) + 1
        known["spec"] = copy.deepcopy(body["spec"])
        known["metadata"]["annotations"] = dict(body["metadata"]["annotations"])
        known["metadata"]["ownerReferences"] = copy.deepcopy(body["metadata"].get("ownerReferences", []))
        return self._bump(known)

    def _get(self, path: str) -> Json:
        if path not in self.objects:
            raise ApiError(404, "NotFound", f"{path} not found")
        return self.objects[path]

    def _bump(self, item: Json) -> Json:
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        item["metadata"].setdefault("generation", 1)
        return item

    @staticmethod
    def _answer(item: Json) -> bytes:
        return json.dumps(item).encode()


def conflict(field: str) -> ApiError:
    return ApiError(409, "Conflict", "conflict", (Cause(field, "FieldManagerConflict", 'conflict with "somebody"'),))


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


def policy(name: str, generation: int = 1, uid: str = "", **spec: Any) -> Json:
    return {
        "apiVersion": "resource-slack.io/v1alpha1",
        "kind": "SlackPolicy",
        "metadata": {"name": name, "uid": uid or f"uid-{name}", "generation": generation},
        "spec": spec,
    }


class Fresh:
    """A view that is whole, until a test says otherwise."""

    def __init__(self) -> None:
        self.text = ""

    def stale(self) -> str:
        return self.text


class Recorder:
    """Keeps what would become Events."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str]] = []

    def record(self, regarding: Any, kind: Any, reason: str, message: str) -> None:
        self.lines.append((regarding.name, reason, message))


class World:
    """A FakeApi and one operator process in front of it; `restart` makes a new process."""

    def __init__(self, nodes: int = 3, pods: int = 10) -> None:
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
        self.view = View(NAMESPACE, lambda: None, clock=self.clock, wall=self.wall)
        self.desired = DesiredPolicies(lambda: None)
        # The fakes below stand for classes of which they have only the part that is called.
        writer = Writer(self.api, threading.Event())  # type: ignore[arg-type]
        self.actuator = Actuator(
            writer, namespace=NAMESPACE, may_write=self.may_write, expectations=self.view, clock=self.clock
        )
        rules: Any = {"may_write": self.may_write, "clock": self.clock}
        self.loop = Loop(
            view=self.view,
            watches=self.fresh,
            desired=self.desired,
            writer=writer,
            actuator=self.actuator,
            reporter=Reporter(writer, self.recorder, wall=self.wall, **rules),  # type: ignore[arg-type]
            rescuer=Rescuer(writer, self.recorder, self.metrics, enabled=True, **rules),  # type: ignore[arg-type]
            metrics=self.metrics,
            wake=Wake(10.0, self.clock),
            namespace=NAMESPACE,
            image="pause",
            default_rate=0.1,
            wall=self.wall,
            **rules,
        )

    def may_write(self) -> bool:
        return self.leading

    def apply_policy(self, document: Json) -> None:
        path = f"/apis/resource-slack.io/v1alpha1/slackpolicies/{document['metadata']['name']}"
        known = self.api.objects.get(path)
        if known is not None:
            document["status"] = known.get("status", {})
        self.api.put(path, document)

    def observe(self) -> None:
        """Bring the view to what the API server has, as a list would."""
        sinks: list[tuple[Any, str, type[msgspec.Struct]]] = [
            (NodeSink(self.view), "nodes", wire.Node),
            (PodSink(self.view), "pods", wire.Pod),
            (PriorityClassSink(self.view), "priorityclasses", wire.PriorityClass),
            (OwnSetSink(self.view), "replicasets", wire.ReplicaSet),
        ]
        for sink, part, kind in sinks:
            sink.begin()
            raw = [json.dumps(item).encode() for _, item in sorted(self.api.items(part).items())]
            sink.apply([(EventType.ADDED, msgspec.json.decode(one, type=kind)) for one in raw])
            sink.end()
        documents = list(self.api.items("slackpolicies").values())
        self.desired.replace_all(documents, events_before=self.desired.events)

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
            for _ in range(wanted - len(mine)):
                self._new_placeholder(name, item)
            item["status"] = {"replicas": wanted}

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
        template["spec"] |= {"nodeName": f"n{self.made % len(self.api.items('nodes'))}", "priority": -10}
        template["status"] = {"phase": "Running"}
        self.api.put(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod_name}", template)

    def turn(self, *, seconds: float = 10.0) -> None:
        """Time passes, the view catches up, the operator turns, the controllers follow."""
        self.clock.now += seconds
        self.wall.now += seconds
        self.observe()
        self.loop.turn()
        self.controllers()

    def settle(self, turns: int = 6, *, seconds: float = 10.0) -> None:
        for _ in range(turns):
            self.turn(seconds=seconds)

    def placeholders(self) -> dict[str, Json]:
        return {n: p for n, p in self.api.items("pods").items() if p["metadata"].get("namespace") == NAMESPACE}

    def replicas(self) -> dict[str, int]:
        return {name: item["spec"]["replicas"] for name, item in self.api.items("replicasets").items()}

    def status(self, name: str) -> Json:
        status: Json = self.api.items("slackpolicies")[name].get("status", {})
        return status

    def condition(self, name: str, kind: str) -> Json:
        found = [c for c in self.status(name).get("conditions", []) if c["type"] == kind]
        return found[0] if found else {}
