"""What each buffer's status says: how many chunks fit, and what stands against the others. Written where it differs.

A buffer whose chunks all fit, and whose status says so, costs nothing until its plan or the count changes. Owned by the
thread that serves.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from slack.capacity_buffers.api import BufferCondition
from slack.capacity_buffers.chunks import could_hold
from slack.capacity_buffers.conditions import Fit, Steadiness, buffer_conditions, status_document, was_provisioning
from slack.capacity_buffers.feasibility import Outlook, standing_refusal, why_infeasible
from slack.capacity_buffers.plan import BufferPlan
from slack.cluster.class_index import ClassIndex
from slack.planner.model.shape import Shape
from slack_operator.capacity_buffers.buffer_writer import BufferSet, BufferWriter
from slack_operator.capacity_buffers.served_api import BufferApi
from slack_operator.placeholders.view.autoscalers import Recognition
from slack_operator.placeholders.view.cluster_view import Observation
from slack_operator.runtime.conditions import rfc3339, with_times

LONE_SECONDS = 30.0
"""So long a chunk that no node could hold waits for an autoscaler that is not recognised."""
Row = Mapping[str, Any]


class BufferTelling:
    """See the module's docstring."""

    def __init__(
        self, writer: BufferWriter, *, recognised: Callable[[], Recognition | None], wall: Callable[[], float]
    ) -> None:
        """Nothing was told yet.

        Args:
            writer: of statuses.
            recognised: which autoscaler is there.
            wall: Unix seconds.
        """
        self._writer = writer
        self._recognised = recognised
        self._wall = wall
        self._steady = Steadiness()
        self._short_since: dict[str, float] = {}
        """By uid: since when not all chunks fit."""
        self._refused_since: dict[str, float] = {}
        """By ReplicaSet: since when the autoscaler's last word was a refusal, Unix seconds."""
        self._said: dict[str, bool] = {}
        """By uid: whether `Provisioning` was last True."""
        self.told_at: dict[str, float] = {}
        """By uid: when this process last wrote its status, Unix seconds."""
        self._settled: dict[str, tuple[BufferPlan, int, BufferApi, Row]] = {}
        """By uid: a plan and a count of fitting chunks about which nothing is left to say."""

    def keep_only(self, uids: Collection[str], contested: Collection[str]) -> None:
        """Forget buffers that are gone; of contested ones only the last write is remembered."""
        self._steady.keep_only(uids)
        self._short_since = {uid: at for uid, at in self._short_since.items() if uid in uids}
        self._said = {uid: said for uid, said in self._said.items() if uid in uids}
        self._settled = {uid: row for uid, row in self._settled.items() if uid in uids}
        self.told_at = {uid: at for uid, at in self.told_at.items() if uid in uids or uid in contested}

    def due_in(self, now: float) -> float | None:
        """Return the seconds until a condition may turn by time alone."""
        return self._steady.due_in(now)

    def report_buffer(
        self,
        plan: BufferPlan,
        sets: Sequence[BufferSet],
        seen: Observation,
        held: Mapping[str, int],
        api: BufferApi,
        now: float,
    ) -> Row:
        """Write a buffer's status where it says something else; return its row of the report.

        Args:
            plan: of the buffer.
            sets: its ReplicaSets.
            seen: the cluster.
            held: by ReplicaSet: how many of its pods fit.
            api: the kind as it is served.
            now: monotonic seconds.
        """
        own, uid = plan.buffer, plan.buffer.uid
        fitting = sum(min(held.get(each.name, 0), each.replicas) for each in sets) if plan.parts else 0
        settled = self._settled.get(uid)
        if settled is not None and settled[0] is plan and settled[1] == fitting and settled[2] == api:
            return settled[3]
        fit = self._fit(plan, sets, fitting, seen, now)
        fits = 0 < plan.replicas <= fitting
        was_true = was_provisioning(own.status) if uid not in self._said else self._said[uid]
        steady = self._steady.is_true(uid, fits=fits, was_true=was_true, now=now)
        self._said[uid] = steady
        conditions = buffer_conditions(plan, fit, steady=steady)
        stamped = with_times(conditions, own.status or {}, rfc3339(self._wall()), own.metadata.generation or 0)
        document = status_document(plan, fit, stamped, api.fields)
        if self._writer.write_status(own, api.api_version, document):
            self.told_at[uid] = self._wall()
        provisioning = next(each for each in conditions if each.type == BufferCondition.PROVISIONING)
        row: Row = {
            "name": own.name,
            "replicas": plan.replicas,
            "asked": plan.asked,
            "fitting": fitting,
            "reason": provisioning.reason,
            "message": provisioning.message,
            "limits": list(plan.limits),
        }
        self._settled.pop(uid, None)
        if (steady or not plan.replicas) and self._writer.is_told(own, document):
            self._settled[uid] = (plan, fitting, api, row)
        return row

    def _fit(self, plan: BufferPlan, sets: Sequence[BufferSet], fitting: int, seen: Observation, now: float) -> Fit:
        """Say what stands against the chunks that do not fit."""
        uid, names = plan.buffer.uid, {each.name for each in sets}
        if not plan.parts or fitting >= plan.replicas:
            self._short_since.pop(uid, None)
            for name in names:
                self._refused_since.pop(name, None)
            return Fit(fitting)
        waited = now - self._short_since.setdefault(uid, now)
        recognition = self._recognised()
        is_alone = recognition is not None and recognition.autoscaler is None and bool(recognition.note)
        absent = is_alone and waited >= LONE_SECONDS
        why = ""
        for (shape, _), each in zip(plan.parts, sets, strict=True):
            total = plan.chunk.total if plan.chunk is not None else dict(shape.requests)
            why = why or self._why_infeasible(shape, total, each.name, seen, absent=absent)
        return Fit(fitting, why)

    def _why_infeasible(
        self, shape: Shape, total: Mapping[str, int], name: str, seen: Observation, *, absent: bool
    ) -> str:
        events = [event for event in seen.buffer_events if event.replica_set == name]
        if (refusal := standing_refusal(events)) is None:
            self._refused_since.pop(name, None)
        else:
            self._refused_since.setdefault(name, refusal.seen_seconds)
        if refusal is None and not absent:
            return ""
        snapshot = seen.snapshot
        reach = ClassIndex(snapshot.node_classes).admitted(shape.constraints)
        could_fit = could_hold(snapshot, total, reach)
        outlook = Outlook(could_fit, absent, events, self._refused_since.get(name))
        return why_infeasible(outlook, self._wall())
