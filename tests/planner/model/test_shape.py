"""A shape's name is for ever: an operator of another version that named it otherwise would replace all slack."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from slack.cluster.classes import Requirement, Toleration
from slack.planner.model.shape import Shape, amounts
from tests.cluster.build import node
from tests.planner.scenes import plan_of, replicas

GI = 1 << 30
GOLDEN = {
    "PLAIN": Shape((("cpu", 1000), ("memory", 2 * GI))),
    "GPU": Shape((("cpu", 1000), ("memory", 2 * GI), ("nvidia.com/gpu", 1)), node_selector=(("pool", "gpu"),)),
    "FULL": Shape(
        requests=(("cpu", 500),),
        node_selector=(("a", "1"), ("b", "2")),
        node_affinity=((Requirement("tier", "NotIn", ("gold",)),), (Requirement("x", "Exists", ()),)),
        tolerations=(Toleration("dedicated", "Equal", "db", "NoSchedule"),),
        anti_affinity='[{"topologyKey":"zone"}]',
        pod_affinity='[{"topologyKey":"host"}]',
        topology_spread='[{"maxSkew":1}]',
        scheduler_name="volcano",
        runtime_class="kata",
        priority_class_name="gold",
        reserved_for="shop/deploy/api",
    ),
}
NAMES = {"PLAIN": "8272afdd", "GPU": "d515623a", "FULL": "595375ad"}
"""Never change these. A new field joins the hash only where it differs from its default."""


@pytest.mark.parametrize("which", sorted(GOLDEN))
def test_names_are_what_they_always_were(which: str) -> None:
    assert GOLDEN[which].name == NAMES[which]


def test_1000m_equals_1() -> None:
    names = {
        plan_of(node("n"), *replicas(2, "api", cpu, memory, node="n")).shapes[0].shape.name
        for cpu, memory in (("1000m", "1Gi"), ("1", "1024Mi"), ("1.0", "1073741824"))
    }
    assert len(names) == 1


def test_the_order_of_resources_does_not_matter() -> None:
    first = Shape(amounts(np.array([5, 7, 1]), ("cpu", "memory", "a/b")))
    second = Shape(amounts(np.array([1, 7, 5]), ("a/b", "memory", "cpu")))
    assert first == second
    assert first.name == second.name


def test_every_field_makes_another_shape() -> None:
    full = GOLDEN["FULL"]
    names = {full.name}
    defaults = Shape(requests=(("cpu", 501),))
    for field in full.__dataclass_fields__:
        fields = {name: getattr(full, name) for name in full.__dataclass_fields__} | {field: getattr(defaults, field)}
        names.add(Shape(**fields).name)
    names.add(replace(full, unbound_scheduler="resource-slack.io/unbound").name)
    names.add(replace(full, yields_to_markers=True).name)
    names.add(replace(full, tolerates_soft_taint=True).name)
    assert len(names) == 1 + len(full.__dataclass_fields__)


@pytest.mark.parametrize("which", sorted(GOLDEN))
def test_what_is_kept_beside_the_replica_set_reads_back(which: str) -> None:
    assert Shape.from_json(GOLDEN[which].to_json()) == GOLDEN[which]
    with pytest.raises(msgspec.DecodeError):
        Shape.from_json("{")


def test_a_vector_has_the_snapshots_columns() -> None:
    assert GOLDEN["GPU"].vector(("cpu", "memory", "x", "nvidia.com/gpu")).tolist() == [1000, 2 * GI, 0, 1]
    assert GOLDEN["GPU"].vector(("memory",)).tolist() == [2 * GI]
