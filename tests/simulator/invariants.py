"""What must hold of the simulated cluster's state at every moment, recomputed from the rows."""

import numpy as np

from slack.simulator.model.state import GONE, ModelledCluster


def verify(cluster: ModelledCluster) -> None:
    """Assert that no node gives more than it has, and that every sum is what its rows add up to."""
    live = np.flatnonzero(cluster.state[: cluster.size] != GONE)
    assert (cluster.free[:, live] >= 0).all(), "a node gives more than it has"
    assert (cluster.slots[live] >= 0).all(), "a node has more pods than it may"
    free = cluster.free[:, live] + cluster.real[:, live] + cluster.ours[:, live]
    for column, row in enumerate(live.tolist()):
        group, name = cluster.group_of[row], cluster.names[row]
        room = cluster.group_allocatable[group] - cluster.group_daemon[group]
        assert (free[:, column] == room).all(), f"{name}: requests and room do not add up"
        requests = sum(
            (cluster.kinds[cluster.kind_of[pod]].requests for pod in cluster.pods_on[row]), 0 * free[:, column]
        )
        assert (requests == cluster.real[:, row] + cluster.ours[:, row]).all(), f"{name}: its pods do not add up"
    bound = [row for row in cluster.alive() if cluster.node_of[row] >= 0]
    assert len(bound) == sum(len(cluster.pods_on[row]) for row in live.tolist()) == sum(cluster.running)
    assert sum(cluster.count) == sum(1 for _ in cluster.alive())
