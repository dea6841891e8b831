"""What the watches see, into the meter: pods of the load, placeholders, nodes. Each is called by its watch's thread."""

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from slack.loadtest.meter import LoadMeter

if TYPE_CHECKING:
    from slack.cluster import wire
    from slack.kube.watch import EventType


class _Sink:
    def __init__(self, meter: LoadMeter, lock: threading.Lock) -> None:
        self._meter, self._lock = meter, lock

    def begin(self) -> None:
        """A view begins anew; what has gone meanwhile is told by `DELETED` or stays as it was last seen."""

    def end(self) -> None:
        """The view is whole."""


class LoadPodSink(_Sink):
    """The load's own pods."""

    def apply(self, events: "Sequence[tuple[EventType, wire.Pod]]") -> None:
        """Take events, in order."""
        now = time.monotonic()
        with self._lock:
            for kind, pod in events:
                node = pod.spec.node_name if pod.spec else None
                said = _conditions(pod)
                self._meter.pod_seen(
                    pod.metadata.uid or pod.metadata.name,
                    node,
                    _waits_for(said),
                    now,
                    ready=any(one.type == "Ready" and one.status == "True" for one in said),
                    gone=kind == "DELETED",
                )


class PlaceholderSink(_Sink):
    """Placeholders, wherever they are."""

    def apply(self, events: "Sequence[tuple[EventType, wire.Pod]]") -> None:
        """Take events, in order."""
        with self._lock:
            for kind, pod in events:
                node = pod.spec.node_name if pod.spec else None
                self._meter.placeholder_seen(pod.metadata.uid or pod.metadata.name, node, gone=kind == "DELETED")


class LoadNodeSink(_Sink):
    """Nodes."""

    def apply(self, events: "Sequence[tuple[EventType, wire.Node]]") -> None:
        """Take events, in order."""
        now = time.monotonic()
        with self._lock:
            for kind, node in events:
                conditions = (node.status.conditions if node.status else None) or ()
                ready = any(condition.type == "Ready" and condition.status == "True" for condition in conditions)
                self._meter.node_seen(node.metadata.name, now, ready=ready, gone=kind == "DELETED")


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


_CONDITIONS = msgspec.json.Decoder(list[_Condition])


def _conditions(pod: "wire.Pod") -> "Sequence[_Condition]":
    if pod.status is None or not bytes(pod.status.conditions_json):
        return ()
    try:
        return _CONDITIONS.decode(pod.status.conditions_json)
    except msgspec.DecodeError:
        return ()  # some other hand wrote it; the pod is measured all the same


def _waits_for(conditions: "Sequence[_Condition]") -> str:
    for condition in conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message or condition.reason
    return ""
