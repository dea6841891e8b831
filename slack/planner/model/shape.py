"""What one placeholder is: its requests and where it may go, with a name that does not change.

A shape's name is a hash over the canonical JSON of its spec (1000m equals 1, order does not matter). It must be
the same in every version of the operator for the same spec, or an upgrade would replace all slack: a golden
test keeps it. New fields therefore join the hash only where they differ from their default.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property

import msgspec
import numpy as np

from slack.cluster.classes import Constraints, Requirement, Toleration
from slack.cluster.snapshot import IntArray
from slack.planner.forms.choice import form_of
from slack.planner.forms.form import Form

LOWEST_PRIORITY, HIGHEST_PRIORITY = -10, -1
"""Of placeholders. Below -10 the Cluster Autoscaler takes pods for expendable; at 0 placeholders would stand beside
real pods."""


class Role(StrEnum):
    """Why a shape is there."""

    COVER = "cover"
    FILL = "fill"
    MIRROR = "mirror"
    DEMAND = "demand"
    """What an ActivationPool has announced."""

    @property
    def for_named(self) -> bool:
        """Whether workloads have asked for it by name, and their number is theirs: cover and fill take what is left."""
        return self in (Role.MIRROR, Role.DEMAND)


@dataclass(frozen=True)
class Shape:
    """One placeholder's requests plus its scheduling constraints. Equal specs are equal values."""

    requests: tuple[tuple[str, int], ...]
    """Positive amounts by resource name, sorted; cpu in millicores, everything else in base units."""
    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    anti_affinity: str = ""
    """Canonical JSON of required podAntiAffinity terms, already rewritten for placeholders (R8)."""
    pod_affinity: str = ""
    topology_spread: str = ""
    scheduler_name: str = "default-scheduler"
    runtime_class: str = ""
    priority_class_name: str = "resource-slack"
    reserved_for: str = ""
    """The mirrored workload (`shop/deploy/api`); it keeps the mirrors of two workloads apart."""
    unbound_scheduler: str = ""
    """A schedulerName that no scheduler has: the placeholder is unbound. '' where `scheduler_name` binds it."""
    yields_to_markers: bool = False
    """An unbound one that holds no capacity on a node with a marker pod: nodes are released by these, not by labels."""
    tolerates_soft_taint: bool = False
    """An unbound one that tolerates the taint of nodes that hold unbound placeholders."""

    @cached_property
    def form(self) -> Form:
        """Return the form of its placeholders."""
        return form_of(
            self.unbound_scheduler,
            yields_to_markers=self.yields_to_markers,
            tolerates_soft_taint=self.tolerates_soft_taint,
        )

    @property
    def pod_scheduler(self) -> str:
        """Return the schedulerName of its pods."""
        return self.form.scheduler_name(self.scheduler_name)

    @property
    def bound_twin(self) -> "Shape":
        """Return the same shape as bound placeholders have it."""
        return replace(self, unbound_scheduler="", yields_to_markers=False, tolerates_soft_taint=False)

    def is_twin_of(self, other: "Shape") -> bool:
        """Tell whether nothing but the form differs."""
        return self.bound_twin == other.bound_twin

    @property
    def twins(self) -> tuple["Shape", ...]:
        """Return what an unbound shape is in the other forms: bound, and with other answers to markers and taint."""
        others = [
            replace(self, yields_to_markers=yields, tolerates_soft_taint=tolerates)
            for yields in (False, True)
            for tolerates in (False, True)
        ]
        return self.bound_twin, *(other for other in others if other != self)

    @property
    def precedence(self) -> tuple[str | bool, ...]:
        """Return what is the same for all placeholders of a policy: those of another precedence are all exchanged."""
        own = (self.priority_class_name, self.scheduler_name, self.unbound_scheduler)
        return *own, self.yields_to_markers, self.tolerates_soft_taint

    @cached_property
    def name(self) -> str:
        """Eight hexadecimal digits."""
        defaults = {part.name: part.default for part in fields(self)}
        spec = {
            name: value
            for name, value in msgspec.to_builtins(self).items()
            if name == "requests" or getattr(self, name) != defaults.get(name)
        }
        spec["requests"] = dict(self.requests)
        text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def constraints(self) -> Constraints:
        """Where it may go, as the cluster room has it."""
        return Constraints(
            node_selector=self.node_selector,
            node_affinity=self.node_affinity,
            tolerations=self.tolerations,
            scheduler_name=self.scheduler_name,
            runtime_class=self.runtime_class,
        )

    def vector(self, resources: Sequence[str]) -> IntArray:
        """Return its requests as a row after `resources`; what is not named there is left out."""
        amounts = dict(self.requests)
        return np.array([amounts.get(name, 0) for name in resources], dtype=np.int64)

    def to_json(self) -> str:
        """Return the whole spec as text, kept beside the ReplicaSet so that a restarted operator adopts it."""
        document = msgspec.to_builtins(self)
        if not self.unbound_scheduler:  # as it was before there were unbound ones: an upgrade writes nothing
            document.pop("unbound_scheduler", None)
        if not self.yields_to_markers:
            document.pop("yields_to_markers", None)
        if not self.tolerates_soft_taint:
            document.pop("tolerates_soft_taint", None)
        return msgspec.json.encode(document, order="sorted").decode()

    @classmethod
    def from_json(cls, text: str) -> "Shape":
        """Read what `to_json` wrote.

        Raises:
            msgspec.ValidationError, msgspec.DecodeError: for anything else.
        """
        return msgspec.json.decode(text, type=cls)


def amounts(vector: IntArray, resources: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Return the positive amounts of a row as sorted (name, amount) pairs."""
    return tuple(sorted((name, int(value)) for name, value in zip(resources, vector, strict=True) if value > 0))


@dataclass(frozen=True, slots=True, eq=False)
class WantedShape:
    """One shape that should be there."""

    shape: Shape
    role: Role
    count: int
    vector: IntArray
    """[R]"""
    workloads: tuple[str, ...] = ()
    kinds: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Rows of `Snapshot.kinds` that it makes room for."""
    used_up: bool = False
    """Its placeholders live on while they are bound; none is made anew."""


def room_in(wanted: Sequence[WantedShape], width: int) -> IntArray:
    """[R] what all of them request together."""
    total = np.zeros(width, dtype=np.int64)
    for item in wanted:
        total = total + item.count * item.vector
    return total


def merged(wanted: Iterable[WantedShape]) -> tuple[WantedShape, ...]:
    """Add up equal shapes: a covering and a standard placeholder may be the same."""
    found: dict[str, WantedShape] = {}
    for w in wanted:
        name = w.shape.name
        if name in found:
            first = found[name]
            w = replace(
                first,
                count=first.count + w.count,
                kinds=np.union1d(first.kinds, w.kinds),
                used_up=first.used_up and w.used_up,
            )
        found[name] = w
    return tuple(found.values())
