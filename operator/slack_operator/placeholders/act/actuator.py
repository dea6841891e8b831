"""Carries decisions out: each write behind a gate, with what it must be remembered for, and failures as text.

The gate is asked before every single write, so that an operator that has lost its lease stops in the middle. One
failed write stops neither the others of its policy nor other policies. A turn has a budget: after `TURN_SECONDS` of
writes the rest is left to the next turn, which decides anew. Owned by the planning loop.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from slack.cluster.labels import ANNOTATION_APPLIED, ANNOTATION_DELETION_COST, FIELD_MANAGER, LABEL_POLICY
from slack.cluster.wire import OwnReplicaSet
from slack.kube.apply import Json, Writer, conflict_text
from slack.kube.breaker import WritesPaused
from slack.kube.errors import ApiError, InvalidAnswer, Unreachable
from slack.kube.paths import resource_path
from slack.kube.retry import is_transient
from slack.planner.objects.actions import Action, Apply, DeletePod, DeleteSet, SetCost, Stop, Taken
from slack.planner.objects.decide import SHOW_SECONDS, Held
from slack.planner.objects.drift import OwnedField, changed_fields, same_room
from slack.planner.removal.reasons import RemovalReason
from slack.process.contests import WINDOW_SECONDS, WRITES_BACK, Contests, Verdict
from slack.process.logs import fields
from slack_operator.placeholders.act.vanished import Vanished
from slack_operator.runtime.leading import NotLeading

log = logging.getLogger(__name__)

REFUSED_SECONDS = 60.0
TURN_SECONDS = 30.0
"""After this time no further write of a turn begins: what it was decided from is old by then."""
PROBLEMS_SHOWN = 5
"""In a policy's status: hundreds of writes may be refused for one reason."""
MANY = 100_000
"""All of them: how many pods a ReplicaSet still has is no matter when it goes."""

_CHANGED = "does an admission webhook change it?"
_IN_VAIN = f"its template does not request what its placeholders should, and is the same after each write; {_CHANGED}"
_AT_ANY_RATE: Mapping[RemovalReason, OwnedField] = {
    RemovalReason.UNDISPLACEABLE: OwnedField.PRIORITY,
    RemovalReason.LOST: OwnedField.LOST,
    RemovalReason.NOBODYS: OwnedField.LOST,
}
"""Placeholders that are deleted whoever wants them so: they stand in the way of real pods, or are beyond the plan."""
_MOST = {OwnedField.PODS: 2, OwnedField.PRIORITY: 2}
"""Placeholders are replaced no more often than that: each time they lose their nodes."""
_ANOTHER_OPERATOR = f"another operator (a second release, or one outside the cluster) as {FIELD_MANAGER}"
_COSTS_BACK = "whatever gives pods a deletion cost"
_DELETED = "somebody who deletes it"
_REPLACED = "whatever makes its pods other than its template"


@dataclass(frozen=True, slots=True)
class TakenBack:
    """What was written by somebody else and taken back."""

    policy: str
    name: str
    """The object's."""
    part: OwnedField
    writer: str
    told: bool
    """Whether it has been told already whose write it was."""
    kind: str = "ReplicaSet"


@dataclass(frozen=True, slots=True)
class _Applied:
    """What our last write to a ReplicaSet came to."""

    generation: int
    version: str | None
    at: float


@dataclass(frozen=True, slots=True)
class _AsAdmitted:
    """What admission makes of a manifest of ours, whatever we write."""

    digest: str
    template: Json
    parts: frozenset[OwnedField]
    essential: bool
    """Its placeholders would not hold what they should."""
    at: float


class Expectations(Protocol):
    """Who must know beforehand what our writes will cause."""

    def expect(self, replica_set: str, count: int, now: float) -> None:
        """So many pods of a ReplicaSet will go by our doing."""

    def push_out(self, uid: str, now: float) -> bool:
        """This pod will be deleted by us; False where its node has got its room otherwise, so that it stays."""

    def let_go(self, uid: str) -> None:
        """This pod will be deleted by us, for it is no placeholder of the plan."""


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
        is_suspended: Callable[[str], bool] = lambda _: False,
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        """An actuator that has written nothing yet.

        Args:
            writer: of everything here.
            namespace: ours.
            may_write: asked before each write.
            expectations: are told what writes will cause.
            clock: monotonic seconds.
            is_suspended: whether a ReplicaSet is suspended by burst eviction, and is left alone.
            progress: called after each write, so that slow writes are not mistaken for a dead loop.
        """
        self.marked_since: dict[str, float] = {}
        """By ReplicaSet: when the victims of the shrink that is under way were first marked."""
        self.contests = Contests[OwnedField]()
        self.unserved: str | None = None
        """The first policy for which the budget of this turn did not suffice."""
        self._until = float("inf")
        self._paused: set[type[Action]] = set()
        """Kinds of writes that failed too often to be tried in this turn."""
        self._refused: dict[str, tuple[Apply, str, float]] = {}
        """By ReplicaSet: the apply that was refused, why, and when."""
        self._applied: dict[str, _Applied] = {}
        self._as_admitted: dict[str, _AsAdmitted] = {}
        self._own: dict[str, tuple[str, _Applied]] = {}
        """By ReplicaSet: the digest that this process wrote last."""
        self._cleared: dict[str, float] = {}
        """By pod: when its deletion cost was taken away; for as long as a contest remembers."""
        self._vanished = Vanished()
        self._taken_back: list[TakenBack] = []
        self._writer = writer
        self._namespace = namespace
        self._may_write = may_write
        self._expectations = expectations
        self._clock = clock
        self._is_suspended = is_suspended
        self._progress = progress

    def held(self, sets: Mapping[str, OwnReplicaSet]) -> Held:
        """Say what of our ReplicaSets is not to be written: what a writer never gives back, or admission makes so."""
        now = self._clock()
        self._own = {name: own for name, own in self._own.items() if name in sets}
        self._cleared = {pod: at for pod, at in self._cleared.items() if now - at < WINDOW_SECONDS}
        self._applied = {name: done for name, done in self._applied.items() if now - done.at < SHOW_SECONDS}
        self._refused = {name: told for name, told in self._refused.items() if now - told[2] < REFUSED_SECONDS}
        held = dict(self.contests.held(now))
        self._vanished.see(sets, held, now)
        for name, admitted in list(self._as_admitted.items()):
            found = sets.get(name)
            if found is None or found.metadata.annotation(ANNOTATION_APPLIED) != admitted.digest:
                del self._as_admitted[name]
            elif admitted.template == found.template and not (
                admitted.essential and now - admitted.at >= REFUSED_SECONDS
            ):
                held[name] = held.get(name, frozenset()) | admitted.parts
        return held

    def taken_back(self) -> tuple[TakenBack, ...]:
        """Return what was taken back since the last call."""
        taken, self._taken_back = tuple(self._taken_back), []
        return taken

    def begin_turn(self) -> None:
        """Begin the budget of a turn."""
        self._until = self._clock() + TURN_SECONDS
        self._paused = set()
        self.unserved = None

    def forget_marks_but(self, replica_sets: Collection[str]) -> None:
        """These are being shrunk now; for all others a later shrink starts its wait anew."""
        self.marked_since = {name: since for name, since in self.marked_since.items() if name in replica_sets}

    def carry_out(self, policy: str, actions: Iterable[Action], sets: Mapping[str, OwnReplicaSet]) -> tuple[str, ...]:
        """Do the writes of one policy in order.

        Args:
            policy: its name, for the log.
            actions: what was decided.
            sets: the ReplicaSets that the decision was made from.

        Returns:
            What was refused, in words for the policy's status.

        Raises:
            NotLeading: the gate closed; nothing further was written.
            Stopped: the process ends.
        """
        problems: list[str] = []
        for action in self._affordable(policy, actions, sets):
            if not self._may_write():
                raise NotLeading
            if (name := _writes_to(action)) is not None and self._is_suspended(name):
                continue  # the plan after it is given back decides
            if type(action) in self._paused:
                continue
            if self._clock() >= self._until:
                if self.unserved is None:
                    log.warning("the writes of this turn took %.0f s: the next turn goes on", TURN_SECONDS)
                    self.unserved = policy
                break
            if isinstance(action, Apply) and (known := self._refusal(action)):
                problems.append(known)
                continue
            if problem := self._tried(policy, action):
                problems.append(problem)
            self._progress()
        return (*_few(problems), *self._in_vain(policy, sets))

    def _tried(self, policy: str, action: Action) -> str:
        """Carry one action out; return why it failed, or ''."""
        try:
            self._do(policy, action)
        except WritesPaused as error:
            self._paused.add(type(action))
            return _unwritten(action, error.cause_text)
        except (Unreachable, InvalidAnswer) as error:
            problem = _unwritten(action, str(error))
            log.warning("write failed: %s", error, extra=fields(policy=policy, object=_subject(action)))
        except ApiError as error:
            if error.not_found and isinstance(action, SetCost | DeletePod):
                return ""  # the pod went by itself
            log.warning("write refused: %s", error, extra=fields(policy=policy, object=_subject(action)))
            if is_transient(error):
                return _unwritten(action, error.message)
            problem = f"{_subject(action)}: {conflict_text(error) if error.conflict else error.message}"
            if isinstance(action, Apply):
                self._refused[action.name] = (action, problem, self._clock())
        else:
            return ""
        return problem

    def _affordable(
        self, policy: str, actions: Iterable[Action], sets: Mapping[str, OwnReplicaSet]
    ) -> Iterator[Action]:
        """Leave out what our own last write has overtaken, and what a writer has just won; note what is taken back."""
        replaced: dict[str, bool] = {}
        noted: set[tuple[str, OwnedField]] = set()
        cleared: dict[str, bool] = {}
        for action in actions:
            if isinstance(action, DeletePod) and (part := _AT_ANY_RATE.get(action.reason)) is not None:
                maker = sets.get(action.replica_set)
                if maker is not None and (action.replica_set, part) not in noted:
                    noted.add((action.replica_set, part))
                    whose = policy or maker.metadata.label(LABEL_POLICY)
                    self._may_take(whose, action.replica_set, [Taken(part, _REPLACED)])
                yield action
            elif isinstance(action, DeletePod) and action.reason is RemovalReason.MADE_OTHERWISE:
                name = action.replica_set
                if name not in replaced:
                    replaced[name] = self._may_take(policy, name, [Taken(OwnedField.PODS, _REPLACED)])
                if replaced[name]:
                    yield action
            elif isinstance(action, Stop):
                continue  # the brake's
            elif isinstance(action, SetCost) and action.cost is None and self._is_back(action.pod):
                name = action.replica_set
                if name not in cleared:
                    cleared[name] = self._may_take(policy, name, [Taken(OwnedField.COST, _COSTS_BACK)])
                if cleared[name]:
                    yield action
            elif not isinstance(action, Apply):
                yield action
            elif not self._overtaken(action.name, sets.get(action.name)):
                taken = list(action.taken) or self._taken_by_another(action, sets.get(action.name))
                if action.before is None and self._vanished.is_deleted_by_others(action.manifest):
                    taken.append(Taken(OwnedField.OBJECT, _DELETED))
                if self._may_take(policy, action.name, taken):
                    yield action

    def _is_back(self, pod: str) -> bool:
        """Whether a deletion cost is there again that was taken away, and not only still shown by the watch."""
        return self._clock() - self._cleared.get(pod, float("inf")) >= SHOW_SECONDS

    def _taken_by_another(self, action: Apply, found: OwnReplicaSet | None) -> list[Taken]:
        """Say whether somebody has written, as our field manager, another manifest over one that this process wrote."""
        digest, applied = self._own.get(action.name, ("", None))
        if found is None or applied is None or not _is_since(found, applied):
            return []
        if found.metadata.annotation(ANNOTATION_APPLIED) in ("", digest):
            return []
        return [Taken(part, _ANOTHER_OPERATOR) for part in (OwnedField.TEMPLATE, OwnedField.METADATA)]

    def _may_take(self, policy: str, name: str, taken: Iterable[Taken]) -> bool:
        """Whether all of it is to be taken back, and remember that it is."""
        now = self._clock()
        verdicts = [
            (one, self.contests.written(name, one.part, one.holder, now, most=_MOST.get(one.part, WRITES_BACK)))
            for one in taken
        ]
        if any(verdict is Verdict.LEAVE for _, verdict in verdicts):
            return False
        for one, verdict in verdicts:
            told = verdict is Verdict.TAKE
            self._taken_back.append(TakenBack(policy, name, one.part, one.holder, told))
        return True

    def _do(self, policy: str, action: Action) -> None:
        match action:
            case Apply():
                self._apply(policy, action)
            case SetCost():
                self._set_cost(action)
            case DeleteSet():
                self._expectations.expect(action.name, MANY, self._clock())
                self._writer.delete(self._path("apps/v1", "replicasets", action.name), uid=action.uid)
                self._vanished.delete(action.name, action.uid)
                log.info("ReplicaSet deleted", extra=fields(policy=policy, name=action.name, why=action.why))
            case DeletePod():
                if action.reason is not RemovalReason.PUSHED_OUT:
                    self._expectations.let_go(action.uid)
                elif not self._expectations.push_out(action.uid, self._clock()):
                    return  # the next plan sees what room there is
                self._writer.delete(self._path("v1", "pods", action.name), uid=action.uid)
                log.info("placeholder deleted", extra=fields(policy=policy, name=action.name, why=action.why))

    def _refusal(self, action: Apply) -> str:
        """Why the same apply was refused a moment ago; asking again every ten seconds would change nothing."""
        refused, why, at = self._refused.get(action.name, (None, "", 0.0))
        if refused == action and self._clock() - at < REFUSED_SECONDS:
            return why
        self._refused.pop(action.name, None)
        return ""

    def _in_vain(self, policy: str, sets: Mapping[str, OwnReplicaSet]) -> list[str]:
        """Say of a policy's templates that no write puts right."""
        return [
            f"ReplicaSet {name}: {_IN_VAIN}"
            for name, admitted in sorted(self._as_admitted.items())
            if admitted.essential and name in sets and sets[name].metadata.label(LABEL_POLICY) == policy
        ]

    def _overtaken(self, name: str, seen: OwnReplicaSet | None) -> bool:
        """Whether the decision was made before our watch showed our own last write to this ReplicaSet."""
        applied = self._applied.get(name)
        if applied is None:
            return False
        if seen is not None and _is_since(seen, applied):
            del self._applied[name]
            return False
        return self._clock() - applied.at < SHOW_SECONDS

    def _apply(self, policy: str, action: Apply) -> None:
        if action.leaving:
            self._expectations.expect(action.name, action.leaving, self._clock())
        self.marked_since.pop(action.name, None)
        path = self._path("apps/v1", "replicasets", action.name)
        if action.patch is not None:
            metadata = {**action.patch.get("metadata", {}), "uid": action.uid}
            self._writer.merge_patch(path, {**action.patch, "metadata": metadata})
        # Nobody else has a say in what is ours; whose write it was is told, and who never gives in is left alone.
        answer = self._writer.apply(path, action.manifest, force=True)
        metadata = answer.get("metadata", {})
        applied = _Applied(int(metadata.get("generation") or 0), metadata.get("resourceVersion"), self._clock())
        self._applied[action.name] = applied
        self._own[action.name] = (action.manifest["metadata"]["annotations"][ANNOTATION_APPLIED], applied)
        self._note_admission(action, answer)
        if (there := (answer.get("spec") or {}).get("replicas", action.after)) != action.after:
            why = f"ReplicaSet {action.name}: spec.replicas is {there} after each write of {action.after}; {_CHANGED}"
            self._refused[action.name] = (action, why, self._clock())
        said = fields(
            policy=policy, shape=action.shape, **{"from": action.before or 0, "to": action.after}, why=action.why
        )
        if action.taken:
            log.info("ReplicaSet put right", extra=said)
        elif action.before is None:
            log.info("ReplicaSet created", extra=said)
        elif action.before == action.after:
            log.info("ReplicaSet rewritten", extra=said)
        else:
            log.info("ReplicaSet %s", "raised" if action.after > action.before else "lowered", extra=said)

    def _note_admission(self, action: Apply, answer: Json) -> None:
        """Remember what of our manifest is not as written in the very answer: admission makes it so, each time."""
        found = msgspec.json.decode(msgspec.json.encode(answer), type=OwnReplicaSet)
        if parts := changed_fields(action.manifest, found):
            digest = action.manifest["metadata"]["annotations"][ANNOTATION_APPLIED]
            essential = OwnedField.TEMPLATE in parts and not same_room(
                action.manifest["spec"]["template"], found.template
            )
            self._as_admitted[action.name] = _AsAdmitted(digest, found.template, parts, essential, self._clock())
        else:
            self._as_admitted.pop(action.name, None)

    def _set_cost(self, action: SetCost) -> None:
        if action.cost is not None:
            self.marked_since.setdefault(action.replica_set, self._clock())
        cost = None if action.cost is None else str(action.cost)
        self._writer.annotate(self._path("v1", "pods", action.pod), {ANNOTATION_DELETION_COST: cost})
        if action.cost is None:
            self._cleared[action.pod] = self._clock()
        else:  # what is there from now on is the operator's own
            self._cleared.pop(action.pod, None)

    def _path(self, api_version: str, plural: str, name: str) -> str:
        return resource_path(api_version, plural, namespace=self._namespace, name=name)


def _unwritten(action: Action, why: str) -> str:
    """Describe a write that is tried again: with the same words each turn, whether it was sent or was paused."""
    match action:
        case Apply() | DeleteSet():
            what = "ReplicaSets"
        case SetCost():
            what = "deletion costs of placeholders"
        case _:
            what = "deletions of placeholders"
    return f"{what} cannot be written now, and are retried with growing pauses: {why}"


def _few(problems: Iterable[str]) -> list[str]:
    """Shorten a list of problems for a status."""
    problems = list(dict.fromkeys(problems))
    more = len(problems) - PROBLEMS_SHOWN
    return problems if more <= 0 else [*problems[:PROBLEMS_SHOWN], f"and {more} more"]


def _writes_to(action: Action) -> str | None:
    """Name the ReplicaSet whose count or template an action counts on."""
    match action:
        case Apply():
            return action.name
        case SetCost():
            return action.replica_set
        case DeletePod() if action.reason not in (RemovalReason.PUSHED_OUT, RemovalReason.UNDISPLACEABLE):
            return action.replica_set
        case _:
            return None


def _subject(action: Action) -> str:
    match action:
        case Apply() | DeleteSet():
            return f"ReplicaSet {action.name}"
        case SetCost():
            return f"Pod {action.pod}"
        case DeletePod():
            return f"Pod {action.name}"
        case Stop():
            return f"PriorityClass {action.priority_class}"


def _is_since(seen: OwnReplicaSet, applied: _Applied) -> bool:
    """Whether the watch shows our own write, or something later."""
    generation, version = seen.metadata.generation or 0, seen.metadata.resource_version or ""
    if generation != applied.generation:
        return generation > applied.generation
    known = applied.version or ""
    return not (known.isdecimal() and version.isdecimal()) or int(version) >= int(known)
