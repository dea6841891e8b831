"""Carries decisions out: each write behind a gate, with what it must be remembered for, and failures as text.

The gate is asked before every single write, so that an operator that has lost its lease stops in the middle. One
failed write stops neither the others of its policy nor other policies. Owned by the planning loop.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from slack.cluster.wire import ReplicaSet
from slack.kube.apply import Json, Writer, conflict_text
from slack.kube.errors import ApiError
from slack.kube.paths import resource_path
from slack.planner.manifests import DELETION_COST
from slack.process.logs import fields
from slack_operator.decide import SHOW_SECONDS, Action, Apply, DeletePod, DeleteSet, SetCost

log = logging.getLogger(__name__)

REFUSED_SECONDS = 60.0
MANY = 100_000
"""All of them: how many pods a ReplicaSet still has is no matter when it goes."""

_IN_VAIN = (
    "its template does not request what its placeholders should, and is the same after each write; "
    "does an admission webhook change it?"
)


class NotLeading(Exception):
    """A write was about to be made by a process that may not write (any more)."""


class Expectations(Protocol):
    """Who must know beforehand what our writes will cause."""

    def expect(self, replica_set: str, count: int, now: float) -> None:
        """So many pods of a ReplicaSet will go by our doing."""

    def push_out(self, uid: str) -> None:
        """This pod will be deleted by us."""


class Actuator:
    """Writes to our own namespace."""

    def __init__(
        self,
        writer: Writer,
        *,
        namespace: str,
        may_write: Callable[[], bool],
        expectations: Expectations,
        clock: Callable[[], float],
    ) -> None:
        self.marked_since: dict[str, float] = {}
        """By ReplicaSet: when the victims of the shrink that is under way were first marked."""
        self.writes = 0
        self._refused: dict[tuple[str, bool], tuple[Apply, str, float]] = {}
        """By ReplicaSet and whether by force: the apply that was refused, why, and when."""
        self._applied: dict[str, tuple[int, float]] = {}
        """By ReplicaSet: metadata.generation that our last apply made, and when that was."""
        self._writer = writer
        self._namespace = namespace
        self._may_write = may_write
        self._expectations = expectations
        self._clock = clock

    def forget_marks_but(self, replica_sets: Collection[str]) -> None:
        """These are being shrunk now; for all others a later shrink starts its wait anew."""
        self.marked_since = {name: since for name, since in self.marked_since.items() if name in replica_sets}

    def carry_out(self, policy: str, actions: Iterable[Action], sets: Mapping[str, ReplicaSet]) -> tuple[str, ...]:
        """Do the writes of one policy in order.

        Args:
            policy: its name, for the log.
            actions: what was decided.
            sets: the ReplicaSets that the decision was made from.

        Returns:
            What was refused, in words for the policy's status.

        Raises:
            NotLeading: the gate closed; nothing further was written.
            Unreachable, Stopped: the API server did not answer in time.
        """
        problems = []
        for action in actions:
            if not self._may_write():
                raise NotLeading
            if isinstance(action, Apply) and self._overtaken(action.name, sets.get(action.name)):
                continue
            if isinstance(action, Apply) and (known := self._refusal(action)):
                problems.append(known)
                continue
            try:
                self._do(policy, action)
                self.writes += 1
                if isinstance(action, Apply) and action.force and self._in_vain(action.name, sets.get(action.name)):
                    problems.append(f"ReplicaSet {action.name}: {_IN_VAIN}")
                    self._refuse(action, problems[-1])
            except ApiError as error:
                if error.not_found and isinstance(action, SetCost):
                    continue  # the pod went by itself
                text = conflict_text(error) if error.conflict else error.message
                if isinstance(action, Apply) and error.conflict and error.causes:
                    text += f"; {self._give_back(action.name)}"
                problems.append(f"{_subject(action)}: {text}")
                if isinstance(action, Apply):
                    self._refuse(action, problems[-1])
                log.warning("write refused: %s", error, extra=fields(policy=policy, object=_subject(action)))
        return tuple(problems)

    def _do(self, policy: str, action: Action) -> None:
        match action:
            case Apply():
                self._apply(policy, action)
            case SetCost():
                self._set_cost(action)
            case DeleteSet():
                self._expectations.expect(action.name, MANY, self._clock())
                self._writer.delete(self._path("apps/v1", "replicasets", action.name), uid=action.uid)
                log.info("ReplicaSet deleted", extra=fields(policy=policy, name=action.name, why=action.why))
            case DeletePod():
                self._expectations.push_out(action.uid)
                self._writer.delete(self._path("v1", "pods", action.name), uid=action.uid)
                why = "real pods leave it no room on its node"
                log.info("placeholder pushed out", extra=fields(policy=policy, name=action.name, why=why))

    def _refusal(self, action: Apply) -> str:
        """Why the same apply was refused a moment ago; asking again every ten seconds would change nothing."""
        refused, why, at = self._refused.get((action.name, action.force), (None, "", 0.0))
        if refused == action and self._clock() - at < REFUSED_SECONDS:
            return why
        self._refused.pop((action.name, action.force), None)
        return ""

    def _refuse(self, action: Apply, why: str) -> None:
        self._refused[action.name, action.force] = (action, why, self._clock())

    def _in_vain(self, name: str, seen: ReplicaSet | None) -> bool:
        """Whether the template is as it was after we have put it right: then it would be so at every turn."""
        generation, _ = self._applied.get(name, (0, 0.0))
        return seen is not None and 0 < generation <= (seen.metadata.generation or 0)

    def _give_back(self, name: str) -> str:
        """Server-side apply has no other way that works for each holder, a subresource (`kubectl scale`) included."""
        return f"to give it back: `kubectl delete replicaset {name} -n {self._namespace}`; the operator makes it again"

    def _overtaken(self, name: str, seen: ReplicaSet | None) -> bool:
        """Whether the decision was made before our watch showed our own last write to this ReplicaSet."""
        generation, at = self._applied.get(name, (0, 0.0))
        if (seen.metadata.generation or 0 if seen is not None else 0) >= generation:
            self._applied.pop(name, None)
            return False
        return self._clock() - at < SHOW_SECONDS

    def _apply(self, policy: str, action: Apply) -> None:
        if action.leaving:
            self._expectations.expect(action.name, action.leaving, self._clock())
        self.marked_since.pop(action.name, None)
        path = self._path("apps/v1", "replicasets", action.name)
        answer = self._writer.apply(path, action.manifest, force=action.force)
        self._applied[action.name] = (int(answer.get("metadata", {}).get("generation") or 0), self._clock())
        said = fields(
            policy=policy, shape=action.shape, **{"from": action.before or 0, "to": action.after}, why=action.why
        )
        if action.force:
            log.warning("ReplicaSet put right", extra=said)
        elif action.before is None:
            log.info("ReplicaSet created", extra=said)
        elif action.before == action.after:
            log.info("ReplicaSet rewritten", extra=said)
        else:
            log.info("ReplicaSet %s", "raised" if action.after > action.before else "lowered", extra=said)

    def _set_cost(self, action: SetCost) -> None:
        if action.cost is not None:
            self.marked_since.setdefault(action.replica_set, self._clock())
        cost = None if action.cost is None else str(action.cost)
        self._writer.annotate(self._path("v1", "pods", action.pod), {DELETION_COST: cost})

    def _path(self, api_version: str, plural: str, name: str) -> str:
        return resource_path(api_version, plural, namespace=self._namespace, name=name)


def _subject(action: Action) -> str:
    match action:
        case Apply() | DeleteSet():
            return f"ReplicaSet {action.name}"
        case SetCost():
            return f"Pod {action.pod}"
        case DeletePod():
            return f"Pod {action.name}"


def owner_reference(api_version: str, kind: str, name: str, uid: str) -> Json:
    """Give the ownerReference of a ReplicaSet: controlled, and not in the way of its owner's deletion."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
