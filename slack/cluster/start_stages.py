"""How far a pod's start has come, by its status and the Events of its kubelet: a node, images, started, Ready. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from slack.cluster import wire
from slack.cluster.image_pulls import ImagePull
from slack.cluster.start_sketch import bytes_text, seconds_text

READY = "Ready"


@dataclass(frozen=True, slots=True)
class PodStart:
    """How one pod started, by the API's times, which are whole seconds: each is right within one."""

    pod: str
    bound_seconds: float | None
    """From its creation to its node; None while it has none."""
    ready_seconds: float | None
    """From its creation until it was Ready; None while it is not."""
    pull_seconds: float
    """What pulls of its images took, by the kubelet; 0 if none is known."""
    pulled_bytes: int

    def __str__(self) -> str:
        """As it is shown: `bound after 1 s, Ready after 41 s, of which 38 s pulled 6.1 GB`."""
        if self.bound_seconds is None:
            return "it has no node yet"
        bound = "bound within 1 s" if self.bound_seconds < 1 else f"bound after {self.bound_seconds:.0f} s"
        size = bytes_text(self.pulled_bytes) if self.pulled_bytes else "images"
        took = f", of which {seconds_text(self.pull_seconds)} pulled {size}" if self.pull_seconds else ""
        if self.ready_seconds is None:
            return f"{bound}, not Ready yet{took.replace(', of which', ';')}"
        ready = "Ready within 1 s" if self.ready_seconds < 1 else f"Ready after {self.ready_seconds:.0f} s"
        return f"{bound}, {ready}{took}"


def has_started(status: wire.PodStatus | None) -> bool:
    """Say whether all containers have started; with a start-up probe that means the probe has passed."""
    found = status.container_statuses if status is not None else None
    return bool(found) and all(container.started is True for container in found or ())


def ready_condition(status: wire.PodStatus | None) -> wire.ObjectCondition | None:
    """Return the condition that says that a pod is Ready; None while it is not.

    Raises:
        ValueError: for conditions of another form than the API's.
    """
    return _condition(status, READY)


def pod_start(pod: wire.Pod, pulls: Sequence[ImagePull]) -> PodStart:
    """Return how a pod started.

    Raises:
        ValueError: for conditions of another form than the API's.
    """
    made = pod.metadata.creation_timestamp
    return PodStart(
        pod=pod.metadata.name,
        bound_seconds=_seconds(made, _condition(pod.status, "PodScheduled")),
        ready_seconds=_seconds(made, ready_condition(pod.status)),
        pull_seconds=sum(pull.seconds for pull in pulls),
        pulled_bytes=sum(pull.size_bytes for pull in pulls),
    )


def _condition(status: wire.PodStatus | None, name: str) -> wire.ObjectCondition | None:
    if status is None or f'"{name}"'.encode() not in bytes(status.conditions_json):
        return None  # nearly all events of a pod that starts: to read its conditions takes longer
    return next((said for said in status.conditions if said.type == name and said.status == "True"), None)


def _seconds(made: datetime | None, condition: wire.ObjectCondition | None) -> float | None:
    if made is None or condition is None or condition.last_transition_time is None:
        return None
    return max(0.0, (condition.last_transition_time - made).total_seconds())
