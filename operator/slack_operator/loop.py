"""The loop: observe, plan, act, report; every interval, and soon after something relevant has changed.

One thread owns the planner's memory, the actuator, the reporter and the rescuer; everything it reads comes as values.
It writes only while `may_write` says so: a standby turns too, so that its columns stay warm, and writes nothing.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

from slack.cluster.wire import PriorityClass
from slack.kube.apply import Json, Writer
from slack.kube.errors import ApiError, KubeError
from slack.kube.paths import resource_path
from slack.planner.domain import ZONE, divide
from slack.planner.kept import Kept
from slack.planner.manifests import PRIORITY_CLASS, priority_class, replica_set
from slack.planner.outcome import Condition, Memory, PolicyPlan, ShapePlan
from slack.planner.plan import plan
from slack.process.logs import fields
from slack_operator.actuate import Actuator, NotLeading
from slack_operator.adopt import existing_shapes
from slack_operator.decide import SetCost, decide, orphans
from slack_operator.desired import DesiredPolicies, PolicyEntry
from slack_operator.instant import InstantRatio
from slack_operator.metrics import Metrics
from slack_operator.reporting import Reporter
from slack_operator.rescue import Rescuer
from slack_operator.status import VIEW_STALE, not_ready
from slack_operator.subjects import Subject, invalid, subjects_of
from slack_operator.turn import Turn
from slack_operator.view import Look, View
from slack_operator.wake import Wake

log = logging.getLogger(__name__)

RESCUE_SECONDS = 1.0
STALE_TOLD_SECONDS = 30.0
"""A list after a 410 takes seconds and is nobody's business; nothing is planned meanwhile all the same."""


class Freshness(Protocol):
    """Whoever knows whether the view is whole."""

    def stale(self) -> str:
        """Give '' or what is missing."""


class Loop:
    """See the module's docstring; `turn` is one plan, `run` is the thread."""

    def __init__(
        self,
        *,
        view: View,
        watches: Freshness,
        desired: DesiredPolicies,
        writer: Writer,
        actuator: Actuator,
        reporter: Reporter,
        rescuer: Rescuer,
        metrics: Metrics,
        may_write: Callable[[], bool],
        wake: Wake,
        namespace: str,
        image: str,
        default_rate: float,
        on_turn: Callable[[Turn], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.beat_at = clock()
        """When a turn last ended as it should."""
        self._view = view
        self._watches = watches
        self._desired = desired
        self._writer = writer
        self._actuator = actuator
        self._reporter = reporter
        self._rescuer = rescuer
        self._metrics = metrics
        self._may_write = may_write
        self._wake = wake
        self._namespace = namespace
        self._image = image
        self._default_rate = default_rate
        self._on_turn = on_turn
        self._clock = clock
        self._wall = wall
        self._memory: Memory = MappingProxyType({})
        self._kept = Kept()
        self._ratio = InstantRatio()
        self._policy_of_node: Mapping[str, str] = {}
        self._stale_since: float | None = None
        self._stale_text = ""
        self._late = 0.0
        """How long the turn was due when it began."""

    def run(self, stopping: threading.Event) -> None:
        """Turn until the end; an error costs its turn only."""
        while not stopping.is_set():
            wait = self._wake.due_in()
            if wait <= 0:
                self._late = self._wake.begun()
                began = self._clock()
                self._guarded(self.turn)
                self._wake.ended(self._clock() - began)
            else:
                self._wake.wait(min(wait, RESCUE_SECONDS))
            if not stopping.is_set():
                self._guarded(self.rescue)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except NotLeading:
            log.info("not leading (any more): nothing is written")
        except KubeError as error:
            log.warning("the API server did not answer, the turn is given up: %s", error)
        except Exception:
            # a bug in one turn must not end the process; no beat, so that liveness does if it stays
            log.exception("the turn failed")
            return
        self.beat_at = self._clock()

    def rescue(self) -> None:
        """Free hanging preemptors; cheap when nobody is nominated."""
        if not self._may_write() or self._watches.stale():
            return
        if self._rescuer.free(self._view.stuck(self._clock()), self._policy_of_node.get):
            self._wake.touch()

    def turn(self) -> None:
        """Observe, plan, act, report, once."""
        leading = self._may_write()
        stale = self._watches.stale()
        if leading and not stale and not self._desired.synced:
            stale = "slackpolicies are not listed yet"
        self._metrics.leader.set(leading)
        entries = self._desired.entries()
        if stale:
            self._show(Turn(self._wall(), self._clock(), leading, stale))
            self._tell_stale(entries if leading else (), stale)
            return
        if self._stale_text:
            log.info("the view of the cluster is whole again")
        self._stale_since, self._stale_text = None, ""
        self._require_labels(entries)
        now = self._wall()
        look = self._view.look(now)
        if not leading:
            self._metrics.keep_only(())
            self._show(Turn(now, self._clock(), leading, look=look))
            return
        self._metrics.loop_lag.observe(self._late)
        subjects = subjects_of(entries, look.priority_classes)
        items = self._plan(subjects, look, now)
        self._measure(look, subjects)
        problems = self._act(subjects, items, look, entries)
        extra = self._report(subjects, items, look, problems)
        for entry in entries:
            if entry.policy is None:
                self._reporter.only(entry, [invalid(entry)])
                self._metrics.show_conditions(entry.name, [invalid(entry)])
        self._reporter.keep_only([*(s.entry for s in subjects), *entries])
        self._metrics.keep_only([*(s.policy.name for s in subjects), *(e.name for e in entries)])
        self._metrics.show(items)
        self._metrics.show_displaced(look.displaced)
        self._metrics.plan_timestamp.set(now)
        self._show_planned(Turn(now, self._clock(), leading, "", look, subjects, items, extra), entries)

    def _show_planned(self, turn: Turn, entries: Sequence[PolicyEntry]) -> None:
        if self._on_turn is None:
            return
        bad = tuple(entry for entry in entries if entry.policy is None)
        ratios = {subject.policy.name: self._ratio.of(subject.policy.name) for subject in turn.subjects}
        self._show(
            replace(
                turn,
                extra={**turn.extra, **{entry.name: (invalid(entry),) for entry in bad}},
                invalid=bad,
                policy_of_node=self._policy_of_node,
                instant={name: ratio for name, ratio in ratios.items() if ratio is not None},
            )
        )

    def _show(self, turn: Turn) -> None:
        if self._on_turn is not None:
            self._on_turn(turn)

    def _tell_stale(self, entries: Sequence[PolicyEntry], stale: str) -> None:
        now = self._clock()
        if self._stale_since is None:
            self._stale_since = now
        if now - self._stale_since < STALE_TOLD_SECONDS:
            return
        if stale != self._stale_text:
            log.warning("nothing is planned: %s", stale)
            self._stale_text = stale
        self._metrics.show_stale()
        for entry in entries:
            self._reporter.only(entry, [Condition(VIEW_STALE, True, "NotWhole", f"nothing is planned: {stale}")])

    def _require_labels(self, entries: Sequence[PolicyEntry]) -> None:
        keys: set[str] = set()
        for entry in entries:
            if entry.policy is not None:
                spec = entry.policy.spec
                keys |= set(spec.node_selector) | ({ZONE} if spec.per_domain == "Zone" else set())
        with self._view.lock:
            self._view.columns.require_labels(keys)

    def _plan(self, subjects: Sequence[Subject], look: Look, now: float) -> tuple[PolicyPlan, ...]:
        owners = {s.policy.name: s.owner["uid"] for s in subjects if s.owner is not None}
        with self._metrics.plan_duration.time():
            made = plan(
                look.snapshot,
                [s.policy for s in subjects],
                now=now,
                existing=existing_shapes(look.present.sets, owners),
                words=look.words,
                memory=self._memory,
                default_rate=self._default_rate,
                priorities={name: one.value for name, one in look.priority_classes.items()},
                kept=self._kept,
            )
        self._memory = made.memory
        return tuple(
            item if subject.hindrance is None else replace(item, act=False)
            for subject, item in zip(subjects, made.items, strict=True)
        )

    def _measure(self, look: Look, subjects: Sequence[Subject]) -> None:
        """Find whose each node is, and with that whose the starts since the last turn are."""
        nodes = look.snapshot.nodes.names
        self._policy_of_node = {
            nodes[row]: domain.policy.name
            for domain in divide(look.snapshot, [s.policy for s in subjects])
            for row in domain.members.nonzero()[0]
        }
        for policy, start in self._ratio.add(look.starts, self._policy_of_node):
            self._metrics.started(policy, start.waited_seconds, in_slack=start.in_slack)

    def _act(
        self,
        subjects: Sequence[Subject],
        items: Sequence[PolicyPlan],
        look: Look,
        entries: Sequence[PolicyEntry],
    ) -> dict[str, tuple[str, ...]]:
        self._ensure_priority_class(items, subjects, look.priority_classes)
        decided = [
            decide(
                item,
                look.present,
                owner_uid=subject.owner["uid"],
                manifest=self._maker(subject.policy.name, subject.owner),
                marked_since=self._actuator.marked_since,
                now=self._clock(),
            )
            if subject.owner is not None
            else ()
            for subject, item in zip(subjects, items, strict=True)
        ]
        marking = {
            a.replica_set for actions in decided for a in actions if isinstance(a, SetCost) and a.cost is not None
        }
        self._actuator.forget_marks_but(marking)
        owners = {entry.name: entry.uid for entry in entries}
        if not entries:
            owners = {s.policy.name: s.owner["uid"] for s in subjects if s.owner is not None}
        if owners:
            self._actuator.carry_out("", orphans(look.present, owners), look.present.sets)
        return {
            subject.policy.name: self._actuator.carry_out(subject.policy.name, actions, look.present.sets)
            for subject, actions in zip(subjects, decided, strict=True)
        }

    def _maker(self, policy: str, owner: Json) -> Callable[[ShapePlan], Json]:
        def manifest(shape: ShapePlan) -> Json:
            return replica_set(
                policy,
                shape.shape,
                shape.role,
                shape.replicas,
                namespace=self._namespace,
                owner=owner,
                image=self._image,
                retiring=shape.retiring,
            )

        return manifest

    def _ensure_priority_class(
        self, items: Sequence[PolicyPlan], subjects: Sequence[Subject], classes: Mapping[str, PriorityClass]
    ) -> None:
        """Create our PriorityClass where it is absent; the watch that shows it wakes the loop."""
        if PRIORITY_CLASS in classes or not any(
            item.act and s.policy.spec.priority_class_name == PRIORITY_CLASS
            for s, item in zip(subjects, items, strict=True)
        ):
            return
        if not self._may_write():
            raise NotLeading
        try:
            self._writer.create(resource_path("scheduling.k8s.io/v1", "priorityclasses"), priority_class())
            log.info("created PriorityClass", extra=fields(name=PRIORITY_CLASS))
        except ApiError as error:
            if not error.conflict:
                log.error("PriorityClass %s is absent and cannot be created: %s", PRIORITY_CLASS, error)

    def _report(
        self,
        subjects: Sequence[Subject],
        items: Sequence[PolicyPlan],
        look: Look,
        problems: Mapping[str, tuple[str, ...]],
    ) -> Mapping[str, tuple[Condition, ...]]:
        """Write what is worth it; returns each policy's conditions beside the plan's."""
        extras: dict[str, tuple[Condition, ...]] = {}
        for subject, item in zip(subjects, items, strict=True):
            name = subject.policy.name
            extra = [one for one in (subject.hindrance, self._rescuer.condition(name)) if one is not None]
            refused = problems.get(name, ())
            if refused and subject.hindrance is None:
                extra.append(not_ready("WriteRefused", "; ".join(refused)))
            causes = {cause: count for (policy, cause), count in look.displaced.items() if policy == name}
            self._reporter.displaced(subject.entry, causes)
            self._reporter.plan(
                subject.entry, item, extra=extra, displaced=sum(causes.values()), instant_start=self._ratio.text(name)
            )
            self._metrics.show_conditions(name, (*item.conditions, *extra))
            extras[name] = tuple(extra)
        return extras
