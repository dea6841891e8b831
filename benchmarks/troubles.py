"""What a soak does to an operator: broken watches, foreign hands, tenants' pods, edited policies.

Streams end, are reset, are cut in the middle of a line, expire; history is compacted; syncs are broken off. Nodes are
cordoned, placeholders deleted, failed or relabelled, ReplicaSets scaled by somebody else or deleted, sidecars injected
into new placeholders; a tenant's pod asks for thousands of made-up resources; policies are created, edited and deleted.
"""

import random
import time
from collections import Counter
from collections.abc import Callable

from benchmarks.apiserver.controllers import REPLICA_SETS, Controllers, is_failed
from benchmarks.apiserver.server import Break, Server
from benchmarks.apiserver.store import PODS, Key
from benchmarks.operating import NAMESPACE
from slack.cluster.labels import LABEL_POLICY

_POLICIES = ("resource-slack.io/v1alpha1", "slackpolicies")
_SPECS = (
    {"nodeSelector": {"pool": "memory"}},
    {"nodeSelector": {"pool": "memory"}, "extraCapacity": {"minRate": 0.2}},
    {"nodeSelector": {"topology.kubernetes.io/zone": "eu-1a"}},
    {"perDomain": "Zone"},
)
_WIDE = Key(*PODS, "tenant", "wide")
_WIDE_RESOURCES = 2000
_FOREIGN = 40
"""How many placeholders somebody adds by a foreign scale."""


class Troubles:
    """What is done to the server, in shuffled rounds: every trouble once before any comes again."""

    def __init__(self, server: Server, controllers: Controllers, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._server = server
        self._controllers = controllers
        self._store = server.store
        self._rng = random.Random(f"troubles of {seed}")
        self._round: list[tuple[str, Callable[[], None]]] = []
        self._cordoned: list[int] = []

    def next(self, *, refuse_watch_lists: bool) -> None:
        """Make one more trouble. Once WatchLists are refused, the operator lists in pages for good."""
        self._server.watch_list = not refuse_watch_lists
        if not self._round:
            self._round = self._all()
            self._rng.shuffle(self._round)
        name, trouble = self._round.pop()
        trouble()
        self.counts[name] += 1

    def _all(self) -> list[tuple[str, Callable[[], None]]]:
        def breaking(how: Break) -> Callable[[], None]:
            return lambda: self._server.break_watches(how)

        return [
            *((f"watches: {how}", breaking(how)) for how in Break),
            ("history compacted, watches reset", self._compact),
            ("history compacted, sync broken off", self._break_sync),
            ("nodes cordoned or not", self._cordon),
            ("placeholders deleted", self._delete_placeholders),
            ("placeholders failed", self._fail_placeholders),
            ("placeholders relabelled", self._relabel_placeholders),
            ("ReplicaSet scaled by somebody else", self._scale),
            ("ReplicaSet deleted", self._delete_replica_set),
            ("sidecars injected or not", self._inject),
            ("a pod with made-up resources or none", self._widen),
            *[("policy written or deleted", self._edit)] * 3,
        ]

    def _compact(self) -> None:
        self._server.compact()
        self._server.break_watches(Break.RESET)

    def _break_sync(self) -> None:
        self._compact()
        time.sleep(0.3)
        self._server.break_watches(Break.CUT)

    def _cordon(self) -> None:
        with self._store.changed:
            for number in self._cordoned:
                self._store.touch_node(number, cordoned=False)
            self._cordoned = self._rng.sample(range(self._store.size.nodes), min(5, self._store.size.nodes))
            for number in self._cordoned:
                self._store.touch_node(number, cordoned=True)

    def _delete_placeholders(self) -> None:
        with self._store.changed:
            for key in self._some(PODS, 5):
                self._store.remove(key)

    def _some(self, collection: tuple[str, str], count: int) -> list[Key]:
        there = [key for key in self._store.objects if key.collection == collection and key.namespace == NAMESPACE]
        return self._rng.sample(there, min(count, len(there)))

    def _fail_placeholders(self) -> None:
        """As the kubelet does under pressure; those of the round before go, as the pod garbage collector has it."""
        with self._store.changed:
            for key in [key for key, body in self._store.objects.items() if is_failed(key, body)]:
                self._store.remove(key)
            for key in self._some(PODS, 5):
                body = self._store.objects[key]
                status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
                self._store.put(key, {**body, "status": status})

    def _relabel_placeholders(self) -> None:
        with self._store.changed:
            for key in self._some(PODS, 3):
                body = self._store.objects[key]
                labels = body["metadata"].get("labels", {}) | {LABEL_POLICY: "nobody"}
                self._store.put(key, {**body, "metadata": {**body["metadata"], "labels": labels}})

    def _scale(self) -> None:
        with self._store.changed:
            for key in self._some(REPLICA_SETS, 1):
                body = self._store.objects[key]
                spec = {**body["spec"], "replicas": body["spec"]["replicas"] + _FOREIGN}
                self._store.put(key, {**body, "spec": spec})

    def _delete_replica_set(self) -> None:
        with self._store.changed:
            for key in self._some(REPLICA_SETS, 1):
                self._store.remove(key)

    def _inject(self) -> None:
        with self._store.changed:
            self._controllers.injecting = not self._controllers.injecting

    def _widen(self) -> None:
        with self._store.changed:
            if _WIDE in self._store.objects:
                self._store.remove(_WIDE)
                return
            requests = {f"made-up.example/{number}": "1" for number in range(_WIDE_RESOURCES)}
            container = {"name": "c", "image": "pause", "resources": {"requests": requests, "limits": requests}}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "status": {"phase": "Pending"}}
            self._store.put(_WIDE, {**body, "spec": {"priority": 0, "containers": [container]}})

    def _edit(self) -> None:
        name = self._rng.choice(("one", "two"))
        key = Key(*_POLICIES, name=name)
        with self._store.changed:
            if key in self._store.objects and self._rng.random() < 0.4:
                self._store.remove(key)
                return
            old = self._store.objects.get(key, {"metadata": {}})
            head = {"apiVersion": _POLICIES[0], "kind": "SlackPolicy"}
            self._store.put(key, {**old, **head, "spec": self._rng.choice(_SPECS)})
