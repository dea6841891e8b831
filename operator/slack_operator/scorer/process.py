"""The scorer's process: watches of pods and nodes, the load watcher's windows, and the extender that answers from both.

Threads: one a watch, one that fetches, one that refreshes what scores are computed from, one that serves the extender,
one for health and metrics; the main one waits. It has no lease and writes nothing: two may run side by side. Start:
servers first, so that probes and the scheduler are answered while the cluster is still listed; until it is seen whole
all nodes score the same.
"""

import logging
import sys
import time
from pathlib import Path

from slack.cluster.wire import Pod
from slack.kube.errors import ConnectionFailed
from slack.kube.kubeconfig import connect
from slack.process import running
from slack.process.health import HealthServer
from slack.process.line_recorder import LineRecorder
from slack.process.logs import fields
from slack.process.running import CannotStart, listen
from slack.process.settings import flag
from slack.process.stopping import Stopping
from slack.process.values import host_port
from slack.scorer.asgi import Extender
from slack.scorer.ceiling import Ceiling, WhenAllAbove
from slack.scorer.configuration.arguments import parse_config
from slack.scorer.configuration.fields import InvalidScorerConfig
from slack.scorer.inputs.cluster_state import ClusterState
from slack.scorer.inputs.prediction import demand_of
from slack.scorer.model import PodDemand
from slack.scorer.record import line_of
from slack.scorer.rules import MetricRules, PodUse, Prediction, WithoutLoad
from slack.supervision.supervisor import Supervisor
from slack_operator.runtime.certificates import Certificate
from slack_operator.runtime.connecting import must_answer
from slack_operator.runtime.load_source import LoadSource
from slack_operator.scorer.cluster_view import ScorerView, ScorerWatches
from slack_operator.scorer.metrics import ScorerMetrics
from slack_operator.scorer.score_cache import Refresher
from slack_operator.scorer.scores import LiveScores, ScoringDecision
from slack_operator.scorer.serving import ExtenderServer
from slack_operator.scorer.settings import ScorerSettings

BEGIN = b'{"version"'
"""Of each line of ours."""
MOST_FILE_BYTES = 256 << 20
"""A file that would be longer is renamed, with `.1` at its end, and another begun: so a disk holds twice as much."""


def decision_recorder(file: Path, *, most_bytes: int = MOST_FILE_BYTES) -> LineRecorder[ScoringDecision]:
    """Make what records decisions to a file."""
    return LineRecorder(file, _line, what="decisions", begin=BEGIN, most_bytes=most_bytes)


def _line(decision: ScoringDecision) -> bytes:
    placeholder, basis = decision.demand.placeholder, decision.standing.basis
    return line_of(decision.at, decision.pod, placeholder, basis, decision.scores)


log = logging.getLogger(__name__)

SWITCH_SECONDS = 0.0001
"""How long another thread may compute before the extender's gets its turn; Python's own 5 ms are a whole cycle."""


class Scorer:
    """All parts of one scorer. `start`, `run` and `stop` belong to the main thread."""

    def __init__(self, settings: ScorerSettings, stopping: Stopping) -> None:
        """Make everything, and start nothing.

        Raises:
            CannotStart: an algorithm's argument, a certificate or the connection is not as it must be.
        """
        self._settings = settings
        self._stopping = stopping
        self._supervisor = Supervisor()
        self.metrics = metrics = ScorerMetrics()
        try:
            config = parse_config({"algorithms": list(settings.algorithms)}, rules_of(settings))
        except InvalidScorerConfig as error:
            raise CannotStart(f"{flag('algorithms')}: {error}") from None
        rules = config.rules
        ceiling = ceiling_of(settings)
        tls = Certificate.from_files(settings.tls_cert_file, settings.tls_key_file, settings.client_ca_file)
        try:
            connection = connect(settings.kubeconfig, settings.context, on_request=metrics.on_request)
        except ConnectionFailed as error:
            raise CannotStart(str(error)) from None
        self._connection = connection

        def demand(pod: Pod) -> PodDemand:
            return demand_of(pod.spec, rules.prediction, status=pod.status)

        self.view = view = ScorerView(
            lambda leave_out: ClusterState(demand, settings.namespace, rules.recent_kept_seconds, leave_out)
        )
        self.refresher = Refresher(
            view,
            config.algorithms,
            rules,
            whole=self._whole,
            on_refresh=metrics.on_refresh,
            tidy=lambda: self.scores.tidy(),
        )
        self.load = self.refresher.load = _load_source(settings, self.refresher, metrics)
        self._recorder = decision_recorder(settings.record) if settings.record else None
        self.scores = LiveScores(
            lambda: self.refresher.current,
            view,
            demand,
            settings.namespace,
            metrics,
            highest=settings.scale,
            ceiling=ceiling,
            record=self._recorder,
        )
        self.watches = ScorerWatches(connection, view, self.refresher.touch, self.scores.bound)
        metrics.unreadable.follow(self.watches.unreadable)
        extender = Extender(self.scores, filters=bool(ceiling), observe=metrics.on_call)
        self.server = ExtenderServer(*host_port(settings.extender_listen), extender, tls=tls)
        self.health = HealthServer(
            *host_port(settings.listen), healthy=self.unhealthy, ready=self.unready, registry=metrics.registry
        )

    def unhealthy(self) -> str | None:
        """Return which part that was started is dead or stuck; None if all work."""
        return self._supervisor.unhealthy()

    def unready(self) -> str | None:
        """Say why there is nothing to score by yet.

        A watch that is silent later leaves it ready: who is asked less, answers no better.
        """
        if self.refresher.current is not None:
            return None
        return self.watches.stale() or "nothing has been refreshed yet"

    def start(self) -> None:
        """Serve, and begin to watch.

        Raises:
            CannotStart: an address cannot be bound, or no API server answers.
        """
        sys.setswitchinterval(SWITCH_SECONDS)
        listen(self.health, flag("listen"), self._settings.listen)
        self._supervisor.watch(self.health)
        listen(self.server, flag("extender_listen"), self._settings.extender_listen)
        self._supervisor.watch(self.server)
        log.info("serving /prioritize and /explain", extra=fields(port=self.server.port, metrics=self.health.port))
        must_answer(self._connection)
        if self._recorder is not None:
            _record(self._recorder, self._settings)
            self._supervisor.watch(self._recorder)
        for part in (self.refresher, self.load, self.watches):
            self._supervisor.start(part)

    def run(self) -> None:
        """Wait for the end."""
        began, told = time.monotonic(), False
        while not self._stopping.wait(0.5 if not told else None):
            if not told and self.refresher.current is not None:
                told = True
                seconds = round(time.monotonic() - began, 1)
                nodes = len(self.refresher.current.basis.nodes)
                log.info("scoring", extra=fields(nodes=nodes, pods=self.view.state.pod_count, seconds=seconds))

    def stop(self) -> None:
        """End everything in order."""
        self.server.stop()
        if self._recorder is not None:
            self._recorder.stop()
        self.load.stop()
        self.watches.stop()
        self.refresher.stop()
        self.health.stop()
        self._connection.close()

    def _whole(self) -> bool:
        return self.watches.stale() is None


def rules_of(settings: ScorerSettings) -> MetricRules:
    """Return what holds when metrics are missing, as the settings say."""
    prediction = Prediction(
        PodUse(settings.pod_use), settings.request_multiplier, default_cpu_millis=round(settings.best_effort_millis)
    )
    return MetricRules(
        window_seconds=settings.window,
        most_age_seconds=settings.max_age,
        most_ahead_seconds=settings.max_ahead,
        recent_seconds=settings.recent,
        reporting_seconds=settings.reporting,
        new_node_seconds=settings.new_node,
        prediction=prediction,
        min_measured_share=settings.min_measured_nodes,
        without_load=WithoutLoad(settings.without_load),
    )


def ceiling_of(settings: ScorerSettings) -> Ceiling:
    """Return which nodes /filter and /preempt refuse."""
    return Ceiling(settings.filter_above, settings.filter_memory_above, WhenAllAbove(settings.when_all_above))


def _record(recorder: LineRecorder[ScoringDecision], settings: ScorerSettings) -> None:
    try:
        recorder.start()
    except OSError as error:
        raise CannotStart(f"{flag('record')} {settings.record}: cannot be written: {error.strerror}") from None


def _load_source(settings: ScorerSettings, refresher: Refresher, metrics: ScorerMetrics) -> LoadSource:
    return LoadSource(
        settings.load_watcher,
        settings.refresh,
        refresher.touch,
        authority=str(settings.load_watcher_ca_file) if settings.load_watcher_ca_file else None,
        on_error=metrics.on_fetch_error,
        on_ignored=metrics.on_ignored,
    )


def build(settings: ScorerSettings, stopping: Stopping) -> Scorer:
    """Make the process; nothing of it is started."""
    return Scorer(settings, stopping)


def run(settings: ScorerSettings) -> int:
    """Run the scorer until a signal; returns the process's exit code."""
    return running.run(settings, build)
