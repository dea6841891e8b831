"""Whom running pods avoid: as kube-scheduler decides it, whatever else the cluster has; and the work is bounded."""

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster import avoidance
from slack.cluster.avoidance import Avoidance, AvoidingPods
from slack.cluster.columns import ClusterColumns
from slack.cluster.selectors import matches
from slack.cluster.snapshot import Snapshot, Workload
from slack.cluster.tables import label_sets
from slack.cluster.unchecked import Unchecked
from slack.planner.domain.kept_off import kept_off
from tests.cluster.build import NAMESPACE, NOW, Json, apply, namespace, node, pod
from tests.cluster.selector_pairs import PAIRS, namespaces, pairs
from tests.examples import examples

ANSWERS = Path(__file__).with_name("selector_answers.txt")
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
ZONES = ("a", "b", "a", "")
NODES = [node(f"n{i}", labels={ZONE: zone} if zone else {}) for i, zone in enumerate(ZONES)]
SPACES = [namespace(name, **labels) for name, labels in namespaces().items()]
TERMS = [pair.term for pair in pairs()][:400]


def test_ten_thousand_random_pairs_are_decided_as_by_kube_scheduler() -> None:
    spaces, wrong = namespaces(), []
    for number, (pair, digit) in enumerate(zip(pairs(), ANSWERS.read_text(encoding="ascii").strip(), strict=True)):
        own = AvoidingPods(
            Workload(pair.namespace, "pod", "pod"), tuple(sorted(pair.labels.items())), json.dumps([pair.term])
        )
        found = Avoidance()
        found.update((own,), {1: pair.other_labels}, 2, spaces)
        if bool(found.terms_for(pair.other_namespace, 1)) != bool(int(digit, 16) & 1):
            wrong.append(number)
    assert number == PAIRS - 1
    assert not wrong


DrawnPod = tuple[str, dict[str, str], int | None, list[tuple[Json, str]], tuple[str, str] | None, str]
"""Namespace, labels, node, anti-affinity terms with their topology keys, owner, phase."""

labels = st.dictionaries(st.sampled_from(["app", "tier", "rev"]), st.sampled_from(["a", "b", ""]))
pods = st.lists(
    st.tuples(
        st.sampled_from(sorted(namespaces())),
        labels,
        st.sampled_from([None, None, *range(len(NODES))]),
        st.lists(st.tuples(st.sampled_from(TERMS), st.sampled_from([HOST, ZONE, "rack"])), max_size=2),
        st.sampled_from([("ReplicaSet", "web-1"), ("DaemonSet", "agent"), ("Job", "run"), None]),
        st.sampled_from(["", "", "Succeeded"]),
    ),
    min_size=2,
    max_size=9,
)


def objects_of(drawn: list[DrawnPod]) -> list[Json]:
    found = []
    for i, (space, own, where, terms, owner, phase) in enumerate(drawn):
        required = [{**term, "topologyKey": key} for term, key in terms]
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}} if terms else None
        at = None if where is None else f"n{where}"
        # Each is a workload of its own, so that all others are other pods.
        named = None if owner is None else (owner[0], f"{owner[1]}-{i}")
        found.append(pod(f"p{i}", space, node=at, labels=own, owner=named, phase=phase, affinity=affinity))
    return found


def blocked(snapshot: Snapshot, row: int) -> set[str]:
    return {name for name, off in zip(snapshot.nodes.names, kept_off(snapshot, [row]), strict=True) if off}


@examples(300)
@given(pods, st.randoms(use_true_random=False))
def test_the_nodes_that_each_pod_is_kept_off_are_those_that_a_look_at_every_pair_finds(
    drawn: list[DrawnPod], random: Random
) -> None:
    found = objects_of(drawn)
    shuffled = [*NODES, *SPACES, *found]
    random.shuffle(shuffled)
    columns = ClusterColumns(NAMESPACE)
    apply(columns, "ADDED", *shuffled)
    snapshot = columns.snapshot(NOW)
    rows = {str(workload): k for k, workload in enumerate(snapshot.kinds.workloads)}
    for i, (space, own, _, _, owner, phase) in enumerate(drawn):
        if (owner and owner[0] == "DaemonSet") or phase:
            continue
        kept_off: set[str] = set()
        for j, (theirs, their_labels, where, terms, _, their_phase) in enumerate(drawn):
            if i == j or where is None or their_phase:
                continue
            for term, key in terms:
                if matches(term, (theirs, their_labels), (space, own), namespaces()):
                    zone = ZONES[where]
                    kept_off |= {f"n{where}"} if key == HOST else set()
                    kept_off |= {f"n{n}" for n, z in enumerate(ZONES) if z == zone != ""} if key == ZONE else set()
        kind = {"ReplicaSet": f"rs/web-1-{i}", "Job": f"job/run-{i}"}.get(owner[0] if owner else "", f"pod/p{i}")
        row = rows[f"{space}/{kind}"]
        assert blocked(snapshot, row) == kept_off
        assert (Unchecked.AVOIDED in snapshot.kinds.unchecked[row]) == (row in snapshot.avoided)


def avoiding(ns: str, name: str, where: str, **term: object) -> Json:
    own = {"topologyKey": HOST, **term}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [own]}}
    return pod(name, ns, node=where, owner=("ReplicaSet", "guard"), labels={"app": "guard"}, affinity=affinity)


def snapshot_of(*objects: Json) -> Snapshot:
    columns = ClusterColumns(NAMESPACE)
    apply(columns, "ADDED", *NODES, *objects)
    return columns.snapshot(NOW)


def test_labels_that_are_not_kept_leave_it_open_whether_pods_are_avoided() -> None:
    guard = avoiding("ops", "g", "n0", labelSelector={"matchLabels": {"app": "web"}}, namespaceSelector={})
    many = {f"l{i}": "x" for i in range(label_sets.MOST_LABELS + 1)}
    snapshot = snapshot_of(guard, pod("w", node="n1", labels=many))
    row = [str(w) for w in snapshot.kinds.workloads].index("shop/pod/w")
    assert snapshot.avoided == {row: None}
    assert Unchecked.AVOIDED in snapshot.kinds.unchecked[row]


def test_beyond_the_bound_of_comparisons_it_is_not_known_who_is_avoided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avoidance, "MOST_CHECKS", 5)
    guards = [
        avoiding("ops", f"g{i}", "n0", labelSelector={"matchExpressions": [own]}, namespaceSelector={})
        for i, own in enumerate({"key": f"k{i}", "operator": "DoesNotExist"} for i in range(4))
    ]
    snapshot = snapshot_of(*guards, *(pod(f"w{i}", node="n1", labels={"app": f"w{i}"}) for i in range(6)))
    answers = list(snapshot.avoided.values())
    assert None in answers
    assert len(answers) == len(snapshot.kinds)


def test_own_pods_are_not_told_as_others_and_another_revision_is_the_same_workload() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "guard"}}}
    snapshot = snapshot_of(*(avoiding("ops", f"g{i}", f"n{i}", **term) for i in range(3)))
    assert not snapshot.avoided
