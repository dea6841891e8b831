"""Reports each finished burst: metrics, a log line, and one Event on each policy that lost placeholders to it."""

import logging
from collections.abc import Mapping

from slack.cluster.labels import API_VERSION
from slack.health.reasons import MADE_WAY
from slack.kube.events import EventKind, EventRecorder, ObjectRef
from slack.planner.policy.spec import KIND
from slack.process.logs import fields
from slack_operator.burst_eviction.burst_tracker import TrackedBurst
from slack_operator.burst_eviction.policy_scopes import PolicyScope
from slack_operator.placeholders.report.metrics import Metrics

log = logging.getLogger(__name__)


class BurstReporter:
    """Tells of bursts that are over. Owned by the thread that makes way."""

    def __init__(self, metrics: Metrics, recorder: EventRecorder) -> None:
        self._metrics = metrics
        self._recorder = recorder

    def report_finished(self, burst: TrackedBurst, scopes: Mapping[str, PolicyScope]) -> None:
        """A burst is bound, or its time is over."""
        vain, gone = burst.in_vain, sum(burst.gone.values())
        pods, name = round(burst.expected), burst.called or burst.key
        log.info(
            "way was made",
            extra=fields(
                burst=name, cause=burst.cause, pods=pods, placed=burst.placed, placeholders=gone, in_vain=vain
            ),
        )
        for policy, count in sorted(burst.gone.items()):
            part = vain * count // gone
            self._metrics.made_way(policy, burst.cause, count, in_vain=part, seconds=burst.seconds)
            scope = scopes.get(policy)
            if scope is not None and scope.uid:
                told = f"{count} placeholders have made way for {name} ({pods} pods)"
                self._recorder.record(ObjectRef(API_VERSION, KIND, policy, scope.uid), EventKind.NORMAL, MADE_WAY, told)
