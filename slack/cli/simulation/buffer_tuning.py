"""`tune --buffer`: the replicas or the percentage of a CapacityBuffer that an objective would choose, and why.

The objective learns, as with `tune --objective`, from the pods that the buffer is for. A buffer has one size at all
hours, so it gets what the busiest hour of the day takes, or of the week where that is the pattern.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from slack.cli.simulation.training import pair_text
from slack.cli.terminal.counts import count_text
from slack.cli.terminal.problems import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slack.capacity_buffers.api import CapacityBuffer
    from slack.capacity_buffers.chosen_size import ChosenSize
    from slack.kube.access import ClusterAccess
    from slack.kube.connection import Connection
    from slack.simulator.runs.train import HourOfAmounts, TrainedObjective, TrainedPolicy
    from slack.simulator.scenario.inventory import ScenarioWorkload
    from slack.simulator.scenario.scenario import Scenario

DEFAULT_OBJECTIVE = 0.99
BY_DAY, BY_WEEK = ("hour of day", "minute of day"), "hour of week"
"""Patterns of `slack.planner.objective.patterns` by which hours differ."""
HOURS_OF_A_WEEK = 168


@dataclass(frozen=True, slots=True)
class BufferSubject:
    """A buffer as it is tuned: what one chunk requests, and of which pods."""

    buffer: "CapacityBuffer"
    chunk: "Mapping[str, int]"
    pods: int | None
    """Of the object in scalableRef; None for a PodTemplate."""

    def is_for(self, workload: "ScenarioWorkload") -> bool:
        """Say whether the buffer is for these pods: those of its workload; without one, those that fit into a chunk."""
        from slack.cluster.identity import SHORT_KINDS

        reference = self.buffer.spec.scalable_ref
        if workload.namespace != self.buffer.namespace:
            return False
        if reference is not None:
            kind = SHORT_KINDS.get(reference.kind, reference.kind.lower())
            return workload.name == reference.name and workload.owner_kind in (kind, "")
        return all(amount <= self.chunk.get(name, 0) for name, amount in workload.requests.items())


@dataclass(frozen=True, slots=True)
class TunedBuffer:
    """What the objective would choose."""

    subject: BufferSubject
    trained: "TrainedObjective"
    policy: "TrainedPolicy"
    busiest: "HourOfAmounts"
    size: "ChosenSize | None"
    """None while too little has come to say."""

    @property
    def is_sure(self) -> bool:
        """Return whether enough was seen; until then the size holds the largest burst so far."""
        return self.size is not None and self.policy.amount.why.lacking is None

    @property
    def field(self) -> str:
        """Return the field of the buffer that is to be set: percentage where it sizes itself by that alone."""
        spec = self.subject.buffer.spec
        by_share = spec.percentage is not None and not spec.replicas
        return "percentage" if by_share and self.size is not None and self.size.percentage is not None else "replicas"

    @property
    def value(self) -> int | None:
        """Return its value."""
        if self.size is None:
            return None
        return self.size.percentage if self.field == "percentage" else self.size.replicas

    @property
    def basis(self) -> str:
        """Return what the size holds: what the busiest hour takes, or that all hours take the same."""
        from datetime import UTC, datetime

        hour, amount = self.busiest, self.policy.amount
        taken = pair_text(hour.most_cpu_millis, hour.most_memory_bytes)
        if amount.cpu_millis > hour.most_cpu_millis or amount.memory_bytes > hour.most_memory_bytes:
            return f"what was last asked for: {pair_text(amount.cpu_millis, amount.memory_bytes)}"
        if amount.why.pattern not in (*BY_DAY, BY_WEEK):
            return f"what every hour takes: {taken}"
        begins = datetime.fromtimestamp(hour.at_seconds, UTC)
        when = f"week, from {begins:%a %H:%M}" if amount.why.pattern == BY_WEEK else f"day, from {begins:%H:%M}"
        return f"what the busiest hour of the {when} UTC, takes: {taken}"

    @property
    def why(self) -> str:
        """Return what the size follows from, as a sentence."""
        from slack.planner.objective.why_text import why_text

        amount = self.policy.amount
        return why_text(amount.why, pair_text(amount.cpu_millis, amount.memory_bytes))


def check_buffer(text: str) -> tuple[str, str]:
    """Return namespace and name of --buffer.

    Raises:
        UserError: when it is not NAMESPACE/NAME.
    """
    namespace, _, name = text.removeprefix("cb/").partition("/")
    if not namespace or not name or "/" in name:
        raise UserError(f"--buffer: {text!r} is not NAMESPACE/NAME, such as shop/web")
    return namespace, name


def read_subject(access: "ClusterAccess", placeholder_namespace: str, namespace: str, name: str) -> BufferSubject:
    """Return a buffer of a cluster with what it refers to.

    Raises:
        UserError: when there is no such buffer, or its reference has come to nothing.
        KubeError: there is no answer, or no permission.
    """
    from slack.cli.inputs.api_server import api_server
    from slack.cli.inputs.buffers import read_buffers

    with api_server(access) as connection:
        found = read_buffers(connection, placeholder_namespace)
        if found is None:
            raise UserError("capacitybuffers: the cluster has no such kind, or you may not list it")
        own = next((each for each in found[0] if each.name == f"{namespace}/{name}"), None)
        if own is None:
            near = [each.name for each in found[0] if each.metadata.name == name or each.namespace == namespace]
            hint = f"; there is {', '.join(near[:3])}" if near else ""
            raise UserError(f"--buffer: there is no CapacityBuffer {namespace}/{name}{hint}")
        try:
            return _subject(connection, own)
        except ValueError as error:
            raise UserError(f"--buffer: {own.name}: {error}") from None


def _subject(connection: "Connection", own: "CapacityBuffer") -> BufferSubject:
    """Return a buffer with its chunk, as its template has it.

    Raises:
        ValueError: when its reference has come to nothing.
    """
    import msgspec

    from slack.capacity_buffers.api import PodTemplateObject, ScaledTarget
    from slack.capacity_buffers.chunks import NO_SPEC, chunk_of_template
    from slack.cluster import wire
    from slack.kube.errors import ApiError
    from slack.kube.paths import resource_path
    from slack_operator.capacity_buffers.targets import Targets

    template, pods = None, None
    if own.spec.pod_template_ref is not None:
        name = own.spec.pod_template_ref.name
        path = resource_path("v1", "podtemplates", namespace=own.namespace, name=name)
        try:
            found = msgspec.json.decode(connection.request("GET", path), type=PodTemplateObject)
        except ApiError as error:
            if not error.not_found:
                raise
            raise ValueError(f"there is no PodTemplate {own.namespace}/{name}") from None
        template = (found.template or wire.PodTemplate()).spec or NO_SPEC
    else:
        targets = Targets(connection, {})
        targets.refresh([own], 0.0)
        target = targets.target_of(own)
        if target is None:
            raise ValueError("it names neither a PodTemplate nor an object that can be read")
        if not isinstance(target, ScaledTarget):
            raise ValueError(target.message)
        template, pods = target.spec or NO_SPEC, target.replicas if target.observed is None else target.observed
    return BufferSubject(own, chunk_of_template(template, {}, (), "").requests, pods)


def tune_buffer(scenario: "Scenario", subject: BufferSubject, objective: float) -> TunedBuffer:
    """Play the buffer's pods with an objective, and return the size that it would choose.

    Raises:
        UserError: when none of its pods came.
    """
    from slack.capacity_buffers.chosen_size import choose_size
    from slack.cli.terminal.progress import ProgressSteps
    from slack.planner.policy.spec import Objective
    from slack.simulator.runs.train import hours_after, train

    kept = tuple(workload for workload in scenario.workloads if subject.is_for(workload))
    if not kept:
        raise UserError(f"--buffer: {subject.buffer.name}: {scenario.name} has no pod that this buffer is for")
    with ProgressSteps() as steps:
        tell = steps.add_step(f"objective {objective:g}")
        played = scenario.model_copy(update={"workloads": kept})
        trained = train(played, objective, on_progress=lambda at, end: tell(at / end))
    if not trained.result.total.pods:
        raise UserError(f"--buffer: {subject.buffer.name}: none of its pods comes after the warm-up; nothing is learnt")
    policy = max(trained.policies, key=lambda each: each.amount.cpu_millis)
    hours = policy.hours
    if policy.amount.why.pattern == BY_WEEK:
        end = scenario.starts_at.timestamp() + scenario.duration.total_seconds()
        hours = hours_after(end, policy.learner, Objective(instant_start=objective), HOURS_OF_A_WEEK)
    busiest = max(hours, key=lambda hour: (hour.most_cpu_millis, hour.most_memory_bytes))
    size = None
    if policy.amount.why.known:
        cpu = max(policy.amount.cpu_millis, *(hour.most_cpu_millis for hour in hours))
        memory = max(policy.amount.memory_bytes, *(hour.most_memory_bytes for hour in hours))
        try:
            size = choose_size({"cpu": cpu, "memory": memory}, subject.chunk, subject.pods)
        except ValueError as error:
            raise UserError(f"--buffer: {subject.buffer.name}: {error}") from None
    return TunedBuffer(subject, trained, policy, busiest, size)


def document(found: TunedBuffer, left_out: int) -> dict[str, Any]:
    """Return all of it for programs."""
    from slack.cluster.labels import API_VERSION
    from slack.planner.output import resources_document

    size, trained = found.size, found.trained
    return {
        "apiVersion": API_VERSION,
        "kind": "BufferTuning",
        "buffer": found.subject.buffer.name,
        "objective": trained.objective,
        "known": size is not None,
        "sure": found.is_sure,
        "field": found.field,
        "value": found.value,
        "replicas": None if size is None else size.replicas,
        "percentage": None if size is None else size.percentage,
        "cut": size is not None and size.is_cut,
        "chunk": resources_document(found.subject.chunk.items()),
        "pods_now": found.subject.pods,
        "basis": None if size is None else found.basis,
        "busiest_hour": {
            "at_seconds": found.busiest.at_seconds,
            "cpu_millis": found.busiest.most_cpu_millis,
            "memory_bytes": found.busiest.most_memory_bytes,
        },
        "why": found.why,
        "instant_start_ratio": trained.result.instant_start_ratio,
        "pods": trained.result.total.pods,
        "learnt": trained.to_dict(),
        "left_out_pods": left_out,
    }


def print_buffer(found: TunedBuffer) -> None:
    """Print the size, why, and the command that sets it."""
    from slack.cli.simulation.figures import percent

    own, objective = found.subject.buffer, percent(found.trained.objective)
    if found.size is None:
        typer.echo(f"{own.name}: no size can be said for {objective}: {found.policy.amount.why.lacking}")
        return
    chunk = found.subject.chunk
    of = f" of {count_text(found.subject.pods or 0, 'pod')}" if found.field == "percentage" else ""
    typer.echo(f"{own.name}: {found.field} {found.value}{of}, for {objective} of pods that start without waiting")
    typer.echo(
        f"  chunk  {pair_text(chunk.get('cpu', 0), chunk.get('memory', 0))}; "
        f"{found.size.replicas} of them hold {found.basis}"
    )
    typer.echo(f"  why    {found.why}")
    if found.size.is_cut:
        typer.echo("  bound  one buffer has 1000 chunks at most; divide it")
    patch = f'{{"spec":{{"{found.field}":{found.value}}}}}'
    typer.echo(
        f"  next   kubectl patch capacitybuffer -n {own.namespace} {own.metadata.name} --type merge -p '{patch}'"
    )
