"""Where a pod stands, as the document that is printed. Names and reasons are without what a terminal would obey."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from slack.cli.throttler.status_document import printable, time
from slack.cluster.labels import API_VERSION

if TYPE_CHECKING:
    from slack.throttler.reports.pod_standing import ContainerStanding, PodStanding


def document(namespace: str, pod: str, told: "PodStanding", not_seen: Iterable[str], now: float) -> dict[str, Any]:
    """Return the answer for machines; the text is made of it too."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ThrottlerExplanation",
        "at_unix_seconds": round(now, 3),
        "namespace": printable(namespace),
        "pod": printable(pod),
        "node": None if told.node is None else printable(told.node),
        "backend": None if told.backend is None else told.backend.value,
        "agent": told.agent.value,
        "heard_unix_seconds": time(told.heard_at),
        "policy": None if told.policy is None else printable(told.policy),
        "slots": told.slots,
        "slots_taken": told.starting,
        "fail_open_after_seconds": told.fail_open_after_seconds,
        "reasons": [printable(reason) for reason in told.reasons],
        "containers": [_container(container) for container in told.containers],
        "not_seen": [printable(text) for text in not_seen],
    }


def _container(container: "ContainerStanding") -> dict[str, Any]:
    return {
        "name": printable(container.name),
        "gated": container.gated,
        "state": None if container.state is None else container.state.value,
        "since_unix_seconds": time(container.since),
        "position": container.position,
        "forced": container.forced,
        "depends_on": [printable(name) for name in container.depends_on],
        "reason": printable(container.reason),
        "ends": [{"text": printable(end.text), "at_unix_seconds": time(end.at)} for end in container.ends],
        "kubelet": printable(container.kubelet),
    }
