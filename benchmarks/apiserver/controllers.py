"""The ReplicaSet controller and the scheduler of the benchmarks' API server, as far as placeholders need them.

Placeholders come, stand where there was room in the generated list, and go as their ReplicaSets say. Nothing preempts
them: where generated pods go is not decided here.
"""

import random

from benchmarks.apiserver.store import PODS, Key, Store
from benchmarks.generator import Json
from benchmarks.generator.lists import layout_of
from slack.cluster.quantity import base_units, cpu_millis

REPLICA_SETS = ("apps/v1", "replicasets")
_TRIES = 50
_SIDECAR: Json = {
    "name": "proxy",
    "image": "proxy",
    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
}


class Controllers:
    """Follows the store's writes, under its lock.

    Usage:
        Controllers(store, seed=1)
    """

    def __init__(self, store: Store, seed: int = 1) -> None:
        layout = layout_of(store.size, seed)
        self.injecting = False
        """Whether admission adds a sidecar to each new pod, as a service mesh does."""
        self._store = store
        self._rng = random.Random(f"controllers of {seed}")
        self._free = layout.free[:, :2].copy()
        """[N, 2] millicores and KiB."""
        self._open = layout.nodes.in_pools(("general", "memory"))
        self._made = 0
        self._busy: set[Key] = set()
        self._rooms: dict[Key, tuple[int, tuple[int, int]]] = {}
        store.on_write.append(self._see)

    def _see(self, event: str, key: Key, body: Json) -> None:
        if key.collection == REPLICA_SETS and event != "DELETED":
            self._reconcile(key)
        elif key.collection == PODS and (event == "DELETED" or is_failed(key, body)):
            if key in self._rooms:
                node, room = self._rooms.pop(key)
                self._free[node] += room
            for owner in body["metadata"].get("ownerReferences", ()):
                self._reconcile(Key(*REPLICA_SETS, key.namespace, owner["name"]))

    def _reconcile(self, key: Key) -> None:
        replica_set = self._store.objects.get(key)
        if replica_set is None or key in self._busy:
            return
        self._busy.add(key)  # what is written here is seen, too
        uid, wanted = replica_set["metadata"]["uid"], replica_set["spec"]["replicas"]
        have = sorted(self._owned(key, uid), key=self._cost)
        for pod in have[: max(len(have) - wanted, 0)]:
            self._store.remove(pod)
        for _ in range(wanted - len(have)):
            self._create(key, replica_set)
        counts = {name: wanted for name in ("replicas", "readyReplicas", "availableReplicas") if wanted}
        status = {"replicas": 0} | counts | {"observedGeneration": replica_set["metadata"]["generation"]}
        self._store.put(key, {**self._store.objects[key], "status": status})
        self._busy.discard(key)

    def _owned(self, key: Key, uid: str) -> list[Key]:
        return [
            pod
            for pod in self._store.owned(uid)
            if pod.collection == PODS
            and pod.namespace == key.namespace
            and not is_failed(pod, self._store.objects[pod])
        ]

    def _cost(self, pod: Key) -> tuple[int, str]:
        annotations = self._store.objects[pod]["metadata"].get("annotations") or {}
        return int(annotations.get("controller.kubernetes.io/pod-deletion-cost", 0)), pod.name

    def _create(self, key: Key, replica_set: Json) -> None:
        self._made += 1
        pod = Key(*PODS, key.namespace, f"{key.name}-{self._made:05}")
        template = replica_set["spec"]["template"]
        head = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": key.name, "controller": True}
        owner = head | {"uid": replica_set["metadata"]["uid"]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"] | {"ownerReferences": [owner]}}
        spec = template["spec"] | {"priority": -10, "preemptionPolicy": "Never"}
        if self.injecting:
            spec["containers"] = [*spec["containers"], _SIDECAR]
        made = self._store.put(pod, {**body, "spec": spec, "status": {"phase": "Pending"}})
        requests = spec["containers"][0]["resources"]["requests"]
        room = (cpu_millis(requests["cpu"]), -(-base_units(requests["memory"]) // 1024))
        node = self._find(room)
        if node is not None:
            self._rooms[pod] = node, room
            self._free[node] -= room
            bound = {
                "type": "PodScheduled",
                "status": "True",
                "lastTransitionTime": made["metadata"]["creationTimestamp"],
            }
            name = self._store.node_name(node)
            running = {"phase": "Running", "conditions": [bound]}
            self._store.put(pod, {**made, "spec": {**spec, "nodeName": name}, "status": running})

    def _find(self, room: tuple[int, int]) -> int | None:
        for _ in range(_TRIES):
            node = self._rng.randrange(len(self._open))
            if self._open[node] and bool((self._free[node] >= room).all()):
                return node
        return None


def is_failed(key: Key, body: Json) -> bool:
    """Whether an object is a failed pod: its ReplicaSet counts it no more."""
    return key.collection == PODS and body.get("status", {}).get("phase") == "Failed"
