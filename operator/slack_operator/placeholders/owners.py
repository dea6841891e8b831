"""Owners of pods as their watches show them, and what they are about to make: promises, before the first pod is there.

Of owners that are as they should be only what ReplicaSets of Deployments have of numbers is kept, for the two must be
looked at together; a template is read from the event that makes a promise. What is found in a list promises nothing:
its pods are long on their way. A promise is less with each pod of the owner that appears, and none is made twice: what
has appeared counts as there until the owner's status has caught up. Owned by the view, under its lock; the time comes
in.
"""

from collections import Counter, deque
from dataclasses import dataclass, replace

from slack.cluster import wire
from slack.kube.watch import EventType
from slack.planner.way.promises import Promise, of_deployment, of_job, of_replica_set, of_stateful_set

KEPT_SECONDS = 5.0
"""A promise without a pod for so long is none."""
MOST = 2000
"""Promises at a time; owners beyond are left to the scheduler."""
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
        """ReplicaSets by their Deployment, then by their own uid; without templates."""
        self._unseen: set[tuple[_Owner, str]] = set()
        """While a list of ReplicaSets is read: those that it has not shown yet."""
        self._lately: deque[tuple[float, _Owner]] = deque()
        """When pods appeared, and whose."""
        self._count_lately: Counter[_Owner] = Counter()
        """The same by owner: a tenant may have thousands of ReplicaSets, and each is asked for."""

    def begin_sets(self) -> None:
        """A new list of ReplicaSets begins."""
        self._unseen = {(owner, uid) for owner, sets in self._sets.items() for uid in sets}

    def end_sets(self) -> None:
        """The list is whole: what it does not have went unseen."""
        for owner, uid in self._unseen:
            self._drop_set(owner, uid)
        self._unseen = set()

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
        there = {own: self._there(found.metadata, _replicas(found), now) for own, found in sets.items()}
        found = of_deployment(owner, [_with_template(own, template) for own in sets.values()], there)
        told = {promise.owner_uid: promise for promise in found}
        for own in (*sets, uid):
            known = self.promised.get(own)
            if known is not None and known.early and own not in told:
                del self.promised[own]
        for own, promise in told.items():
            self._promise(promise, there.get(own, 0), now, early=True)

    def _apply_set(self, owner: wire.ReplicaSet, uid: str, now: float, *, listing: bool) -> None:
        there = self._there(owner.metadata, _replicas(owner), now)
        found = None if listing else of_replica_set(owner, there)
        controller = owner.metadata.controller()
        if controller is not None and controller.kind == "Deployment":
            key = (owner.metadata.namespace or "", controller.uid)
            self._sets.setdefault(key, {})[uid] = _with_template(owner, None)
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
        for uid, found in self._sets[owner].items():
            known = self.promised.get(uid)
            if known is not None and not _asked(found):
                known.left = 0  # kept for what has appeared

    def _promises(self, uid: str, promise: Promise | None, there: int, now: float) -> None:
        """Take what an owner itself is about to make, or that it makes nothing."""
        known = self.promised.get(uid)
        if promise is not None:
            self._promise(promise, there, now, early=False)
        elif known is not None and not known.early:
            known.left = 0  # kept for what has appeared

    def _promise(self, promise: Promise, there: int, now: float, *, early: bool) -> None:
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
        if controller is not None:
            self._drop_set((namespace, controller.uid), uid)

    def _drop_set(self, owner: _Owner, uid: str) -> None:
        sets = self._sets.get(owner, {})
        sets.pop(uid, None)
        if not sets:
            self._sets.pop(owner, None)


def _replicas(owner: wire.ReplicaSet | wire.StatefulSet) -> int:
    return (owner.status.replicas or 0) if owner.status is not None else 0


def _asked(owner: wire.ReplicaSet) -> int:
    replicas = owner.spec.replicas if owner.spec is not None else None
    return 1 if replicas is None else replicas


def _with_template(own: wire.ReplicaSet, template: wire.PodTemplate | None) -> wire.ReplicaSet:
    """Return a ReplicaSet with another template; the metadata without what nobody reads here."""
    spec = own.spec
    return wire.ReplicaSet(
        metadata=own.metadata,
        spec=wire.ReplicatedSpec(replicas=spec.replicas if spec is not None else None, template=template),
        status=_slim(own.status),
    )


def _slim(status: wire.ReplicatedStatus | None) -> wire.ReplicatedStatus | None:
    return None if status is None else wire.ReplicatedStatus(replicas=status.replicas, conditions=status.conditions)
