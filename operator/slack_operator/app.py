"""The operator's process: its settings, its components, and what is checked before anything starts."""

import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

from pydantic import ValidationError

from slack.capacity_buffers.api import Serve
from slack.capacity_buffers.ceiling import NO_CEILING
from slack.cluster import wire
from slack.cluster.classes import KNOWN_TAINTS
from slack.cluster.hold import ReleaseNodes
from slack.cluster.labels import ANNOTATION_BUILT_IN_POLICY, FIELD_MANAGER, LABEL_MANAGED_BY, MANAGED_BY
from slack.cluster.node_prices import NodePrices
from slack.kube.apply import Writer
from slack.kube.connection import Connection
from slack.kube.errors import ApiError, KubeError
from slack.kube.paths import resource_path
from slack.kube.pipelining import PipelinedClient
from slack.kube.reflector import Reflector
from slack.kube.retry import retrying
from slack.planner.policy.placeholders import Placeholders
from slack.planner.warm.choice import WarmLimits
from slack.process import arguments, running
from slack.process.running import CannotStart
from slack.process.settings import flag
from slack.process.stopping import Stopping
from slack.process.values import host_port
from slack.schema.documents import problem_text
from slack_operator.burst_eviction.burst_evictor import BurstEvictor
from slack_operator.burst_eviction.burst_reporter import BurstReporter
from slack_operator.burst_eviction.eviction_writer import EvictionWriter
from slack_operator.burst_eviction.replica_set_suspender import ReplicaSetSuspender
from slack_operator.capacity_buffers.buffer_serving import BufferServing, ServingOptions
from slack_operator.capacity_buffers.buffer_writer import BufferWriter
from slack_operator.capacity_buffers.server_probe import ServerProbe
from slack_operator.capacity_buffers.targets import Targets
from slack_operator.learning.histories import Histories
from slack_operator.learning.objectives import Objectives
from slack_operator.placeholders.act.actuator import Actuator
from slack_operator.placeholders.act.creation_block import CreationBlock
from slack_operator.placeholders.act.executor import Executor, OnPlanned, PlaceholderManifests, Writers
from slack_operator.placeholders.act.left_loads import LeftLoads
from slack_operator.placeholders.act.own_priority_class import OwnPriorityClass
from slack_operator.placeholders.act.release_ways import MarkerPods, way_of
from slack_operator.placeholders.act.releasing import Releasing
from slack_operator.placeholders.act.rescue import Rescuer
from slack_operator.placeholders.act.soft_tainting import SoftTainting
from slack_operator.placeholders.act.unbound import CONNECTIONS, UnboundTelling
from slack_operator.placeholders.forms import Forms
from slack_operator.placeholders.loop import Loop
from slack_operator.placeholders.node_owners import NodeOwners
from slack_operator.placeholders.observer import Observer
from slack_operator.placeholders.policies import SLACK_POLICY, DesiredPolicies
from slack_operator.placeholders.policy_planner import PlannerSettings, PolicyPlanner
from slack_operator.placeholders.report.metrics import Metrics, WatchRestarts
from slack_operator.placeholders.report.publisher import OfPolicy, Publisher
from slack_operator.placeholders.report.reporter import Reporter
from slack_operator.placeholders.view.autoscalers import Autoscalers
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.placeholders.view.node_claims import NodeClaims
from slack_operator.placeholders.view.node_claims import watch_of as watch_of_claims
from slack_operator.placeholders.view.watches import OperatorWatches
from slack_operator.runtime.connecting import connected
from slack_operator.runtime.policy_source import PolicySource
from slack_operator.runtime.price_source import PriceSource
from slack_operator.runtime.process import Components, Process, ProcessContext, Server
from slack_operator.runtime.reconcile_loop import ReconcileLoop
from slack_operator.scaling.policy_scaler import PolicyScaler
from slack_operator.scaling.scale_sink import ScaleSink, watch_of
from slack_operator.settings import OperatorSettings
from slack_operator.settings_warnings import settings_warnings
from slack_operator.warm.node_warming import NodeWarming
from slack_operator.warm.warm_api import WarmApi
from slack_operator.web.load import LoadBoard
from slack_operator.web.page_state import About, PageState

log = logging.getLogger(__name__)

COMPONENT = FIELD_MANAGER
BETWEEN_DEADLINE_SECONDS = 1.0
"""Of what is done between plans: no try begins later, for each comes back by itself, and the loop waits meanwhile."""


def build(settings: OperatorSettings, stopping: Stopping) -> Process:
    """Check what can be checked, connect, and make all components of one operator.

    Raises:
        CannotStart: a file, the connection or the namespace is not as it must be.
    """
    _warn(settings)
    metrics = Metrics()
    metrics.plan_interval.set(settings.interval)
    web_token, extras = _web_token(settings), _placeholders(settings)
    connection = _connect(settings, stopping, metrics)
    said = {ANNOTATION_BUILT_IN_POLICY: str(settings.built_in_policy).lower()}
    context = ProcessContext(settings, connection, stopping, component=COMPONENT, lease_annotations=said)
    view = _view(settings, context)
    scales = ScaleSink(context.wake.touch)
    scaled = watch_of(connection, settings.namespace, scales)
    releasing, claims_watch = _releasing(settings, context, view, extras)
    watches = _watches(settings, connection, view, [scaled, claims_watch])
    desired = DesiredPolicies(context.wake.touch)
    scaler = _scaler(settings, context, scales, desired)
    board = _board(settings, context) if settings.web else None
    load = _load(settings) if settings.web and settings.web_load_watcher else None
    evictor = _burst_evictor(settings, context, view, watches, metrics) if settings.frees_capacity else None
    objectives, unbound = _objectives(settings, context), _unbound(context, view)
    left_loads, autoscalers = _left_loads(context), _autoscalers(settings, context, view)
    prices = PriceSource(settings.prices, settings.open_cost, context.wake.touch)
    buffers = _buffers(settings, context, view, metrics, unbound, autoscalers, extras, prices.prices)
    warming, tainting = _warming(settings, context, view, extras, metrics), _tainting(settings, context, view)
    looks = (unbound.look, buffers.look, warming.look, tainting.look, *([] if evictor is None else [evictor.take_plan]))
    forms = _forms(settings, autoscalers, unbound)
    context.wake.is_throttled = lambda: bool(view.suspended) or forms.all_unbound
    act = _executor(settings, context, view, metrics, forms, releasing, extras, looks, watches, buffers)
    later = (warming.condition, tainting.condition)
    loop = _loop(
        settings, context, view, watches, desired, metrics, board, objectives, forms, act, later, prices.prices
    )
    metrics.registry.register(WatchRestarts(watches.restarts))
    writers = (left_loads.look_for_loads, releasing.write_due, tainting.write_due)
    components = Components(
        watches=watches,
        policies=PolicySource(connection, desired, SLACK_POLICY),
        loop=ReconcileLoop(
            loop.reconcile,
            context.wake,
            between=(loop.publish_held, loop.rescue, scaler.scale_due, objectives.save, *writers),
            due_in=loop.publish_due_in,
            at_end=objectives.close,
            heart=context.heart,
        ),
        registry=metrics.registry,
        unreadable=metrics.unreadable,
        unready=watches.stale,
        whole=lambda: {"nodes": view.node_count()},
        servers=() if board is None else (_page(settings, board, web_token, load, view, buffers),),
        workers=_drop_none(
            unbound, autoscalers, buffers, warming, prices, evictor, None if load is None else load.source
        ),
    )
    return Process(context, components)


def _drop_none(*workers: running.Component | None) -> tuple[running.Component, ...]:
    """Return those that there are."""
    return tuple(worker for worker in workers if worker is not None)


def _warn(settings: OperatorSettings) -> None:
    for warning in settings_warnings(settings, os.environ):
        log.warning("%s", warning)


def _connect(settings: OperatorSettings, stopping: Stopping, metrics: Metrics) -> Connection:
    """Connect to the API server, and make sure that the placeholders' namespace is there.

    Raises:
        CannotStart: one of both failed.
    """
    connection = connected(settings, metrics.on_request)
    try:
        ensure_namespace(Writer(connection, stopping.event), settings.namespace)
    except KubeError as error:
        raise CannotStart(f"cannot start: {error}", exit_code=1) from None
    return connection


def _view(settings: OperatorSettings, context: ProcessContext) -> ClusterView:
    view = ClusterView(settings.namespace, context.wake.touch, taint_keys=settings.transient_taints or KNOWN_TAINTS)
    view.on_node_change = context.wake.touch_soon
    return view


def _loop(
    settings: OperatorSettings,
    context: ProcessContext,
    view: ClusterView,
    watches: OperatorWatches,
    desired: DesiredPolicies,
    metrics: Metrics,
    board: PageState | None,
    objectives: Objectives,
    forms: Forms,
    act: Executor,
    conditions: Sequence[OfPolicy],
    prices: Callable[[], NodePrices],
) -> Loop:
    may_write = context.leadership.may_write
    planner_settings = PlannerSettings(
        default_rate=settings.extra_capacity_min_rate, built_in_policy=settings.built_in_policy, prices=prices
    )
    reporter = Reporter(
        context.writer,
        context.recorder,
        namespace=settings.namespace,
        may_write=may_write,
        clock=time.monotonic,
        wall=time.time,
        progress=context.heart.beat,
    )
    return Loop(
        observe=Observer(view, watches, desired, forms, may_write=may_write, prices=prices),
        plan=PolicyPlanner(
            forms,
            objectives,
            act.owners,
            planner_settings,
            node_starts=view.node_starts,
            timed=metrics.plan_duration.time,
        ),
        act=act,
        report=Publisher(
            reporter,
            metrics,
            act,
            forms,
            objectives,
            wake=context.wake,
            on_reconciled=None if board is None else board.show,
            conditions=conditions,
        ),
    )


def _executor(
    settings: OperatorSettings,
    context: ProcessContext,
    view: ClusterView,
    metrics: Metrics,
    forms: Forms,
    releasing: Releasing,
    extras: Placeholders,
    on_planned: Sequence[OnPlanned],
    watches: OperatorWatches,
    buffers: BufferServing,
) -> Executor:
    writer, may_write, clock = context.writer, context.leadership.may_write, time.monotonic
    actuator = _actuator(settings, context, view)
    writers = Writers(
        actuator=actuator,
        priority_class=OwnPriorityClass(writer, actuator.contests, may_write=may_write, clock=clock),
        creation_block=CreationBlock(writer, namespace=settings.namespace, may_write=may_write, clock=clock),
        releasing=releasing,
        rescuer=_rescuer(settings, context, metrics),
        on_planned=on_planned,
    )
    manifests = PlaceholderManifests(
        namespace=settings.namespace, image=settings.image, user=settings.placeholder_user, extras=extras
    )
    return Executor(
        view,
        writers,
        manifests,
        forms,
        NodeOwners(),
        may_write=may_write,
        stale=watches.stale,
        wake=context.wake,
        keeps_buffers=lambda: buffers.keeps_buffers,
        clock=clock,
    )


def _warming(
    settings: OperatorSettings, context: ProcessContext, view: ClusterView, extras: Placeholders, metrics: Metrics
) -> NodeWarming:
    gate = context.leadership.gate
    writer = Writer(context.connection, gate, retry=retrying(gate, deadline_seconds=BETWEEN_DEADLINE_SECONDS))
    return NodeWarming(
        WarmApi(context.connection, writer, settings.namespace),
        view.images_by_workload,
        enabled=settings.warm,
        namespace=settings.namespace,
        user=settings.placeholder_user,
        extras=extras,
        limits=WarmLimits(settings.warm_nodes_at_once, settings.warm_bytes_per_second),
        may_write=context.leadership.may_write,
        on_pull=metrics.image_pulled_ahead,
        clock=time.monotonic,
    )


def _watches(
    settings: OperatorSettings, connection: Connection, view: ClusterView, helpful: Sequence[Reflector[Any]]
) -> OperatorWatches:
    admission = settings.frees_capacity or settings.capacity_buffers is not Serve.OFF
    return OperatorWatches(connection, view, helpful=helpful, admission=admission, image_pulls=settings.image_pulls)


def _actuator(settings: OperatorSettings, context: ProcessContext, view: ClusterView) -> Actuator:
    return Actuator(
        context.writer,
        namespace=settings.namespace,
        may_write=context.leadership.may_write,
        expectations=view,
        clock=time.monotonic,
        is_suspended=view.is_suspended,
        progress=context.heart.beat,
    )


def _rescuer(settings: OperatorSettings, context: ProcessContext, metrics: Metrics) -> Rescuer:
    gate = context.leadership.gate
    return Rescuer(
        Writer(context.connection, gate, retry=retrying(gate, deadline_seconds=BETWEEN_DEADLINE_SECONDS)),
        context.recorder,
        metrics,
        enabled=settings.rescue_stuck_preemptors and settings.bound,
        may_write=context.leadership.may_write,
        server_version=context.connection.server_version,
        clock=time.monotonic,
    )


def _releasing(
    settings: OperatorSettings, context: ProcessContext, view: ClusterView, extras: Placeholders
) -> tuple[Releasing, Reflector[wire.NodeClaim]]:
    """Return who releases nodes, and the watch of NodeClaims for it."""
    gate, claims = context.leadership.gate, NodeClaims()
    watch = watch_of_claims(context.connection, claims)
    writer = Writer(context.connection, gate, retry=retrying(gate, deadline_seconds=BETWEEN_DEADLINE_SECONDS))
    markers = MarkerPods(
        view,
        writer,
        namespace=settings.namespace,
        image=settings.image,
        user=settings.placeholder_user,
        extras=extras,
    )
    releasing = Releasing(
        view,
        claims.by_node,
        way_of(settings.release_nodes, writer, markers),
        markers,
        blind=lambda: watch.forbidden,
        may_write=context.leadership.may_write,
    )
    return releasing, watch


def _tainting(settings: OperatorSettings, context: ProcessContext, view: ClusterView) -> SoftTainting:
    gate = context.leadership.gate
    writer = Writer(context.connection, gate, retry=retrying(gate, deadline_seconds=BETWEEN_DEADLINE_SECONDS))
    return SoftTainting(view, writer, enabled=settings.soft_taint, may_write=context.leadership.may_write)


def _objectives(settings: OperatorSettings, context: ProcessContext) -> Objectives:
    gate = context.leadership.gate
    writer = Writer(context.connection, gate, retry=retrying(gate, deadline_seconds=BETWEEN_DEADLINE_SECONDS))
    histories = Histories(writer, namespace=settings.namespace)
    return Objectives(histories, context.leadership.may_write, time.monotonic, time.time)


def _scaler(
    settings: OperatorSettings, context: ProcessContext, scales: ScaleSink, desired: DesiredPolicies
) -> PolicyScaler:
    gate = context.leadership.gate
    return PolicyScaler(
        Writer(context.connection, gate, retry=retrying(gate, deadline_seconds=BETWEEN_DEADLINE_SECONDS)),
        context.recorder.record,
        scales.scales,
        desired.entries,
        namespace=settings.namespace,
        may_write=lambda: context.leadership.may_write() and desired.synced,
        clock=time.monotonic,
        wall=time.time,
    )


def _autoscalers(settings: OperatorSettings, context: ProcessContext, view: ClusterView) -> Autoscalers:
    return Autoscalers(
        context.connection,
        status_map=settings.cluster_autoscaler_status_map,
        heard=lambda: view.autoscaler_events.heard_seconds,
        on_change=context.wake.touch,
        clock=time.monotonic,
        wall=time.time,
    )


def _unbound(context: ProcessContext, view: ClusterView) -> UnboundTelling:
    lanes = PipelinedClient(context.connection, most=CONNECTIONS)
    return UnboundTelling(view, lanes, context.recorder, may_write=context.leadership.may_write, wall=time.time)


def _buffers(
    settings: OperatorSettings,
    context: ProcessContext,
    view: ClusterView,
    metrics: Metrics,
    unbound: UnboundTelling,
    autoscalers: Autoscalers,
    extras: Placeholders,
    prices: Callable[[], NodePrices],
) -> BufferServing:
    may_write = context.leadership.may_write
    view.columns.dates_pods = settings.capacity_buffers is not Serve.OFF
    options = ServingOptions(
        serve=settings.capacity_buffers,
        namespace=settings.namespace,
        image=settings.image,
        user=settings.placeholder_user,
        extras=extras,
        ceiling=settings.capacity_buffers_ceiling or NO_CEILING,
        prices=prices,
        unbound_scheduler=settings.unbound_scheduler,
        yields_to_markers=settings.release_nodes is ReleaseNodes.MARKER_POD,
        tolerates_soft_taint=settings.soft_taint,
    )
    writer, namespace, clock = context.writer, settings.namespace, time.monotonic
    return BufferServing(
        options,
        context.connection,
        view,
        BufferWriter(writer, namespace=namespace, may_write=may_write, clock=clock),
        ServerProbe(writer, namespace=namespace, image=settings.image, clock=clock, wall=time.time),
        Targets(context.connection, settings.capacity_buffers_scalable_kinds or {}),
        unbound,
        context.recorder,
        recognised=lambda: autoscalers.recognition,
        may_write=may_write,
        wall=time.time,
        on_report=lambda report: metrics.show_buffers(
            str(report.finding.server), report.states, report.wanted, report.fitting
        ),
    )


def _forms(settings: OperatorSettings, autoscalers: Autoscalers, unbound: UnboundTelling) -> Forms:
    return Forms(
        scheduler=settings.unbound_scheduler,
        default=settings.hold,
        bound_allowed=settings.bound,
        release_nodes=settings.release_nodes,
        soft_taint=settings.soft_taint,
        recognised=lambda: autoscalers.recognition,
        untold=lambda: unbound.problem,
        clock=time.monotonic,
        wall=time.time,
    )


def _left_loads(context: ProcessContext) -> LeftLoads:
    gate = context.leadership.gate
    writer = Writer(context.connection, gate, retry=retrying(gate, deadline_seconds=BETWEEN_DEADLINE_SECONDS))
    may_write = context.leadership.may_write
    return LeftLoads(context.connection, writer, may_write=may_write, clock=time.monotonic, wall=time.time)


def _burst_evictor(
    settings: OperatorSettings, context: ProcessContext, view: ClusterView, watches: OperatorWatches, metrics: Metrics
) -> BurstEvictor:
    may_write = context.leadership.may_write
    writer = EvictionWriter(PipelinedClient(context.connection), namespace=settings.namespace, may_write=may_write)
    return BurstEvictor(
        view,
        ReplicaSetSuspender(view, writer, may_write=may_write),
        BurstReporter(metrics, context.recorder),
        may_write=may_write,
        stale=watches.stale,
        wake=context.wake.flush,
    )


def _web_token(settings: OperatorSettings) -> str | None:
    if not settings.web or not settings.web_token_file:
        return None
    from slack_operator.web.guard import InvalidTokenFile, read_token  # loads aiohttp, as in `_page`

    try:
        return read_token(settings.web_token_file)
    except InvalidTokenFile as error:
        raise CannotStart(f"{flag('web_token_file')}: {error}") from None


def _placeholders(settings: OperatorSettings) -> Placeholders:
    try:
        return Placeholders.model_validate(settings.placeholders or {}, by_alias=True, by_name=False)
    except ValidationError as error:
        problems = "; ".join(problem_text(dict(one), "", Placeholders).removeprefix(": ") for one in error.errors())
        raise CannotStart(f"{flag('placeholders')}: {problems}") from None


def _board(settings: OperatorSettings, context: ProcessContext) -> PageState:
    return PageState(
        About(
            identity=context.leadership.identity,
            namespace=settings.namespace,
            operator_version=metadata.version("resource-slack"),
            interval_seconds=settings.interval,
            leader=lambda: context.leadership.leader or "",
            vacant_seconds=lambda: context.leadership.vacant_seconds,
        )
    )


def _load(settings: OperatorSettings) -> LoadBoard:
    assert settings.web_load_watcher is not None
    authority = settings.web_load_watcher_ca_file
    if authority is not None and not authority.is_file():
        raise CannotStart(f"{flag('web_load_watcher_ca_file')}: {authority} is no file")
    return LoadBoard.fetching(settings.web_load_watcher, None if authority is None else str(authority))


def _page(
    settings: OperatorSettings,
    board: PageState,
    token: str | None,
    load: LoadBoard | None,
    view: ClusterView,
    buffers: BufferServing,
) -> Server:
    from slack_operator.web.server import WebServer  # loads aiohttp: a start without the page does not wait for it

    serves = settings.capacity_buffers is not Serve.OFF
    server = WebServer(
        *host_port(settings.web_listen),
        board=board,
        token=token,
        load=load,
        buffers=lambda: buffers.report if serves else None,
        quotas_of=view.quotas.known_of,
    )
    return Server(server, flag("web_listen"), settings.web_listen, f"the web page at http://{settings.web_listen}")


def ensure_namespace(writer: Writer, namespace: str) -> None:
    """Create the namespace where it is absent: outside the cluster there may be none yet.

    Raises:
        ApiError: when it is absent and may not be created.
    """
    try:
        writer.get(resource_path("v1", "namespaces", name=namespace))
    except ApiError as error:
        if error.status == 403:
            return  # in the cluster we run in it, and need no right to read it
        if not error.not_found:
            raise
        labels = {LABEL_MANAGED_BY: MANAGED_BY, "pod-security.kubernetes.io/enforce": "restricted"}
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
        try:
            writer.create(resource_path("v1", "namespaces"), manifest)
            log.info("created namespace %s", namespace)
        except ApiError as refused:
            if not refused.conflict:
                raise


def run(settings: OperatorSettings) -> int:
    """Run the operator until a signal; returns the process's exit code."""
    return running.run(settings, build)


def main(flags: Sequence[str] | None = None) -> int:
    """`python -m slack_operator.app --flag=value ...`: the same as `resource-slack operator`."""
    return arguments.main(OperatorSettings, run, flags)


if __name__ == "__main__":
    sys.exit(main())
