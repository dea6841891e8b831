"""Which placeholders go first (R3), and which an overcommitted node loses (S2 step 1)."""

from slack.cluster.snapshot import IntArray, Placeholder, Snapshot
from slack.planner.model.result import ExistingShape
from slack.planner.model.shape import Role, Shape
from slack.planner.plan import plan
from slack.planner.removal.victims import overcommitted, pushed_out, victims
from tests.cluster.build import NOW, node, placeholder, pod
from tests.planner.scenes import GI, policy_of, replicas, snapshot_of

SHAPE = Shape((("cpu", 500), ("memory", GI)))
CANDIDATE = {"key": "DeletionCandidateOfClusterAutoscaler", "value": "1", "effect": "PreferNoSchedule"}


def held(name: str, at: str, cpu: str = "500m", shape: Shape = SHAPE) -> dict[str, object]:
    return placeholder(name, cpu, "1Gi", shape=shape.name, node=at)


def pushed(snapshot: Snapshot, vectors: dict[str, IntArray]) -> tuple[Placeholder, ...]:
    return pushed_out(snapshot, vectors, overcommitted(snapshot))


def test_nodes_should_leave_whole() -> None:
    objects = [
        node("busy"),
        *replicas(1, "api", "1", "1Gi", node="busy"),
        node("crowd"),
        *replicas(1, "web", "1", "1Gi", node="crowd"),
        node("lone"),
        node("pair"),
        node("tainted", taints=[CANDIDATE]),
        pod("agent", node="lone", owner=("DaemonSet", "agent")),
        held("on-busy", "busy"),
        held("on-crowd-1", "crowd"),
        held("on-crowd-2", "crowd"),
        held("on-lone", "lone"),
        held("on-pair-1", "pair"),
        held("on-pair-2", "pair"),
        held("on-tainted", "tainted"),
        placeholder("waiting", shape=SHAPE.name),
    ]
    snapshot = snapshot_of(*objects)
    order = victims(snapshot, snapshot.placeholders, 99)
    assert order == ("on-tainted", "on-lone", "on-pair-1", "on-pair-2", "on-crowd-1", "on-crowd-2", "on-busy")
    assert victims(snapshot, snapshot.placeholders, 2) == order[:2]
    assert victims(snapshot, snapshot.placeholders, 0) == ()
    assert victims(snapshot, (), 1) == ()


def test_pending_ones_go_before_any_bound_one() -> None:
    there = ExistingShape("default", SHAPE, Role.FILL, 3)
    objects = [node("n"), held("one", "n"), held("two", "n"), placeholder("three", shape=SHAPE.name)]
    for floor, gone in (("1", ()), ("500m", ("one",))):
        policy = policy_of(extraCapacity={"floor": {"cpu": floor}}, stabilization={"shrinkDelay": "0s"})
        (item,) = plan(snapshot_of(*objects), [policy], now=NOW, existing=[there]).items
        (shape,) = [s for s in item.shapes if s.shape == SHAPE]
        assert shape.replicas == 2 - len(gone)
        assert (shape.victims, shape.change.remove) == (gone, 1 + len(gone))


def test_an_overcommitted_node_loses_as_few_as_suffice_the_cheapest_first() -> None:
    """S2 step 1: "push out placeholders until the sum becomes less than or equal to the node capacity"."""
    small, large = Shape((("cpu", 300), ("memory", GI))), Shape((("cpu", 2000), ("memory", GI)))
    static = pod("static", cpu="1", node="n", annotations={"kubernetes.io/config.source": "file"})
    objects = [
        node("n"),
        *replicas(1, "api", "1", "1Gi", node="n"),
        static,
        held("small", "n", "300m", small),
        held("middle", "n"),
        held("large", "n", "2", large),
        placeholder("stranger", "0", "1Gi", node="n", shape="unknown"),
    ]
    vectors = {s.name: s.vector(("cpu", "memory")) for s in (small, SHAPE, large)}
    assert [p.name for p in pushed(snapshot_of(*objects), vectors)] == ["large"]  # 800m too much: one that suffices
    more = [*objects, *replicas(1, "web", "1", "1Gi", node="n")]
    assert [p.name for p in pushed(snapshot_of(*more), vectors)] == ["large"]
    full = [*more, *replicas(1, "big", "1", "1Gi", node="n")]
    assert sorted(p.name for p in pushed(snapshot_of(*full), vectors)) == ["large", "middle", "small"]
    assert pushed(snapshot_of(*objects[:2], held("fits", "n")), vectors) == ()


def test_what_no_placeholder_can_mend_pushes_none_out() -> None:
    only_cpu = Shape((("cpu", 500),))
    objects = [
        node("n"),
        *replicas(1, "api", "1", "20Gi", node="n"),
        placeholder("p", "500m", "0", shape=only_cpu.name, node="n"),
    ]
    assert pushed(snapshot_of(*objects), {only_cpu.name: only_cpu.vector(("cpu", "memory"))}) == ()
    assert pushed(snapshot_of(*objects), {}) == ()
