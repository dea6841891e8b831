"""Which policy each node belongs to, as of the last plan: for rescue, for what is measured, and for what is learnt."""

from collections.abc import Mapping, Sequence

from slack.cluster.snapshot import Snapshot
from slack.planner.domain.membership import divide
from slack.planner.policy.spec import Policy


class NodeOwners:
    """Owned by the planning loop."""

    def __init__(self) -> None:
        self.policy_of_node: Mapping[str, str] = {}
        self.moved_count = 0
        """At how many plans a node had gone from one policy to another."""
        self._scheduler_of: Mapping[str, str] = {}

    def divide_nodes(self, snapshot: Snapshot, policies: Sequence[Policy]) -> None:
        """Divide the nodes among the policies."""
        nodes, before = snapshot.nodes.names, self.policy_of_node
        self.policy_of_node = {
            nodes[row]: domain.policy.name
            for domain in divide(snapshot, list(policies))
            for row in domain.members.nonzero()[0]
        }
        self.moved_count += any(before.get(node, name) != name for node, name in self.policy_of_node.items())
        self._scheduler_of = {policy.name: policy.spec.scheduler_name for policy in policies}

    def scheduler_of_node(self, node: str) -> str | None:
        """Return the schedulerName of the policy that the node belongs to."""
        policy = self.policy_of_node.get(node)
        return None if policy is None else self._scheduler_of.get(policy)
