"""Each kind of pod that the table in docs/details/how-it-works.md has a row for, and what the table says of it."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from tests.cluster.build import Json, node, pod
from tests.planner.scenes import replicas

_PAGE = Path(__file__).parents[2] / "docs/details/how-it-works.md"
PRIORITY = -10
_VIRTUAL = {"key": "virtual-kubelet.io/provider", "value": "cloud", "effect": "NoSchedule"}
NODES = (
    node("n1", cpu="8"),
    node("cordoned", cpu="8", unschedulable=True),
    node("not-ready", cpu="8", ready=False),
    node("virtual", cpu="8", taints=[_VIRTUAL]),
)
OTHERS = replicas(4, "api", "1", "1Gi", node="n1")

_Attribute = tuple[str, dict[str, Any]]
_BOUND: tuple[_Attribute, ...] = (("running", {}), ("running, being deleted", {"deleted": "2027-01-15T07:59:00Z"}))
_UNBOUND: tuple[_Attribute, ...] = (
    ("pending", {}),
    ("behind scheduling gates", {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}),
    ("larger than any node", {"cpu": "9"}),
    ("pending, being deleted", {"deleted": "2027-01-15T07:59:00Z"}),
)
_FINISHED: tuple[_Attribute, ...] = (("finished", {"phase": "Succeeded"}), ("finished", {"phase": "Failed"}))
_PLACES: tuple[_Attribute, ...] = (
    ("", {"node": "n1"}),
    ("on a cordoned node", {"node": "cordoned"}),
    ("on a node that is not ready", {"node": "not-ready"}),
    ("on a virtual or Fargate node", {"node": "virtual"}),
)
_OWNERS: tuple[_Attribute, ...] = (
    ("", {"owner": ("ReplicaSet", "tried")}),
    ("of a DaemonSet", {"owner": ("DaemonSet", "tried")}),
    (
        "of a DaemonSet",
        {
            "owner": ("ExtendedDaemonSetReplicaSet", "tried"),
            "annotations": {"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"},
        },
    ),
    ("static", {"owner": ("Node", "n1"), "annotations": {"kubernetes.io/config.mirror": "x"}}),
)
_SCHEDULERS: tuple[_Attribute, ...] = (("", {}), ("of another scheduler", {"schedulerName": "volcano"}))
_PRIORITIES: tuple[_Attribute, ...] = (
    ("", {"priority": 0}),
    ("of the placeholders' priority", {"priority": PRIORITY}),
    ("below the placeholders' priority", {"priority": PRIORITY - 1}),
)
_PREEMPTION: tuple[_Attribute, ...] = (("", {}), ("that never preempts", {"preemptionPolicy": "Never"}))
OF_NODES = {"of a DaemonSet", "static"}
"""Pods that belong to their node, and to no kind of pods."""
_SPLIT = {"of another scheduler", "of the placeholders' priority", "below the placeholders' priority"}
"""Rows of which the table has one for pods on nodes and one for pods without."""


_ROW = r"^\| ([^|]+) " + r"\| (yes|no) " * 6 + r"\|$"


class Counts(NamedTuple):
    """Where a pod counts."""

    room: bool
    base: bool
    cover: bool
    reserve: bool
    objective: bool
    burst: bool


def combinations() -> Iterator[tuple[frozenset[str], Json]]:
    """Yield each kind of pod with the rows of the table that describe it."""
    kinds = [_OWNERS, _SCHEDULERS, _PRIORITIES, _PREEMPTION]
    here = (*product(_BOUND, _PLACES, *kinds), *product(_FINISHED, _PLACES[:1], *kinds))  # a finished one is nowhere
    for chosen in (*here, *product(_UNBOUND, *kinds)):
        names = {name for name, _ in chosen if name}
        fields: dict[str, Any] = {"tolerations": [{"key": _VIRTUAL["key"], "operator": "Exists"}]}
        for _, more in chosen:
            fields |= more
        where = "running" if "node" in fields else "pending"
        rows = frozenset(f"{name}, {where}" if name in _SPLIT else name for name in names)
        yield rows, pod("tried", cpu=fields.pop("cpu", "1"), **fields)


def expected(names: frozenset[str], *, unbound: bool = False) -> Counts:
    """Return where a pod counts that several rows describe: only where all of them say yes."""
    rows = table() | (_unbound(table()) if unbound else {})
    return Counts(*(all(column) for column in zip(*(rows[name] for name in names), strict=True)))


def _unbound(rows: dict[str, Counts]) -> dict[str, Counts]:
    """Return the rows that are others if placeholders are unbound, as the page says below the table."""
    found = {"that never preempts": rows["that never preempts"]._replace(cover=True, reserve=True, objective=True)}
    for place in ("of", "below"):
        name = f"{place} the placeholders' priority, running"
        found[name] = rows[name]._replace(reserve=True)
    return found


@cache
def table() -> dict[str, Counts]:
    """Return the rows of the page's table."""
    section = _PAGE.read_text().split("## Which pods count", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(_ROW, section, flags=re.MULTILINE)
    return {name: Counts(*(word == "yes" for word in words)) for name, *words in rows}
