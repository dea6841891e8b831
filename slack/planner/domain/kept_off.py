"""Off which nodes required anti-affinity of running pods keeps the pods of a kind, as kube-scheduler decides it."""

from collections.abc import Iterable

import numpy as np

from slack.cluster.labels import HOSTNAME
from slack.cluster.snapshot import BoolArray, IntArray, Snapshot


def kept_off(snapshot: Snapshot, rows: Iterable[int]) -> BoolArray:
    """[N] nodes off which pods of some of these kinds are kept by other pods there, or in the same topology domain.

    Args:
        snapshot: the cluster.
        rows: of `Snapshot.kinds`; of those about which it is not known, nothing is said.
    """
    found = np.zeros(len(snapshot.nodes.names), dtype=bool)
    owners: dict[str, set[int]] = {}
    for number in _avoiders(snapshot, rows):
        avoider = snapshot.avoiders[number]
        owners.setdefault(avoider.topology_key, set()).update(avoider.owners)
    for key, own in owners.items():
        nodes = snapshot.standing.nodes_of(own) if snapshot.standing is not None else np.zeros(0, dtype=np.int64)
        if key == HOSTNAME:
            found[nodes] = True
        else:
            found |= _domains(snapshot, key, nodes)
    return found


def who_keeps_off(snapshot: Snapshot, rows: Iterable[int]) -> str:
    """Name some of the workloads whose pods do so."""
    avoiders = [snapshot.avoiders[number] for number in _avoiders(snapshot, rows)]
    names = sorted({workload for avoider in avoiders for workload in avoider.workloads})
    named = len(avoiders[0].workloads) if avoiders else 0
    more = len(names) > named or any(avoider.number > len(avoider.workloads) for avoider in avoiders)
    return ", ".join(map(str, names[:named])) + (" and others" if more else "")


def _avoiders(snapshot: Snapshot, rows: Iterable[int]) -> list[int]:
    return sorted({number for row in rows for number in snapshot.avoided.get(row) or ()})


def _domains(snapshot: Snapshot, key: str, nodes: IntArray) -> BoolArray:
    """[N] nodes in the same domains as these; one without the label is in none."""
    values = [dict(node_class.labels).get(key) for node_class in snapshot.node_classes]
    class_id = snapshot.nodes.class_id
    inside = {values[c] for c in np.unique(class_id[nodes]).tolist()} - {None}
    found: BoolArray = np.array([value in inside for value in values], dtype=bool)[class_id]
    return found
