"""How many nodes a plan would add to the cluster: what its placeholders lack, in empty nodes of its domain.

A lower bound, made of sums: what is free counts as if it lay on one node.
"""

import math

import numpy as np

from slack.cluster.snapshot import IntArray, Snapshot
from slack.planner.domain.capacity import average_node, dominant_share
from slack.planner.domain.feasibility import NodeRows, node_rows
from slack.planner.domain.membership import Domain
from slack.planner.model.plan_cache import PlanCache


def new_nodes(snapshot: Snapshot, domain: Domain, planned: IntArray, reserved: IntArray, cache: PlanCache) -> int:
    """Return at least how many nodes must come until everything that is planned stands on one; 0 where nobody can say.

    Args:
        snapshot: the cluster.
        domain: of the policy.
        planned: [R] what its placeholders request when the plan is carried out.
        reserved: [R] what those request that are on nodes.
        cache: of this domain.
    """
    width = len(snapshot.resources)
    average = cache.compute(_average_empty, node_rows(snapshot, domain.eligible, domain.templates, cache), width)
    free = np.maximum(snapshot.nodes.free[domain.eligible], 0).sum(axis=0, dtype=np.int64)
    missing = np.maximum(planned[:width] - reserved[:width] - free, 0)
    nodes_more = float(dominant_share(missing, average))
    return math.ceil(nodes_more - 1e-9) if math.isfinite(nodes_more) else 0


def _average_empty(nodes: NodeRows, width: int) -> IntArray:
    """[R] the average empty node; of the templates where there is none."""
    empty = np.maximum(nodes.allocatable - nodes.daemon, 0)
    if not len(empty):
        empty = np.array([template.allocatable for template in nodes.templates], dtype=np.int64).reshape(-1, width)
    return average_node(empty)
