"""The wanted figures of slack beside real autoscalers, each with what was found: ok or missed."""

from collections.abc import Iterable, Mapping

from benchmarks.keeping.stage import STATUS_WRITES, Autoscaler, Form, Kept
from benchmarks.report import Row

BEYOND_NODE_SECONDS = 5.0
LOOKS_AGAIN_SECONDS = {Autoscaler.CLUSTER_AUTOSCALER: 0.0, Autoscaler.KARPENTER: 10.0}
"""After how long, at the latest, an autoscaler sees that pods that are pending already need a node after all. Karpenter
looks at them every 10 s (1.14); the Cluster Autoscaler in each loop, which the time of a node contains."""
NODES_RATIO = 1.03
Found = Mapping[tuple[Autoscaler, Form], Kept]


def other_writes(writes: Mapping[str, int]) -> int:
    """Count the writes that are none of a status."""
    return sum(count for name, count in writes.items() if name.partition(" ")[2] not in STATUS_WRITES)


def judge(found: Found) -> list[Row]:
    """Return a row for each wanted figure; the column without a name says ok or missed."""
    return [
        {"what": what, "wanted": wanted, "found": seen, "": "ok" if ok else "missed"}
        for what, wanted, seen, ok in _figures(found)
    ]


def _figures(found: Found) -> Iterable[tuple[str, str, str, bool]]:
    for (autoscaler, form), kept in found.items():
        if form is not Form.UNBOUND:
            continue
        for what, seconds, beyond in (
            ("helm install to reserved", kept.installation.reserved, BEYOND_NODE_SECONDS),
            ("refill", kept.refill_seconds, LOOKS_AGAIN_SECONDS[autoscaler] + BEYOND_NODE_SECONDS),
        ):
            wanted = f"{kept.node_seconds:.1f} s (a node) + {beyond:g} s"
            yield f"{what}, {autoscaler}", wanted, f"{seconds:.1f} s", seconds <= kept.node_seconds + beyond
        counts = {
            "writes except status, refill": other_writes(kept.refill_writes),
            "preemptions while the load moves": kept.preempted,
            "placeholders recreated while the load moves": kept.recreated,
        }
        for what, count in counts.items():
            yield f"{what}, {autoscaler}", "0", str(count), count == 0
        bound = found.get((autoscaler, Form.BOUND))
        if bound is not None:
            ratio = kept.nodes / bound.nodes
            wanted = f"{NODES_RATIO:g}"
            yield f"nodes, unbound / bound, {autoscaler}", wanted, f"{ratio:.3f}", ratio <= NODES_RATIO
            for what, mine, theirs in (("small", kept.small, bound.small), ("large", kept.large, bound.large)):
                name = f"{what} pods without waiting, {autoscaler}"
                ok = mine.at_once >= theirs.at_once
                yield name, f"{theirs.at_once:.1%}, as bound", f"{mine.at_once:.1%}", ok


def table(found: Found) -> list[Row]:
    """Return a row for each form beside each autoscaler."""
    return [
        {
            "autoscaler": str(autoscaler),
            "form": str(form),
            "a node s": kept.node_seconds,
            "reserved s": kept.installation.reserved,
            "refill s": kept.refill_seconds,
            "small pods": len(kept.small.seconds),
            "instant": f"{kept.small.at_once:.1%}",
            "their p99 s": kept.small.percentile(99),
            "large pods": len(kept.large.seconds),
            "instant ": f"{kept.large.at_once:.1%}",
            "large p99 s": kept.large.percentile(99),
            "nodes": f"{kept.nodes:.2f}",
            "preempted": kept.preempted,
            "created": kept.created,
            "deleted": kept.deleted,
            "writes but status": other_writes(kept.writes),
        }
        for (autoscaler, form), kept in found.items()
    ]


def steps(found: Found) -> list[Row]:
    """Return a row for each installation: the seconds from `helm install` to each step's end, and beyond a node's."""
    return [
        {
            "autoscaler": str(autoscaler),
            "form": str(form),
            "container starts s": kept.installation.container,
            "operator ready s": kept.installation.ready,
            "placeholders created s": kept.installation.created,
            "placeholders told of s": kept.installation.told,
            "node made s": kept.installation.node_made,
            "node ready s": kept.installation.node_ready,
            "reserved s": kept.installation.reserved,
            "a node takes s": kept.node_seconds,
            "beyond a node s": kept.installation.reserved - kept.node_seconds,
        }
        for (autoscaler, form), kept in found.items()
    ]
