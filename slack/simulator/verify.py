"""What must hold of the cluster's state at every moment, recomputed from the rows; for tests."""

import numpy as np

from slack.simulator.state import GONE, Cluster


def verify(cluster: Cluster) -> None:
    """Add everything up anew.

    Raises:
        RuntimeError: when a sum is not what its rows add up to, or a node gives more than it has; a bug.
    """
    live = np.flatnonzero(cluster.state[: cluster.size] != GONE)
    if (cluster.free[:, live] < 0).any() or (cluster.slots[live] < 0).any():
        raise RuntimeError("a node gives more than it has")
    free = cluster.free[:, live] + cluster.real[:, live] + cluster.ours[:, live]
    for place, row in enumerate(live.tolist()):
        group = cluster.group_of[row]
        if (free[:, place] != cluster.group_allocatable[group] - cluster.group_daemon[group]).any():
            raise RuntimeError(f"{cluster.names[row]}: requests and room do not add up")
        requests = sum(
            (cluster.kinds[cluster.kind_of[pod]].requests for pod in cluster.pods_on[row]), 0 * free[:, place]
        )
        if (requests != cluster.real[:, row] + cluster.ours[:, row]).any():
            raise RuntimeError(f"{cluster.names[row]}: its pods do not add up")
    bound = [row for row in cluster.alive() if cluster.node_of[row] >= 0]
    if len(bound) != sum(len(cluster.pods_on[row]) for row in live.tolist()) or len(bound) != sum(cluster.running):
        raise RuntimeError("bound pods do not add up")
    if sum(cluster.count) != sum(1 for _ in cluster.alive()):
        raise RuntimeError("pods do not add up")
