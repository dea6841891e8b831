"""A cluster in which accidents befall what is ours: the real loop, and the controllers as far as they matter for it.

The ReplicaSet controller goes by owner and selector, takes in what has no owner, releases what does not match any more,
and passes over finished pods; the scheduler knows room, taints and cordons; a ResourceQuota of ours refuses pods. Every
write is looked at the moment it is made.
"""

import json
from collections.abc import Callable
from typing import Any

from slack.cluster.hold import UNBOUND_SCHEDULER, Hold
from slack.cluster.labels import CREATION_BLOCK, LABEL_PLACEHOLDER, LABEL_POLICY, LABEL_SHAPE
from slack.cluster.quantity import amount
from slack.planner.objects.manifests import replica_set_name
from slack_operator.placeholders.reconciliation import Reconciliation
from tests.operator.fakes import NAMESPACE, Json, World, node, pod, policy

SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CLASS = "/apis/scheduling.k8s.io/v1/priorityclasses/resource-slack"
DEFAULTED = {"dnsPolicy": "ClusterFirst"}
COST = "controller.kubernetes.io/pod-deletion-cost"


def cpu_of(item: Json) -> int:
    """Return the millicores that a pod, or a template, requests."""
    return _requested(item, "cpu")


def _requested(item: Json, name: str) -> int:
    containers = item["spec"]["containers"]
    return sum(amount(name, str(c.get("resources", {}).get("requests", {}).get(name, "0"))) for c in containers)


def _has(item: Json, name: str) -> int:
    return amount(name, item["status"]["allocatable"][name])


class AccidentWorld(World):
    """See the module's docstring. `accident` names below are methods; each returns the uids of pods that it touches."""

    def __init__(self, *, ceiling: int | None, rate: float, cover: str, hold: Hold = Hold.BOUND) -> None:
        self.ceiling = ceiling
        self.hold = hold
        self.plan: dict[str, int] = {}
        """Replicas by ReplicaSet, as the last plan has them."""
        self.quiet = False
        """No accident since the operator last had its turns."""
        self.number = 0
        self.changed_by_admission: Callable[[Json], Any] = lambda _metadata: None
        """What it makes of each placeholder's metadata."""
        super().__init__(nodes=4, pods=10)
        spec: Json = {"extraCapacity": {"minRate": rate}, "cover": {"mode": cover}}
        if ceiling is not None:
            spec["extraCapacity"]["ceiling"] = {"cpu": f"{ceiling}m", "memory": "64Gi"}
        self.apply_policy(policy("web", **spec))

    def restart(self) -> None:
        super().restart()
        self.on_reconciled = self._see
        request = self.api.request

        def watched(*args: Any, **kwargs: Any) -> bytes:
            before = self.asked()
            answer = request(*args, **kwargs)
            if self.ceiling is not None:
                assert self.asked() <= max(self.ceiling, before), "no write of ours asks for more than the ceiling"
            return answer

        self.actuator._writer._connection.request = watched  # type: ignore[method-assign]

    def observe_cluster(self) -> None:
        """As the watch has it, which leaves finished pods out."""
        everything, alive = self.api.objects, self.alive()
        unfinished = {p: i for p, i in everything.items() if not p.startswith(PODS) or p.rpartition("/")[2] in alive}
        self.api.objects = unfinished
        super().observe_cluster()
        self.api.objects = everything

    def _see(self, seen: Reconciliation) -> None:
        self.plan = {
            replica_set_name(item.policy, shape.shape): shape.replicas for item in seen.items for shape in item.shapes
        }

    # -- what is there -------------------------------------------------------------------------------------------

    def alive(self) -> dict[str, Json]:
        """Placeholders that use room: those of the plan, and what was made of them."""
        return {
            name: item
            for name, item in self.placeholders().items()
            if item["status"].get("phase") not in ("Failed", "Succeeded")
        }

    def bound(self) -> set[str]:
        """Return the uids of those that are on a node, or that are unbound."""
        return {
            item["metadata"]["uid"]
            for item in self.alive().values()
            if item["spec"].get("nodeName") or self.hold is Hold.UNBOUND
        }

    def asked(self) -> int:
        """Return the millicores that ReplicaSets ask for, or that their pods have."""
        total, left = 0, list(self.alive().values())
        for item in self.api.items("replicasets").values():
            selector = item["spec"]["selector"]["matchLabels"].items()
            mine = [
                p
                for p in left
                if self._owner(p) == item["metadata"]["uid"]
                or (not p["metadata"].get("ownerReferences") and selector <= p["metadata"].get("labels", {}).items())
            ]
            left = [p for p in left if p not in mine]
            size = cpu_of(item["spec"]["template"])
            total += sum(map(cpu_of, mine)) + max(item["spec"]["replicas"] - len(mine), 0) * size
        return total + sum(map(cpu_of, left))

    @staticmethod
    def _owner(item: Json) -> str:
        owners = [o for o in item["metadata"].get("ownerReferences", ()) if o.get("controller")]
        return str(owners[0]["uid"]) if owners else ""

    # -- Kubernetes ----------------------------------------------------------------------------------------------

    def controllers(self) -> None:
        """The ReplicaSet controller, then the scheduler; the ceiling is looked at after each step."""
        for name, item in sorted(self.api.items("replicasets").items()):
            if not item["metadata"].get("deletionTimestamp"):
                self._sync(name, item)
        self._schedule()
        if self.quiet and self.ceiling is not None:
            assert sum(map(cpu_of, self.alive().values())) <= self.ceiling, "the ceiling at every instant"

    def _sync(self, name: str, item: Json) -> None:
        uid, selector = item["metadata"]["uid"], item["spec"]["selector"]["matchLabels"]
        for found in self.alive().values():
            matches = selector.items() <= found["metadata"].get("labels", {}).items()
            if self._owner(found) == uid and not matches:
                found["metadata"]["ownerReferences"] = []
            elif matches and not found["metadata"].get("ownerReferences"):
                reference = {"kind": "ReplicaSet", "name": name, "uid": uid, "controller": True}
                found["metadata"]["ownerReferences"] = [reference]
        mine = [p for p in self.alive().values() if self._owner(p) == uid]
        mine.sort(
            key=lambda p: (
                bool(p["spec"].get("nodeName")),
                int(p["metadata"].get("annotations", {}).get(COST, 0)),
                -int(p["metadata"]["name"].rpartition("-")[2]),
            )
        )
        wanted = item["spec"]["replicas"]
        for gone in mine[: max(0, len(mine) - wanted)]:
            del self.api.objects[f"{PODS}/{gone['metadata']['name']}"]
        refused = any(path.endswith(f"/{CREATION_BLOCK}") for path in self.api.objects)
        for _ in range(0 if refused else wanted - len(mine)):
            self._new_placeholder(name, item)
        item["status"] = {"replicas": wanted}

    def _new_placeholder(self, name: str, item: Json) -> None:
        if CLASS not in self.api.objects:
            return  # admission knows no such class
        super()._new_placeholder(name, item)
        made = self.api.objects[f"{PODS}/{name}-{self.made:05d}"]
        made["spec"]["nodeName"] = None
        self.changed_by_admission(made["metadata"])
        made["metadata"]["creationTimestamp"] = "2027-01-15T08:00:00Z"
        if made["spec"]["schedulerName"] != UNBOUND_SCHEDULER:
            made["status"] = {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
            }

    def _schedule(self) -> None:
        nodes = {name: item for name, item in self.api.items("nodes").items() if self._takes(item)}
        free = {node: {name: _has(item, name) for name in ("cpu", "memory")} for node, item in nodes.items()}
        pods = list(self.api.items("pods").values())
        for item in pods:
            at = item["spec"].get("nodeName")
            if at in free and item["status"].get("phase") != "Failed":
                self._take(free[at], item)
        for item in sorted(pods, key=lambda p: (p["metadata"]["namespace"] == NAMESPACE, p["metadata"]["name"])):
            if item["spec"].get("schedulerName") == UNBOUND_SCHEDULER:
                continue
            fits = (node for node in sorted(free) if all(_requested(item, r) <= left for r, left in free[node].items()))
            room = next(fits, None)
            if not item["spec"].get("nodeName") and room and not item["spec"].get("nodeSelector"):
                item["spec"]["nodeName"] = room
                item["status"] = {"phase": "Running"}
                self._take(free[room], item)

    @staticmethod
    def _take(free: dict[str, int], item: Json) -> None:
        for name in free:
            free[name] -= _requested(item, name)

    @staticmethod
    def _takes(item: Json) -> bool:
        return not item.get("spec", {}).get("unschedulable") and not item.get("spec", {}).get("taints")

    def turn(self, seconds: float = 1.0) -> None:
        """Let the operator turn once and the others follow."""
        self.reconcile(seconds=seconds)

    # -- accidents -----------------------------------------------------------------------------------------------

    def _pick(self, items: dict[str, Json], which: int) -> str | None:
        names = sorted(items)
        return names[which % len(names)] if names else None

    def _write(self, which: int, change: Callable[[Json], None]) -> None:
        if name := self._pick(self.api.items("replicasets"), which):
            self.number += 1
            self.api.written_by(f"writer-{self.number}", f"{SETS}/{name}", change)

    def scale(self, which: int, count: int) -> set[str]:
        """Somebody scales a ReplicaSet; whoever scales it down takes placeholders away."""
        before = self.bound()
        self._write(which, lambda item: item["spec"].update(replicas=count * 8))
        if count % 2:
            self.controllers()  # it is quicker than the operator
        return before if count == 0 else before - self.bound()

    def delete_set(self, which: int, count: int) -> set[str]:
        """A ReplicaSet goes, its pods with it or, by --cascade=orphan, without an owner."""
        name = self._pick(self.api.items("replicasets"), which)
        if name is None:
            return set()
        uid = self.api.objects.pop(f"{SETS}/{name}")["metadata"]["uid"]
        touched = set()
        for key, item in self.alive().items():
            if self._owner(item) != uid:
                continue
            if count % 2:
                item["metadata"]["ownerReferences"] = []
            else:
                touched.add(item["metadata"]["uid"])
                del self.api.objects[f"{PODS}/{key}"]
        return touched

    def delete_pods(self, which: int, count: int) -> set[str]:
        """Placeholders are deleted, as by a preemption."""
        gone = sorted(self.alive())[which : which + count]
        return {self.api.objects.pop(f"{PODS}/{name}")["metadata"]["uid"] for name in gone}

    def fail_pods(self, which: int, count: int) -> set[str]:
        """The kubelet evicts placeholders: they stay as failed ones."""
        failed = [self.alive()[name] for name in sorted(self.alive())[which : which + count]]
        for item in failed:
            item["status"] = {"phase": "Failed", "reason": "Evicted"}
        return {item["metadata"]["uid"] for item in failed}

    def relabel_pod(self, which: int, count: int) -> set[str]:
        """A placeholder's labels are changed or taken away."""
        name = self._pick(self.alive(), which)
        if name is None:
            return set()
        metadata = self.alive()[name]["metadata"]
        changes: list[Json] = [
            {LABEL_SHAPE: "00000000"},
            {LABEL_POLICY: "nobody"},
            {LABEL_SHAPE: "00000000", LABEL_POLICY: "nobody"},
            {"somebody.io/label": "x"},
        ]
        metadata["labels"] = {**metadata["labels"], **changes[count % len(changes)]}
        return {metadata["uid"]}

    def relabel_set(self, which: int, count: int) -> set[str]:
        """What tells that a ReplicaSet is ours is changed or taken away."""
        changes: list[Callable[[Json], None]] = [
            lambda item: item["metadata"].update(labels={}),
            lambda item: item["metadata"]["labels"].pop(LABEL_PLACEHOLDER, None),
            lambda item: item["metadata"]["labels"].update({LABEL_POLICY: "nobody"}),
            lambda item: item["metadata"].update(ownerReferences=[]),
            lambda item: item["metadata"]["annotations"].update({"resource-slack.io/applied": "x"}),
            lambda item: item["metadata"]["annotations"].pop("resource-slack.io/role", None),
        ]
        self._write(which, changes[count % len(changes)])
        return set()

    def adopt(self, which: int, count: int) -> set[str]:
        """Another controller's object makes itself the owner of a ReplicaSet, beside the policy or in its place."""
        theirs = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "theirs", "uid": "d", "controller": True}

        def change(item: Json) -> None:
            ours = [{**o, "controller": False} for o in item["metadata"]["ownerReferences"]] if count % 2 else []
            item["metadata"]["ownerReferences"] = [*ours, theirs]

        self._write(which, change)
        return set()

    def edit_template(self, which: int, count: int) -> set[str]:
        """Somebody edits a template; sometimes placeholders are made from it before the operator sees it."""
        changes: list[Callable[[Json], Any]] = [
            lambda spec: spec["containers"][0]["resources"]["requests"].update(cpu="10m"),
            lambda spec: spec["containers"].append({"name": "more", "image": "more", "resources": {}}),
            lambda spec: spec.update(nodeSelector={"pool": "gpu"}),
            lambda spec: spec.update(priorityClassName="high"),
            lambda spec: spec.setdefault("tolerations", []).append({"operator": "Exists"}),
        ]
        self._write(which, lambda item: changes[count % len(changes)](item["spec"]["template"]["spec"]))
        touched = self.delete_pods(which, count)
        self.controllers()
        return touched | {
            item["metadata"]["uid"]
            for item in self.alive().values()
            if cpu_of(item) < 100 or "high" in json.dumps(item)
        }

    def taint(self, which: int, count: int) -> set[str]:
        """A node is tainted, cordoned, or free again."""
        nodes = self.api.items("nodes")
        name = self._pick(nodes, which)
        states: list[Json] = [
            {},
            {"unschedulable": True},
            {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        ]
        if name is not None:
            nodes[name]["spec"] = states[count % len(states)]
        return set()

    def load(self, which: int, count: int) -> set[str]:
        """Real pods come or go."""
        for number in range(count):
            path = f"/api/v1/namespaces/shop/pods/more-abc-{which}{number}"
            if self.api.objects.pop(path, None) is None:
                self.api.put(path, pod(path.rpartition("/")[2], cpu="1", memory="2Gi"))
        return set()

    def new_node(self, which: int, count: int) -> set[str]:
        """A node comes."""
        self.api.put(f"/api/v1/nodes/n{which + 4}", node(f"n{which + 4}"))
        return set()

    def restart_operator(self, which: int, count: int) -> set[str]:
        """Another process takes over."""
        self.restart()
        return set()

    def change_class(self, which: int, count: int) -> set[str]:
        """The PriorityClass goes, or becomes the default of all pods."""
        if count % 2:
            self.api.objects.pop(CLASS, None)
        elif CLASS in self.api.objects:
            self.api.objects[CLASS]["globalDefault"] = True
        return set()


ACCIDENTS = (
    "scale",
    "scale",
    "delete_set",
    "delete_pods",
    "fail_pods",
    "relabel_pod",
    "relabel_set",
    "adopt",
    "edit_template",
    "taint",
    "load",
    "new_node",
    "restart_operator",
    "change_class",
)
