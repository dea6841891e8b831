"""Whether a pod whose container was not ready in time may be evicted, by the pod as the API server has it now. Pure."""

from slack.throttler.reports.messages import LatePod
from slack.throttler.reports.pod_facts import PodFacts


def objection(late: LatePod, facts: PodFacts, node: str) -> str | None:
    """Say why the pod is not evicted; None if it may be.

    Args:
        late: what the agent reports.
        facts: the pod as it was read after that.
        node: the node of the agent, by its token.
    """
    container = next((found for found in facts.containers if found.name == late.container), None)
    rules = (
        (facts.uid != late.uid, "another pod has its name"),
        (facts.node != node, f"it is not on node {node}"),
        (facts.backend is None or facts.exempt is not None, "it is not gated"),
        (facts.deleted or facts.ended is not None, "it ends already"),
        (container is None or not container.gated, "it has no such container that is gated"),
        (container is not None and not container.probed, "the container has no probe, so nothing says that it is late"),
        (container is not None and container.ready, "the container is ready"),
        (container is not None and container.has_started, "the container's startup probe has succeeded"),
        (
            container is not None and container.container_id != late.container_id,
            "the agent has not seen this instance of the container",
        ),
    )
    return next((why for applies, why in rules if applies), None)
