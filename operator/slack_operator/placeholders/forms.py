"""Which form each policy's placeholders have: bound or unbound, since when, and why. Owned by the planning loop.

With `hold: Auto` they are unbound if an autoscaler is recognised that keeps nodes for such pods, and bound otherwise.
They are also bound for a while if unbound ones are of no use:

1. their schedulerName is changed or refused by admission,
2. no autoscaler answers them (`Answers`),
3. the operator cannot tell autoscalers of half of them, or more.

After that while they are unbound again, and each further failure doubles it. Nothing changes a form that is asked for
by name: what is wrong is said only.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

from slack.cluster.hold import Hold, ReleaseNodes
from slack.documents.slackpolicy_status import StatusHold
from slack.planner.model.result import ExistingShape
from slack.planner.objects.actions import Present
from slack.planner.objects.adoption import existing_shapes
from slack.planner.objects.changed_scheduler import changed_schedulers, refused_schedulers, refused_template
from slack.planner.policy.spec import Policy
from slack.process.logs import fields
from slack.schema.conditions import StatusCondition
from slack_operator.placeholders.answers import Answers, silence_seconds
from slack_operator.placeholders.conditions import bound_not_allowed
from slack_operator.placeholders.planned_policies import PlannedPolicy, owners_of
from slack_operator.placeholders.view.autoscalers import CLUSTER_AUTOSCALER, KNOWN_BY_EVENTS, Autoscaler, Recognition
from slack_operator.placeholders.view.cluster_view import Observation
from slack_operator.runtime.conditions import MAX_MESSAGE, Status, rfc3339

log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 3600.0, 86_400.0
"""How long placeholders are bound after unbound ones were of no use: the first time, and at most."""
GOOD_SECONDS = 86_400.0
"""Unbound for so long, earlier failures are forgotten."""
JUMP_SECONDS = 10.0
"""A wall clock that is set by so much makes nobody silent for longer."""
_RETRIED = "; Unbound is tried again at "
Problem = tuple[str, str]
"""Reason, and a sentence for people."""


@dataclass(frozen=True, slots=True)
class ResolvedForm:
    """What `spec.hold` has come to."""

    hold: Hold
    """Bound or Unbound."""
    reason: str
    """CamelCase."""
    why: str
    """A sentence for people."""
    since: float
    """Unix seconds."""
    retry_at: float | None = None
    """When Unbound is tried again (Unix seconds); None where nothing has failed."""
    release_nodes: ReleaseNodes | None = None
    """How nodes are released from unbound placeholders; None for bound ones."""

    def status(self) -> StatusHold:
        """Return it as it stands in the status."""
        return StatusHold(
            form=str(self.hold),
            since=rfc3339(self.since),
            reason=self.reason,
            message=self.why[:MAX_MESSAGE],
            retry_time=None if self.retry_at is None else rfc3339(self.retry_at),
            release_nodes=None if self.release_nodes is None else str(self.release_nodes),
        )


@dataclass(frozen=True, slots=True)
class _Failure:
    """Unbound placeholders were of no use."""

    problem: Problem
    until: float
    """Bound until then; Unix seconds."""
    tries: int
    autoscaler: str
    """That was recognised; '' where that is not known. Another one is another try."""


class _Before(NamedTuple):
    """What a policy had before this decision."""

    hold: Hold | None
    """None where there are no placeholders yet."""
    since: float | None
    release_nodes: str | None


class Forms:
    """Decides the form of each policy, and remembers since when it has it."""

    def __init__(
        self,
        *,
        scheduler: str,
        default: Hold = Hold.AUTO,
        bound_allowed: bool = True,
        release_nodes: ReleaseNodes = ReleaseNodes.LABEL,
        soft_taint: bool = False,
        recognised: Callable[[], Recognition | None],
        untold: Callable[[], str | None] = lambda: None,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """Nothing is decided yet.

        Args:
            scheduler: the schedulerName of unbound placeholders.
            default: of policies that name no form.
            bound_allowed: whether placeholders may be bound at all.
            release_nodes: how nodes are released from unbound placeholders.
            soft_taint: whether nodes that hold unbound placeholders get a taint.
            recognised: the autoscaler that is there; None before anybody has looked.
            untold: why autoscalers cannot be told of unbound placeholders; None while they can.
            clock: monotonic seconds.
            wall: Unix seconds.
        """
        self._scheduler = scheduler
        self._default = default
        self._bound_allowed = bound_allowed
        self._release_nodes = release_nodes
        self._soft_taint = soft_taint
        self._recognised = recognised
        self._untold = untold
        self._clock = clock
        self._wall = wall
        self._looked: tuple[float, float] | None = None
        """When the last look was, by both clocks."""
        self._answers = Answers()
        self._untold_since: float | None = None
        self._forms: dict[str, ResolvedForm] = {}
        self._failures: dict[str, _Failure] = {}
        self._problems: Mapping[str, Problem] = MappingProxyType({})
        """By policy: why unbound placeholders are of no use to it."""
        self._is_known_by_events = False
        """Whether the status of a policy says that, before this process, Cluster Autoscaler was known by its Events.

        Events are kept for an hour, and more come only when placeholders lack capacity. If none comes then, that is no
        answer, as it would be without a restart.
        """
        self._changed: tuple[Present, Mapping[str, str]] | None = None
        """Our objects of the last look, and by policy whose schedulerName was changed."""
        self._resolved: dict[str, tuple[Policy, Policy]] = {}
        """By policy: as it was written, and with its form; the same value while neither changes."""

    def unready(self) -> str | None:
        """Say why no form can be decided yet; None when it can."""
        return "autoscalers are not looked for yet" if self._recognised() is None else None

    def resolved(
        self,
        planned_policies: Sequence[PlannedPolicy],
        seen: Observation,
        refused: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> tuple[PlannedPolicy, ...]:
        """Return the planned_policies with the form of their placeholders.

        Args:
            planned_policies: as they are written.
            seen: the cluster.
            refused: by policy which of its last writes were refused, in words.
        """
        now = self._wall()
        self._look(seen, refused, now)
        before = self._before(planned_policies, seen, now)
        return tuple(
            replace(
                planned,
                policy=self._with_form(planned.policy, before[planned.policy.name], now),
                refused=self._refused(planned.policy),
            )
            for planned in planned_policies
        )

    def _refused(self, policy: Policy) -> StatusCondition | None:
        """Say that a policy asks for what this operator may not do; None where it does not."""
        if self._bound_allowed or policy.spec.hold is not Hold.BOUND:
            return None  # the settings refuse --hold=Bound beside --no-bound
        return bound_not_allowed()

    def form_of(self, policy: str) -> ResolvedForm | None:
        """Return a policy's form; None before it was planned for."""
        return self._forms.get(policy)

    @property
    def untold(self) -> str | None:
        """Why autoscalers cannot be told of unbound placeholders now; None while they can."""
        return self._untold()

    @property
    def any_bound(self) -> bool:
        """Whether some policy has bound placeholders."""
        return any(form.hold is Hold.BOUND for form in self._forms.values())

    @property
    def all_unbound(self) -> bool:
        """Whether there are policies, and all of them have unbound placeholders."""
        return bool(self._forms) and not self.any_bound

    def keep_only(self, policies: Collection[str]) -> None:
        """Forget policies that are no more."""
        self._forms = {name: form for name, form in self._forms.items() if name in policies}
        self._failures = {name: failure for name, failure in self._failures.items() if name in policies}
        self._resolved = {name: pair for name, pair in self._resolved.items() if name in policies}

    def _look(self, seen: Observation, refused: Mapping[str, Sequence[str]], now: float) -> None:
        """Find what is wrong with unbound placeholders, by policy."""
        if jump := self._jump(now):
            self._answers.shift(jump)
            self._untold_since = None if self._untold_since is None else self._untold_since + jump
        self._answers.look(seen, now)
        limit = silence_seconds(seen.snapshot.node_start_seconds)
        untold = self._untold()
        self._untold_since = None if untold is None else now if self._untold_since is None else self._untold_since
        problems: dict[str, Problem] = {}
        if untold is not None and self._untold_since is not None and now - self._untold_since >= limit:
            unbound = [pod for pod in seen.snapshot.placeholders if pod.unbound]
            all_of = Counter(pod.policy for pod in unbound)
            missing = Counter(pod.policy for pod in unbound if not pod.unschedulable)
            problems = {name: ("NotTold", untold) for name, count in missing.items() if 2 * count >= all_of[name]}
        for name, seconds in self._answers.silent_seconds(now).items():
            if seconds >= limit:
                problems[name] = ("NoAnswer", _no_answer(self._scheduler, limit))
        for name, texts in refused.items():
            if (text := refused_template(texts, self._scheduler)) is not None:
                problems[name] = ("SchedulerNameRefused", text)
        for name, text in refused_schedulers(seen.present, seen.refusals).items():
            problems[name] = ("SchedulerNameRefused", text)
        if self._changed is None or self._changed[0] is not seen.present:
            self._changed = seen.present, changed_schedulers(seen.present)
        for name, text in self._changed[1].items():
            problems[name] = ("SchedulerNameChanged", text)
        self._problems = problems

    def _jump(self, now: float) -> float:
        """Return by how much the wall clock was set since the last look; 0 where it was not, or by seconds only."""
        clock, before = self._clock(), self._looked
        self._looked = now, clock
        jump = 0.0 if before is None else now - before[0] - (clock - before[1])
        return jump if abs(jump) >= JUMP_SECONDS else 0.0

    def _found(self) -> Recognition:
        """Return the autoscaler that is recognised, or remembered."""
        found = self._recognised() or Recognition(None)
        if found.autoscaler is None and self._is_known_by_events:
            return Recognition(KNOWN_BY_EVENTS, lasting=True)
        return found

    def _before(self, planned_policies: Sequence[PlannedPolicy], seen: Observation, now: float) -> dict[str, _Before]:
        """Return each policy's last form; of one that is new to this process what ReplicaSets and status say."""
        there: tuple[ExistingShape, ...] = ()
        if any(planned.policy.name not in self._forms for planned in planned_policies):
            there = existing_shapes(seen.present.sets.values(), owners_of(planned_policies))
        found: dict[str, _Before] = {}
        for planned in planned_policies:
            name, form = planned.policy.name, self._forms.get(planned.policy.name)
            if form is not None:
                found[name] = _Before(form.hold, form.since, form.release_nodes)
                continue
            status = planned.entry.status.get("hold") or {}
            hold = _form_of(there, name)
            since = _unix_seconds(status.get("since")) if status.get("form") == hold else None
            found[name] = _Before(hold, since, status.get("releaseNodes"))
            if (failure := _failure_of(status)) is not None and failure.until > now:
                self._failures[name] = failure
            self._is_known_by_events |= hold is Hold.UNBOUND and status.get("message") == _is_there(KNOWN_BY_EVENTS)
        return found

    def _with_form(self, policy: Policy, before: _Before, now: float) -> Policy:
        form = self._decide(policy, before.hold, now)
        same = before.since is not None and before.hold is form.hold
        since = before.since if same and before.since is not None else now
        known = self._forms.get(policy.name)
        if known is None or known.hold is not form.hold:
            said = fields(policy=policy.name, reason=form.reason)
            log.info("placeholders are %s: %s", str(form.hold).lower(), form.why, extra=said)
        unbound = form.hold is Hold.UNBOUND
        release_nodes = self._way_to_release(before.release_nodes) if unbound else None
        self._forms[policy.name] = replace(form, since=since, release_nodes=release_nodes)
        scheduler = self._scheduler if unbound else ""
        resolved = self._resolved.get(policy.name)
        tolerates = unbound and self._soft_taint
        update = {
            "unbound_scheduler": scheduler,
            "release_nodes": release_nodes,
            "tolerates_soft_taint": tolerates,
        }
        same = resolved is not None and all(getattr(resolved[1], name) == value for name, value in update.items())
        if resolved is not None and resolved[0] is policy and same:
            return resolved[1]
        anew = policy.model_copy(update=update)
        self._resolved[policy.name] = policy, anew
        return anew

    def _way_to_release(self, before: str | None) -> ReleaseNodes:
        """Return how a policy's nodes are released; `before` is the last answer, as the status has it.

        Not by marker pods on Cluster Autoscaler: the anti-affinity against them makes each of its loops many times as
        long, and it has no drifted nodes. It removes spare ones by itself. While no autoscaler is recognised, nothing
        changes, as each change exchanges all placeholders.
        """
        if self._release_nodes is not ReleaseNodes.MARKER_POD:
            return self._release_nodes
        autoscaler = self._found().autoscaler
        no_markers = before == ReleaseNodes.OFF if autoscaler is None else autoscaler.name == CLUSTER_AUTOSCALER
        return ReleaseNodes.OFF if no_markers else ReleaseNodes.MARKER_POD

    def _decide(self, policy: Policy, before: Hold | None, now: float) -> ResolvedForm:
        wanted, where = policy.spec.hold or self._default, "spec.hold" if policy.spec.hold else "--hold"
        found = self._found()
        absent = f"neither Cluster Autoscaler nor Karpenter was recognised: {found.note}"
        if not self._bound_allowed and wanted is Hold.BOUND and before is Hold.BOUND:
            why = f"{where} says so, and they are left as they are: --no-bound makes no further bound ones"
            return ResolvedForm(wanted, "BoundNotAllowed", why, now)
        if not self._bound_allowed:
            why = "--no-bound: this operator keeps unbound placeholders only"
            return self._always_unbound(policy.name, "BoundNotAllowed", why, absent if found.absent else "", now)
        if wanted is Hold.BOUND:
            return ResolvedForm(wanted, "Configured", f"{where} says so", now)
        if wanted is Hold.UNBOUND:
            why = f"{where} says so"
            return self._always_unbound(policy.name, "Configured", why, absent if found.absent else "", now)
        if found.autoscaler is None and (before is not Hold.UNBOUND or found.lasting):
            return ResolvedForm(Hold.BOUND, "NoAutoscaler", absent, now)
        name = found.autoscaler.name if found.autoscaler is not None else ""
        if (failure := self._failure(policy.name, name, before, now)) is not None:
            reason, why = failure.problem
            at = datetime.fromtimestamp(failure.until, UTC).strftime("%Y-%m-%d %H:%M UTC")
            return ResolvedForm(Hold.BOUND, reason, f"{why}{_RETRIED}{at}", now, failure.until)
        if found.autoscaler is None:
            why = f"no autoscaler is recognised for the moment: {found.note}"
            return ResolvedForm(Hold.UNBOUND, "AutoscalerUnclear", why, now)
        return ResolvedForm(Hold.UNBOUND, "AutoscalerRecognised", _is_there(found.autoscaler), now)

    def _always_unbound(self, policy: str, reason: str, why: str, absent: str, now: float) -> ResolvedForm:
        """Give the form of a policy that may have no other, with what is wrong about it."""
        problem = self._problems.get(policy)
        if problem is not None:
            return ResolvedForm(Hold.UNBOUND, problem[0], f"{why}; {problem[1]}", now)
        if absent:
            return ResolvedForm(Hold.UNBOUND, "NoAutoscaler", f"{why}; {absent}", now)
        return ResolvedForm(Hold.UNBOUND, reason, why, now)

    def _failure(self, policy: str, autoscaler: str, before: Hold | None, now: float) -> _Failure | None:
        """Return why placeholders are bound for a while although an autoscaler is there; None where they are not."""
        known = self._failures.get(policy)
        if known is not None and "" not in (autoscaler, known.autoscaler) and known.autoscaler != autoscaler:
            known = None  # another autoscaler may answer
            del self._failures[policy]
        if known is not None and now < known.until:
            return known
        problem = self._problems.get(policy) if before is Hold.UNBOUND else None
        if problem is not None:
            tries = (0 if known is None else known.tries) + 1
            seconds = min(FIRST_RETRY_SECONDS * 2 ** (tries - 1), LONGEST_RETRY_SECONDS)
            self._failures[policy] = _Failure(problem, now + seconds, tries, autoscaler)
            return self._failures[policy]
        form = self._forms.get(policy)
        good = before is Hold.UNBOUND and form is not None and now - form.since >= GOOD_SECONDS
        if known is not None and (good or self._answers.is_answered(policy)):
            del self._failures[policy]
        return None


def _is_there(autoscaler: Autoscaler) -> str:
    return f"{autoscaler.name} is there: {autoscaler.evidence}"


def _no_answer(scheduler: str, seconds: float) -> str:
    return (
        f"no autoscaler answered unbound placeholders for {round(seconds / 60)} min (no Event, no node): Cluster "
        f"Autoscaler leaves them out if its --allowed-scheduler-names lacks {scheduler} (1.35 and later), or if its "
        "--expendable-pods-priority-cutoff is above their priority"
    )


def _form_of(there: Iterable[ExistingShape], policy: str) -> Hold | None:
    """Return the form of a policy's ReplicaSets, without those that are given up; None where there is none."""
    forms = {each.shape.form.hold for each in there if each.policy == policy and not each.retiring}
    return Hold.UNBOUND if Hold.UNBOUND in forms else next(iter(forms), None)


def _failure_of(status: Status) -> _Failure | None:
    """Return the failure that a status tells of; None where it tells of none."""
    since, until = _unix_seconds(status.get("since")), _unix_seconds(status.get("retryTime"))
    if since is None or until is None or status.get("form") != Hold.BOUND:
        return None
    ratio = max((until - since) / FIRST_RETRY_SECONDS, 1.0)
    why = str(status.get("message") or "").partition(_RETRIED)[0]
    return _Failure((str(status.get("reason") or "NoAnswer"), why), until, round(ratio).bit_length(), "")


def _unix_seconds(text: object) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None
