"""A pod's state as the JSON text that the API server would send."""

import hashlib
from functools import lru_cache

from benchmarks.generator.layout import Layout
from benchmarks.generator.placement import NO_NODE
from benchmarks.generator.pod_template import pod_template
from benchmarks.generator.pools import ZONES, node_address, node_name
from benchmarks.generator.slots import Template
from benchmarks.generator.states import (
    PodState,
    Stage,
    digest,
    is_old_revision,
    owner_name,
    pod_name,
    suffix,
    template_hash,
    timestamp,
    uid,
)
from benchmarks.generator.workloads import Workload


class PodWriter:
    """Fills the templates of one cluster; `templates` of them are kept (a list needs few, a churn many).

    Usage:
        writer = PodWriter(layout); writer.item(state)
    """

    def __init__(self, layout: Layout, templates: int = 16) -> None:
        self._layout = layout
        self._seed = layout.seed
        self._template = lru_cache(maxsize=templates)(self._build)

    def item(self, state: PodState) -> str:
        """Return the object as an item of a list."""
        return self._template(state.workload, state.stage).fill(self._values(state))

    def event(self, kind: str, state: PodState) -> bytes:
        """Return a line of a watch."""
        text = self.item(state)
        return f'{{"type":"{kind}","object":{{"kind":"Pod","apiVersion":"v1",{text[1:]}}}\n'.encode("ascii")

    def _build(self, workload: Workload, stage: Stage) -> Template:
        return pod_template(workload, stage, self._seed)

    def _values(self, state: PodState) -> dict[str, object]:
        workload, ordinal, node = state.workload, state.ordinal, state.node
        data = digest("pod", self._seed, workload.number, ordinal, state.ended)
        old = is_old_revision(workload, ordinal)
        owner = owner_name(workload, ordinal)
        bound = node != NO_NODE
        values: dict[str, object] = {
            "name": pod_name(workload, ordinal),
            "uid": uid(data),
            "version": state.version,
            "created": timestamp(state.created),
            "changed": timestamp(state.changed),
            "deleted": timestamp(state.changed + (30 if state.stage is Stage.TERMINATING else 0)),
            "owner": owner,
            "owner_uid": uid(digest("owner", self._seed, workload.namespace, owner)),
            "hash": template_hash(workload, old),
            "ordinal": ordinal,
            "token": suffix(int.from_bytes(data[16:20])),
            "nodes": self._layout.size.nodes,
            "restarts": max(data[20] - 240, 0) // 4,
            "node": node_name(node) if bound else "",
            "target": node_name(node if bound else ordinal % self._layout.size.nodes),
            "zone": ZONES[int(self._layout.nodes.zone[node])] if bound else "",
            "host_ip": node_address(node),
            "pod_ip": f"100.{64 + (node >> 9 & 63)}.{node >> 1 & 255}.{(node & 1) << 7 | data[21] & 127}",
        }
        for place in range(_container_count(workload)):
            values[f"container_{place}"] = hashlib.sha256(data + bytes((place,))).hexdigest()
        return values


def _container_count(workload: Workload) -> int:
    return 1 + workload.second_container + workload.native_sidecar + workload.init_container
