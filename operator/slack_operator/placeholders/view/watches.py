"""What the operator watches, with which selectors; everything but Events and finished placeholders is required.

Namespaces are not where the operator has no right to them: then who may reserve is judged by their names alone. Nor are
ResourceQuotas and LimitRanges, which making way and CapacityBuffers ask for: without them pods are waited for that
admission refuses, and no quota bounds a buffer. Events of all namespaces say how long images were pulled, of pods that
have just got a node; without them that is not known.
ActivationPools are required where there are any, for a plan without them would take back what was kept for them; there
are none where the kind is not known or may not be watched.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from slack.cluster import wire
from slack.cluster.image_pulls import PULLED_EVENTS
from slack.cluster.labels import ACTIVATION_POOLS, API_VERSION, LABEL_PLACEHOLDER
from slack.kube.connection import Connection
from slack.kube.paths import FINISHED_PODS, UNFINISHED_PODS, resource_path
from slack.kube.reflector import Reflector
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.placeholders.view.sinks import (
    EventSink,
    FinishedSink,
    NamespaceSink,
    NodeSink,
    OwnSetSink,
    PodSink,
    PriorityClassSink,
    PulledSink,
    WorkloadSink,
)
from slack_operator.runtime import watches
from slack_operator.runtime.watches import STALE_SECONDS


class OperatorWatches(watches.Watches):
    """The reflectors of one operator, which feed its view.

    ReplicaSets of our namespace are watched without a selector: one that has lost a label goes on being ours.
    """

    def __init__(
        self,
        connection: Connection,
        view: ClusterView,
        *,
        helpful: Sequence[Reflector[Any]] = (),
        admission: bool = True,
        image_pulls: bool = True,
        clock: Callable[[], float] = time.monotonic,
        stale_seconds: float = STALE_SECONDS,
    ) -> None:
        classes, own_sets = PriorityClassSink(view), OwnSetSink(view)
        classes_path = resource_path("scheduling.k8s.io/v1", "priorityclasses")
        own_sets_path = resource_path("apps/v1", "replicasets", namespace=view.namespace)
        events_path = resource_path("v1", "events", namespace=view.namespace)
        required: list[Reflector[Any]] = [
            Reflector(connection, resource_path("v1", "pods"), wire.Pod, PodSink(view), field_selector=UNFINISHED_PODS),
            Reflector(connection, resource_path("v1", "nodes"), wire.Node, NodeSink(view)),
            Reflector(connection, classes_path, wire.PriorityClass, classes),
            Reflector(connection, own_sets_path, wire.OwnReplicaSet, own_sets),
        ]
        for api_version, plural, kind, item_type in wire.WORKLOADS:
            path = resource_path(api_version, plural)
            required.append(Reflector(connection, path, item_type, WorkloadSink(view, kind)))
        pools = Reflector(
            connection,
            resource_path(API_VERSION, ACTIVATION_POOLS),
            wire.ActivationPoolObject,
            view.pools,
            may_be_absent=True,
        )
        namespaces = Reflector(connection, resource_path("v1", "namespaces"), wire.Namespace, NamespaceSink(view))
        unless_forbidden: list[Reflector[Any]] = [namespaces, pools]
        if admission:
            quotas, ranges = resource_path("v1", "resourcequotas"), resource_path("v1", "limitranges")
            unless_forbidden.append(Reflector(connection, quotas, wire.ResourceQuota, view.quotas))
            unless_forbidden.append(Reflector(connection, ranges, wire.LimitRange, view.limit_ranges))
        events = Reflector(connection, events_path, wire.Event, EventSink(view))
        finished = Reflector(
            connection,
            resource_path("v1", "pods", namespace=view.namespace),
            wire.Pod,
            FinishedSink(view),
            label_selector=f"{LABEL_PLACEHOLDER}=true",
            field_selector=FINISHED_PODS,
        )
        pulls = Reflector(
            connection, resource_path("v1", "events"), wire.Event, PulledSink(view), field_selector=PULLED_EVENTS
        )
        super().__init__(
            required,
            [events, finished, *([pulls] if image_pulls else []), *helpful],
            unless_forbidden=unless_forbidden,
            clock=clock,
            stale_seconds=stale_seconds,
        )
