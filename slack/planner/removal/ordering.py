"""In which order placeholders leave. Values only."""

from collections.abc import Iterable

from slack.cluster.wire import Pod


def newest_first(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods with those before that were created last."""
    return sorted(pods, key=_created, reverse=True)


def _created(pod: Pod) -> tuple[float, str]:
    created = pod.metadata.creation_timestamp
    return (created.timestamp() if created else 0.0, pod.metadata.name)
