"""What is told of making way: metrics, a line in the log, and one Event a burst on each policy that it was under."""

import logging
from collections.abc import Mapping

from slack.cluster.labels import API_VERSION
from slack.kube.events import EventKind, EventRecorder, ObjectRef
from slack.planner.policy.spec import KIND
from slack.process.logs import fields
from slack.process.reasons import MADE_WAY
from slack_operator.burst_eviction.burst_tracker import Way
from slack_operator.burst_eviction.policy_scopes import Site
from slack_operator.placeholders.metrics import Metrics

log = logging.getLogger(__name__)


class Telling:
    """Tells of bursts that are over. Owned by the thread that makes way."""

    def __init__(self, metrics: Metrics, recorder: EventRecorder) -> None:
        self._metrics = metrics
        self._recorder = recorder

    def over(self, way: Way, sites: Mapping[str, Site]) -> None:
        """A burst is bound, or its time is over."""
        vain, gone = way.in_vain, sum(way.gone.values())
        pods, name = round(way.expected), way.called or way.key
        log.info(
            "way was made",
            extra=fields(burst=name, cause=way.cause, pods=pods, placed=way.placed, placeholders=gone, in_vain=vain),
        )
        for policy, count in sorted(way.gone.items()):
            part = vain * count // gone
            self._metrics.made_way(policy, way.cause, count, in_vain=part, seconds=way.seconds)
            site = sites.get(policy)
            if site is not None and site.uid:
                told = f"{count} placeholders have made way for {name} ({pods} pods)"
                self._recorder.record(ObjectRef(API_VERSION, KIND, policy, site.uid), EventKind.NORMAL, MADE_WAY, told)
