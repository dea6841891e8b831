"""Owners of pods as their watches show them, and what they are about to make: promises, before the first pod is there.

Of owners that are as they should be only what ReplicaSets of Deployments have of numbers is kept, for the two must be
looked at together; a template is kept for as long as a promise is. What is found in a list promises nothing:
its pods are long on their way. A promise is less with each pod of the owner that appears, and none is made twice: what
has appeared counts as there until the owner's status has caught up. Owned by the view, under its lock; the time comes
in.

Memory and the work for an event are bounded, whatever tenants write: `MOST` promises of `MOST_TEMPLATE_BYTES`, and of a
Deployment with more than `MOST_SETS` ReplicaSets only the one that asks for pods is looked at.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slack.cluster import wire
from slack.kube.watch import EventType
from slack.planner.burst_eviction.promises import (
    Promise,
    of_deployment,
    of_job,
    of_replica_set,
    of_stateful_set,
    slim_replica_set,
)

KEPT_SECONDS = 5.0
"""A promise without a pod for so long is none."""
MOST = 2000
"""Promises at a time; owners beyond are left to the scheduler."""
MOST_TEMPLATE_BYTES = 64 * 1024
"""Of one promise; a pod template has some KiB without what is not read."""
MOST_SETS = 100
"""ReplicaSets of a Deployment that are looked at together; ten old ones are kept by default."""
_PART_BYTES = 200
"""Of a container, of a port and of a volume, beside the text that is kept of it."""
_LATELY_SECONDS = 2.0
"""Pods that have appeared within may not be in their owner's status yet."""
_MOST_APPEARED = 20_000
_Owner = tuple[str, str]
"""Namespace and uid. The uid alone would not do: whoever makes an object may name an owner in another namespace."""


@dataclass(slots=True)
class Outstanding:
    """What an owner has promised and not made yet."""

    promise: Promise
    left: int
    """Pods that are still to come."""
    base: int
    """Pods that the owner had when it first promised."""
    appeared: int
    """Pods that have come since."""
    deadline: float
    """Monotonic: without another pod until then the rest does not come."""
    early: bool
    """It follows from the Deployment; its ReplicaSet has not been told yet."""


class Owners:
    """See the module's docstring."""

    def __init__(self) -> None:
        self.promised: dict[str, Outstanding] = {}
        """By uid of the owner that will control the pods."""
        self._news = False
        """More is promised than was told."""
        self._sets: dict[_Owner, dict[str, wire.ReplicaSet]] = {}
        """ReplicaSets by their Deployment, then by their own uid; only what promises follow from."""
        self._asking: dict[_Owner, set[str]] = {}
        """Those of them that ask for pods."""
        self._unseen: set[tuple[_Owner, str]] = set()
        """While a list of ReplicaSets is read: those that it has not shown yet."""
        self._kept: set[tuple[str, str]] = set()
        """While a list of ReplicaSets is read: namespace and uid of those that it has and that cannot be read."""
        self._lately: deque[tuple[float, _Owner]] = deque()
        """When pods appeared, and whose."""
        self._count_lately: Counter[_Owner] = Counter()
        """The same by owner: a tenant may have thousands of ReplicaSets, and each is asked for."""

    def known_sets(self) -> list[tuple[_Owner, list[str]]]:
        """Return the uids of all ReplicaSets by their Deployment: a copy, for `begin_sets`."""
        return [(owner, list(sets)) for owner, sets in self._sets.items()]

    def begin_sets(self, known: Sequence[tuple[_Owner, list[str]]]) -> None:
        """A new list of ReplicaSets begins; needs no lock, for only who reads the list asks for what this keeps."""
        self._unseen = {(owner, uid) for owner, uids in known for uid in uids}
        self._kept = set()

    def keep_set(self, namespace: str, uid: str) -> None:
        """The list has a ReplicaSet that cannot be read."""
        self._kept.add((namespace, uid))

    def end_sets(self) -> Sequence[tuple[_Owner, str]]:
        """The list is whole: return what it does not have, for `drop_sets`; needs no lock either."""
        gone = tuple((owner, uid) for owner, uid in self._unseen if (owner[0], uid) not in self._kept)
        self._unseen, self._kept = set(), set()
        return gone

    def drop_sets(self, gone: Iterable[tuple[_Owner, str]]) -> None:
        """Forget ReplicaSets that went unseen."""
        for owner, uid in gone:
            self._drop_set(owner, uid)

    def applied(self, event: EventType, owner: wire.Workload, now: float, *, listing: bool) -> None:
        """An owner as an event has it, or a list."""
        uid = owner.metadata.uid or ""
        if event is EventType.DELETED:
            self._forget(owner, uid)
        elif isinstance(owner, wire.ReplicaSet):
            self._apply_set(owner, uid, now, listing=listing)
        elif listing:
            return
        elif isinstance(owner, wire.Deployment):
            self._apply_deployment(owner, uid, now)
        elif isinstance(owner, wire.StatefulSet):
            there = self._there(owner.metadata, _replicas(owner), now)
            self._promises(uid, of_stateful_set(owner, there), there, now)
        elif isinstance(owner, wire.Job):
            there = self._there(owner.metadata, (owner.status.active or 0) if owner.status is not None else 0, now)
            self._promises(uid, of_job(owner, there), there, now)

    def appeared(self, namespace: str, owner: str, now: float) -> None:
        """A pod of an owner is there that was not; '' for one that nobody owns."""
        if not owner:
            return
        self._forget_early(now)  # where nobody asks for what is outstanding, as on a standby, nobody else does
        if len(self._lately) == _MOST_APPEARED:
            self._drop_oldest()
        self._lately.append((now, (namespace, owner)))
        self._count_lately[namespace, owner] += 1
        known = self.promised.get(owner)
        if known is not None and known.promise.namespace == namespace:  # a pod may name whom it likes
            known.appeared += 1
            known.left = max(known.left - 1, 0)
            known.deadline = now + KEPT_SECONDS

    def take_news(self) -> bool:
        """Whether more is promised than at the last call."""
        news, self._news = self._news, False
        return news

    def outstanding(self, now: float) -> list[Outstanding]:
        """Return what is still to come; what has not come in its time is forgotten."""
        for uid in [uid for uid, known in self.promised.items() if now >= known.deadline]:
            del self.promised[uid]
        self._forget_early(now)
        return [known for known in self.promised.values() if known.left > 0]

    def _forget_early(self, now: float) -> None:
        while self._lately and self._lately[0][0] <= now - _LATELY_SECONDS:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, owner = self._lately.popleft()
        self._count_lately[owner] -= 1
        if not self._count_lately[owner]:
            del self._count_lately[owner]

    def _apply_deployment(self, owner: wire.Deployment, uid: str, now: float) -> None:
        """Say what its ReplicaSets will be told to make; they have its template, or an earlier one like it."""
        template = owner.spec.template if owner.spec is not None else None
        sets = self._sets.get((owner.metadata.namespace or "", uid), {})
        looked_at = self._looked_at(owner, uid)
        told: dict[str, Promise] = {}
        there: dict[str, int] = {}
        if looked_at is not None:
            there = {own.metadata.uid or "": self._there(own.metadata, _replicas(own), now) for own in looked_at}
            found = of_deployment(owner, [_with_template(own, template) for own in looked_at], there)
            told = {promise.owner_uid: promise for promise in found}
        for own in (*(sets.keys() & self.promised.keys()), uid):
            known = self.promised.get(own)
            if known is not None and known.early and own not in told:
                del self.promised[own]
        for own, promise in told.items():
            self._promise(promise, there.get(own, 0), now, early=True)

    def _looked_at(self, owner: wire.Deployment, uid: str) -> list[wire.ReplicaSet] | None:
        """Return the ReplicaSets that a Deployment's promise follows from; None where they are too many to tell."""
        place = owner.metadata.namespace or "", uid
        sets = self._sets.get(place, {})
        if len(sets) <= MOST_SETS:
            return list(sets.values())
        asking = self._asking.get(place, set())
        return [sets[own] for own in asking] if len(asking) == 1 else None

    def _apply_set(self, owner: wire.ReplicaSet, uid: str, now: float, *, listing: bool) -> None:
        there = self._there(owner.metadata, _replicas(owner), now)
        found = None if listing else of_replica_set(owner, there)
        controller = owner.metadata.controller()
        if controller is not None and controller.kind == "Deployment":
            key = (owner.metadata.namespace or "", controller.uid)
            self._sets.setdefault(key, {})[uid] = slim_replica_set(owner)
            if _asked(owner):
                self._asking.setdefault(key, set()).add(uid)
            else:
                self._ask_no_more(key, uid)
            self._unseen.discard((key, uid))
            early = self.promised.get(controller.uid)
            if early is not None and early.promise.namespace == key[0]:
                del self.promised[controller.uid]  # promised before there was a ReplicaSet
            if _asked(owner):
                self._drop_of_old_template(key)
            if found is not None:
                found = replace(found, key=f"{owner.metadata.namespace or ''}/deploy/{controller.name}")
        if not listing:
            self._promises(uid, found, there, now)

    def _drop_of_old_template(self, owner: _Owner) -> None:
        """Expect no pods of ReplicaSets that ask for none, as another one has got them: of a new template."""
        sets = self._sets[owner]
        for uid in sets.keys() & self.promised.keys():
            if not _asked(sets[uid]):
                self.promised[uid].left = 0  # kept for what has appeared

    def _promises(self, uid: str, promise: Promise | None, there: int, now: float) -> None:
        """Take what an owner itself is about to make, or that it makes nothing."""
        known = self.promised.get(uid)
        if promise is not None:
            self._promise(promise, there, now, early=False)
        elif known is not None and not known.early:
            known.left = 0  # kept for what has appeared

    def _promise(self, promise: Promise, there: int, now: float, *, early: bool) -> None:
        template = _kept_template(promise.template)
        if template is None:
            self.promised.pop(promise.owner_uid, None)
            return
        promise = replace(promise, template=template)
        known = self.promised.get(promise.owner_uid)
        if known is None or now >= known.deadline:
            self.promised.pop(promise.owner_uid, None)
            if len(self.promised) < MOST:
                deadline = now + KEPT_SECONDS
                self.promised[promise.owner_uid] = Outstanding(promise, promise.count, there, 0, deadline, early)
                self._news = True
            return
        if promise.count > known.left:
            known.deadline = now + KEPT_SECONDS
            self._news = True
        known.promise, known.left, known.early = promise, promise.count, early and known.early

    def _there(self, metadata: wire.Metadata, status: int, now: float) -> int:
        """How many pods an owner has: as its status says, and those that may have appeared since."""
        own = (metadata.namespace or "", metadata.uid or "")
        known = self.promised.get(own[1])
        if known is not None and now < known.deadline:
            return max(status, known.base + known.appeared)
        self._forget_early(now)
        return status + self._count_lately[own]

    def _forget(self, owner: wire.Workload, uid: str) -> None:
        self.promised.pop(uid, None)
        namespace, controller = owner.metadata.namespace or "", owner.metadata.controller()
        self._sets.pop((namespace, uid), None)
        self._asking.pop((namespace, uid), None)
        if controller is not None:
            self._drop_set((namespace, controller.uid), uid)

    def _drop_set(self, owner: _Owner, uid: str) -> None:
        sets = self._sets.get(owner, {})
        sets.pop(uid, None)
        if not sets:
            self._sets.pop(owner, None)
        self._ask_no_more(owner, uid)

    def _ask_no_more(self, owner: _Owner, uid: str) -> None:
        asking = self._asking.get(owner, set())
        asking.discard(uid)
        if not asking:
            self._asking.pop(owner, None)


def _replicas(owner: wire.ReplicaSet | wire.StatefulSet) -> int:
    return (owner.status.replicas or 0) if owner.status is not None else 0


def _asked(owner: wire.ReplicaSet) -> int:
    replicas = owner.spec.replicas if owner.spec is not None else None
    return 1 if replicas is None else replicas


def _with_template(own: wire.ReplicaSet, template: wire.PodTemplate | None) -> wire.ReplicaSet:
    """Return a ReplicaSet with another template."""
    replicas = own.spec.replicas if own.spec is not None else None
    spec = wire.ReplicatedSpec(replicas=replicas, template=template)
    return wire.ReplicaSet(metadata=own.metadata, spec=spec, status=own.status)


def _kept_template(template: wire.PodTemplate) -> wire.PodTemplate | None:
    """Return what of a template a promise is judged by, apart from its message; None where it is too long."""
    spec = template.spec or wire.PodSpec()
    labels = (template.metadata.labels if template.metadata is not None else None) or {}
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    parts = len(containers) + sum(len(own.ports or ()) for own in containers) + len(spec.volumes or ())
    size = spec.raw_bytes() + sum(len(key) + len(text) for key, text in labels.items()) + parts * _PART_BYTES
    if size > MOST_TEMPLATE_BYTES:
        return None
    return wire.PodTemplate(metadata=wire.Metadata(labels=labels), spec=spec.detach())
