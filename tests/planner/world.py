"""A small cluster that carries plans out: ReplicaSets, a scheduler, an autoscaler, real pods that come and go.

Everything is in whole objects, as the API server would show them, and goes through `ClusterColumns`; only the pieces of
Kubernetes that the planner counts on are imitated. `round` is one pass of everybody; `settle` repeats it until nothing
changes, and `steps` records every state in between, for what must hold at every instant.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np

from slack.cluster.classes import NodeClass, Taint, admits
from slack.cluster.labels import LABEL_HOLD, UNBOUND
from slack.cluster.snapshot import Snapshot
from slack.planner.model.pool import Pool
from slack.planner.model.result import AutoscalerEvent, ExistingShape, Plan, PlannerState, PolicyPlan
from slack.planner.model.shape import Role, Shape
from slack.planner.objects.manifests import pod_spec, replica_set_name
from slack.planner.plan import plan
from slack.planner.policy.spec import Policy
from tests.cluster.build import NOW, Json, columns_of, node, placeholder, pod

ZONE = "topology.kubernetes.io/zone"
Amounts = tuple[int, int]
"""cpu in millicores, memory in bytes."""
Labels = tuple[tuple[str, str], ...]
MI = 1 << 20


@dataclass(frozen=True)
class Group:
    """A node group of the autoscaler; memory in bytes, as everywhere here."""

    cpu: int
    memory: int
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    most: int = 50

    @property
    def node_class(self) -> NodeClass:
        return NodeClass(tuple(sorted(self.labels)), self.taints)


@dataclass
class Node:
    """A node that is there."""

    name: str
    group: Group


@dataclass
class Real:
    """A real pod; `selector` is its node selector."""

    name: str
    owner: str
    cpu: int
    memory: int
    selector: tuple[tuple[str, str], ...] = ()
    created: float = NOW
    node: str | None = None


@dataclass
class Holder:
    """A placeholder pod."""

    uid: str
    shape: Shape
    policy: str
    created: float
    node: str | None = None
    """Where it is bound, or where an unbound one fits."""
    added: Amounts = (0, 0)
    """What admission has added to its requests."""

    @property
    def unbound(self) -> bool:
        """Whether no scheduler binds it."""
        return bool(self.shape.unbound_scheduler)

    @property
    def amounts(self) -> Amounts:
        """What it requests."""
        cpu, memory = amounts_of(self.shape)
        return cpu + self.added[0], memory + self.added[1]


@dataclass
class Set:
    """A ReplicaSet of placeholders."""

    policy: str
    shape: Shape
    role: Role
    replicas: int
    retiring: bool = False


def amounts_of(shape: Shape) -> Amounts:
    """Return a shape's cpu and memory."""
    requests = dict(shape.requests)
    return requests.get("cpu", 0), requests.get("memory", 0)


@dataclass
class World:
    """The cluster; `shuffle` is a seed for the order in which objects are listed."""

    groups: Sequence[Group]
    policies: Sequence[Policy]
    now: float = NOW
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Real] = field(default_factory=dict)
    holders: dict[str, Holder] = field(default_factory=dict)
    sets: dict[tuple[str, str], Set] = field(default_factory=dict)
    pools: Sequence[Pool] = ()
    """What is announced, at every moment as it was observed just now."""
    planner_state: PlannerState = field(default_factory=dict)
    events: list[AutoscalerEvent] = field(default_factory=list)
    autoscaler: bool = True
    removes_nodes: bool = True
    writes: int = 0
    born: int = 0
    shuffle: int | None = None
    admission: Callable[[int], Amounts] | None = None
    """What admission adds to the placeholder that is born as the so many-th."""
    history: list[tuple[int, int]] = field(default_factory=list)
    """(cpu, memory) of all placeholders after every action."""
    churn: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("made", "displaced", "drained", "grown"), 0))
    """Placeholders that were made, and what for: see `_write`."""
    needless: list[str] = field(default_factory=list)
    """What the planner has done to placeholders without one of the reasons that there are."""

    # -- what the planner sees -----------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return the cluster as the operator's columns show it."""
        items: list[Json] = [
            node(
                n.name,
                f"{n.group.cpu}m",
                str(n.group.memory),
                labels=dict(n.group.labels),
                taints=[{"key": t.key, "value": t.value, "effect": t.effect} for t in n.group.taints],
            )
            for n in self.nodes.values()
        ]
        items += [
            pod(
                p.name,
                cpu=f"{p.cpu}m",
                memory=str(p.memory),
                node=p.node,
                owner=("ReplicaSet", p.owner),
                nodeSelector=dict(p.selector) or None,
                created=_text(p.created),
            )
            for p in self.pods.values()
        ]
        for h in self.holders.values():
            cpu, memory = h.amounts
            refused = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
            items.append(
                placeholder(
                    h.uid,
                    f"{cpu}m",
                    str(memory),
                    policy=h.policy,
                    shape=h.shape.name,
                    node=None if h.unbound else h.node,
                    created=_text(h.created),
                    status=refused if h.unbound or h.node is None else None,
                    **(_unbound_parts(h) if h.unbound else {}),
                )
            )
        if self.shuffle is not None:
            random.Random(self.shuffle).shuffle(items)
        columns = columns_of(*items)
        columns.require_labels({ZONE, *(key for p in self.policies for key in p.spec.node_selector)})
        return columns.snapshot(self.now)

    def existing(self) -> list[ExistingShape]:
        """Return the ReplicaSets that are there."""
        found = [ExistingShape(s.policy, s.shape, s.role, s.replicas, s.retiring) for s in self.sets.values()]
        if self.shuffle is not None:
            random.Random(self.shuffle).shuffle(found)
        return found

    def plan(self) -> Plan:
        """Return the plan for now; nothing is carried out."""
        return plan(
            self.snapshot(),
            self.policies,
            now=self.now,
            existing=self.existing(),
            events=self.events,
            state=self.planner_state,
            pools=[replace(pool, observed_at_seconds=self.now) for pool in self.pools],
        )

    # -- what the operator does ----------------------------------------------------------------------------------

    def operate(self) -> Plan:
        """Plan once and write the difference, victims first, as the operator does."""
        result = self.plan()
        self.planner_state = result.state
        for item in result.items:
            if not item.act:
                continue
            for shape in sorted(item.shapes, key=lambda shape: shape.change.remove == 0):  # lowered first
                replicas = shape.replicas if shape.at_first is None else shape.at_first
                self._judge(item, shape.shape, shape.role, replicas)
                self._write(item.policy, shape.shape, shape.role, replicas, shape.retiring, shape.victims)
        return result

    def _judge(self, item: PolicyPlan, shape: Shape, role: Role, replicas: int) -> None:
        """Count what grows: what is wanted is not there, or no placeholder that is as large and goes as far.

        A bound placeholder that leaves must be one too many, or above a ceiling.
        """
        sets = [s for s in self.sets.values() if s.policy == item.policy and not s.role.for_named]
        there = self.sets.get((item.policy, shape.name))
        before = there.replicas if there else 0
        room = np.array([sum(s.replicas * amounts_of(s.shape)[r] for s in sets) for r in (0, 1)])
        size, desired = np.array(amounts_of(shape)), item.desired[:2]
        for number in range(before, replicas):
            alike = [s for s in sets if s.replicas and s.shape.constraints == shape.constraints]
            covers = any((np.array(amounts_of(s.shape)) >= size).all() for s in alike)
            if ((room < desired) & (size > 0)).any() or (role is Role.COVER and not (covers or number > before)):
                self.churn["grown"] += 1
            elif not role.for_named:
                self.needless.append(f"made {shape.requests} {role}: {room} of {desired}")
            room = room + size
        ceiling = next(p.spec.extra_capacity.ceiling for p in self.policies if p.name == item.policy)
        most = np.array([ceiling.get(name, 1 << 62) for name in ("cpu", "memory")])
        # Pending ones go first: what was displaced is not made again in a size that nothing should ask a node for.
        bound = sum(h.node is not None for h in self._of((item.policy, shape.name)))
        room = room - max(before - max(bound, replicas), 0) * size
        for _ in range(replicas, min(bound, before) if not role.for_named else replicas):
            # S6: what is larger than every pod is not made again when it is displaced.
            asked_for = any(p.cpu >= size[0] and p.memory >= size[1] for p in self.pods.values())
            if asked_for and ((room - size < desired) & (size > 0)).any() and (room <= most).all():
                self.needless.append(f"removed {shape.requests} {role}: {room} of {desired}")
            room = room - size

    def _write(
        self, policy: str, shape: Shape, role: Role, replicas: int, retiring: bool, victims: Sequence[str]
    ) -> None:
        key, there = (policy, shape.name), self.sets.get((policy, shape.name))
        wanted = Set(policy, shape, role, replicas, retiring)
        if there != wanted:
            self.writes += 1
            self.sets[key] = wanted
        mine = self._of(key)
        order = sorted(
            mine,
            key=lambda h: (
                h.node is not None,
                victims.index(h.uid) if h.uid in victims else len(victims),
                -h.created,
                h.uid,
            ),
        )
        for holder in order[: max(len(mine) - replicas, 0)]:
            del self.holders[holder.uid]
        if retiring and replicas == 0:
            del self.sets[key]
        self._note()

    def _of(self, key: tuple[str, str]) -> list[Holder]:
        return [h for h in self.holders.values() if (h.policy, h.shape.name) == key]

    def _note(self) -> None:
        rows = [h.amounts for h in self.holders.values()]
        self.history.append((sum(r[0] for r in rows), sum(r[1] for r in rows)))

    # -- what Kubernetes does ------------------------------------------------------------------------------------

    def control(self) -> None:
        """The ReplicaSet controller: as many pods as are asked for."""
        for key, rs in sorted(self.sets.items()):
            for _ in range(rs.replicas - len(self._of(key))):
                self.born += 1
                self.churn["made"] += 1
                uid = f"{replica_set_name(rs.policy, rs.shape)}-{self.born:05d}"
                added = self.admission(self.born) if self.admission else (0, 0)
                self.holders[uid] = Holder(uid, rs.shape, rs.policy, self.now, added=added)
        self._note()

    def free(self) -> dict[str, list[int]]:
        """Return what every node has left: cpu, memory."""
        left = {n.name: [n.group.cpu, n.group.memory] for n in self.nodes.values()}
        for p in self.pods.values():
            if p.node:
                left[p.node][0] -= p.cpu
                left[p.node][1] -= p.memory
        for h in self.holders.values():
            if h.node:
                cpu, memory = h.amounts
                left[h.node][0] -= cpu
                left[h.node][1] -= memory
        return left

    def schedule(self) -> None:
        """The scheduler: real pods first and by preemption where they must, then placeholders; first fit.

        It does not see unbound ones; where they fit is as the planner sees it.
        """
        for h in self.holders.values():
            h.node = None if h.unbound else h.node
        for p in sorted(self.pods.values(), key=lambda p: p.name):
            if p.node is None:
                self._place(p)
        for h in sorted(self.holders.values(), key=lambda h: h.uid):
            if h.node is None and not h.unbound:
                left = self.free()
                cpu, memory = h.amounts
                for n in sorted(self.nodes.values(), key=lambda n: n.name):
                    room = left[n.name]
                    if admits(h.shape.constraints, n.group.node_class) and room[0] >= cpu and room[1] >= memory:
                        h.node = n.name
                        break

        if any(h.unbound for h in self.holders.values()):
            seen = self.snapshot()
            fits = {p.name: seen.nodes.names[p.node] for p in seen.placeholders if p.unbound and p.node >= 0}
            for h in self.holders.values():
                h.node = fits.get(h.uid) if h.unbound else h.node

    def _place(self, p: Real) -> None:
        left = self.free()
        can = [n for n in sorted(self.nodes.values(), key=lambda n: n.name) if self._allows(n, p)]
        for n in can:
            if left[n.name][0] >= p.cpu and left[n.name][1] >= p.memory:
                p.node = n.name
                return
        best: tuple[int, str, list[str]] | None = None
        for n in can:
            gone, cpu, memory = [], *left[n.name]
            for h in sorted((h for h in self.holders.values() if h.node == n.name), key=lambda h: h.uid):
                if cpu >= p.cpu and memory >= p.memory:
                    break
                gone.append(h.uid)
                cpu, memory = cpu + h.amounts[0], memory + h.amounts[1]
            if cpu >= p.cpu and memory >= p.memory and (best is None or len(gone) < best[0]):
                best = len(gone), n.name, gone
        if best:
            self.churn["displaced"] += len(best[2])
            for uid in best[2]:
                del self.holders[uid]
            p.node = best[1]

    @staticmethod
    def _allows(n: Node, p: Real) -> bool:
        labels = dict(n.group.labels)
        return not n.group.taints and all(labels.get(k) == v for k, v in p.selector)

    def autoscale(self) -> None:
        """The autoscaler: a node for each pending pod that one would help; nodes that are empty go."""
        if not self.autoscaler:
            return
        waiting: list[tuple[int, int, Labels, Shape | None]]
        waiting = [(p.cpu, p.memory, p.selector, None) for p in self.pods.values() if p.node is None]
        waiting += [(*h.amounts, (), h.shape) for h in self.holders.values() if h.node is None]
        for cpu, memory, selector, shape in waiting:
            for group in self.groups:
                labels = dict(group.labels)
                fits = group.cpu >= cpu and group.memory >= memory
                allowed = (
                    admits(shape.constraints, group.node_class)
                    if shape
                    else not group.taints and all(labels.get(k) == v for k, v in selector)
                )
                if fits and allowed and sum(n.group is group for n in self.nodes.values()) < group.most:
                    self.add_node(group)
                    break
        used = {p.node for p in self.pods.values()} | {h.node for h in self.holders.values()}
        if self.removes_nodes and not waiting:
            for name in [n for n in self.nodes if n not in used]:
                group = self.nodes[name].group
                if sum(n.group is group for n in self.nodes.values()) > 1:  # the last of a group stays: a known size
                    del self.nodes[name]

    def add_node(self, group: Group) -> None:
        """Add one node of a group."""
        self.born += 1
        name = f"n{self.born:05d}"
        self.nodes[name] = Node(name, group)

    def add_pods(self, owner: str, count: int, cpu: int, memory_mi: int, selector: Labels = ()) -> None:
        """Create real pods of one workload."""
        for _ in range(count):
            self.born += 1
            name = f"{owner}-{self.born:05d}"
            self.pods[name] = Real(name, owner, cpu, memory_mi * MI, selector, self.now)

    # -- time ----------------------------------------------------------------------------------------------------

    def round(self, seconds: float = 10.0, *, restart: bool = False) -> Plan:
        """Let everybody act once."""
        if restart:
            self.planner_state = {}
        result = self.operate()
        self.control()
        self.schedule()
        self.autoscale()
        self.schedule()
        self.now += seconds
        return result

    def state(self) -> tuple[object, ...]:
        """Return what a user would see: ReplicaSets, placeholders with their nodes, nodes."""
        return (
            sorted((k, s.replicas, s.role, s.retiring) for k, s in self.sets.items()),
            sorted((h.uid, h.node or "") for h in self.holders.values()),
            sorted(self.nodes),
        )

    def goal(self) -> tuple[object, ...]:
        """Return which shapes there are, and how many placeholders of each are bound."""
        bound = {key: sum(h.node is not None for h in self._of(key)) for key in self.sets}
        return tuple(sorted((k, s.replicas, s.role, bound[k]) for k, s in self.sets.items()))

    def settle(self, *, seconds: float = 10.0, quiet: int = 3, most: int = 120, restart: bool = False) -> Plan:
        """Let rounds pass until nothing has changed in `quiet` of them and the shrink delay has passed as well."""
        unchanged, result = 0, self.round(seconds, restart=restart)
        for _ in range(most):
            before = self.state()
            result = self.round(seconds, restart=restart)
            unchanged = unchanged + 1 if self.state() == before else 0
            if unchanged >= quiet:
                return result
        raise AssertionError(f"nothing settles: {self.state()}")

    def pass_time(self, seconds: float) -> Plan:
        """Settle, let time pass in big steps, settle again."""
        self.settle()
        for _ in range(4):
            self.now += seconds / 4
            self.settle()
        return self.settle()


def fingerprint(result: Plan) -> str:
    """Return a plan as text, byte for byte."""

    def plain(value: object) -> object:
        if isinstance(value, np.ndarray):
            return value.tolist()
        if isinstance(value, Mapping):
            return sorted((str(k), plain(v)) for k, v in value.items())
        if isinstance(value, tuple | list):
            return [plain(v) for v in value]
        return repr(value)

    first = ("policy", "nodes", "rate", "base", "desired", "planned", "reserved", "shapes", "pushed_out")
    fields = (*first, "uncovered", "conditions", "covered_by", "act")
    return repr([[plain(getattr(item, name)) for name in fields] for item in result.items])


def copy(world: World, **changes: object) -> World:
    """Return a world that can go its own way."""
    twin = replace(world, **changes)  # type: ignore[arg-type]
    twin.nodes = dict(world.nodes)
    twin.pods = {k: replace(p) for k, p in world.pods.items()}
    twin.holders = {k: replace(h) for k, h in world.holders.items()}
    twin.sets = {k: replace(s) for k, s in world.sets.items()}
    twin.history = []
    twin.churn, twin.needless = dict(world.churn), list(world.needless)
    return twin


def _unbound_parts(h: Holder) -> Json:
    """Return what tells where an unbound placeholder may go."""
    template = pod_spec(h.policy, h.shape, "pause")
    parts: Json = {key: template[key] for key in ("nodeSelector", "tolerations", "affinity") if key in template}
    return {"labels": {LABEL_HOLD: UNBOUND}, **parts}


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
