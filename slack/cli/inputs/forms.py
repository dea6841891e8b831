"""Which form a dry run's placeholders have: what the policy asks for, else what the cluster has.

Only an operator recognises autoscalers. Whether it has made bound or unbound placeholders shows in its objects.
"""

from collections.abc import Iterable, Mapping, Sequence

from slack.cluster.hold import UNBOUND_SCHEDULER, Hold, ReleaseNodes
from slack.cluster.snapshot import Placeholder
from slack.planner.model.result import ExistingShape
from slack.planner.policy.spec import Policy


def with_forms(
    policies: Iterable[Policy],
    existing: Sequence[ExistingShape],
    placeholders: Iterable[Placeholder],
    ways: Mapping[str, ReleaseNodes | None],
) -> tuple[Policy, ...]:
    """Return the policies with the form of their placeholders.

    Args:
        policies: as they were written.
        existing: the ReplicaSets of placeholders; none where they were not read.
        placeholders: the pods.
        ways: by policy, how its status says that nodes are released.
    """
    forms = {
        each.policy: (each.shape.unbound_scheduler, each.shape.yields_to_markers, each.shape.tolerates_soft_taint)
        for each in existing
        if each.shape.unbound_scheduler and not each.retiring
    }
    unbound = {pod.policy for pod in placeholders if pod.unbound} | forms.keys()
    found = []
    for policy in policies:
        asked = policy.spec.hold
        if asked is Hold.UNBOUND or (asked is not Hold.BOUND and policy.name in unbound):
            scheduler, yields, tolerates = forms.get(policy.name, (UNBOUND_SCHEDULER, False, False))
            way = ReleaseNodes.MARKER_POD if yields else ways.get(policy.name)
            if way is ReleaseNodes.MARKER_POD and not yields:
                way = None  # the status is ahead of the placeholders, whose form this plan keeps
            form = {"unbound_scheduler": scheduler, "release_nodes": way, "tolerates_soft_taint": tolerates}
            policy = policy.model_copy(update=form)
        found.append(policy)
    return tuple(found)
