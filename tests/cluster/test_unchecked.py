"""What no plan checks of pods is found in their specs as they come, and carried by their kinds."""

from itertools import product
from typing import Any

import msgspec

from slack.cluster import wire
from slack.cluster.classes import Constraints
from slack.cluster.columns import ClusterColumns
from slack.cluster.tables.kind_table import unchecked_of
from slack.cluster.unchecked import Unchecked, unchecked
from tests.cases import run_for_each
from tests.cluster.build import NAMESPACE, NOW, apply, node, pod

CLAIMS = [None, [], [{"name": "gpu", "resourceClaimTemplateName": "one"}]]
VOLUMES = [
    None,
    [],
    [{"name": "v", "emptyDir": {}}, {"name": "t", "projected": {"sources": []}}, {"name": "s", "csi": {"driver": "s"}}],
    [{"name": "v", "emptyDir": {}}, {"name": "d", "persistentVolumeClaim": {"claimName": "c"}}],
    [{"name": "d", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}],
    *([{"name": "d", source: {}}] for source in ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")),
    *([{"name": "d", source: {}}] for source in ("azureDisk", "cinder", "portworxVolume", "vsphereVolume")),
]
PORTS = [None, [], [{"containerPort": 80}], [{"containerPort": 80, "hostPort": 80}]]
COMBINATIONS = list(product(enumerate(CLAIMS), enumerate(VOLUMES), enumerate(PORTS)))


def expected(claims: int, volumes: int, ports: int) -> tuple[Unchecked, ...]:
    found = {
        Unchecked.DEVICE_CLAIMS: claims == 2,
        Unchecked.VOLUME_CLAIMS: volumes > 2,
        Unchecked.HOST_PORTS: ports == 3,
    }
    return tuple(part for part, there in found.items() if there)


def combination(number: int) -> tuple[dict[str, Any], Any, tuple[Unchecked, ...]]:
    """Return the fields of a spec, the ports of its container, and what of them is unchecked."""
    (c, claims), (v, volumes), (p, ports) = COMBINATIONS[number]
    return {"resourceClaims": claims, "volumes": volumes}, ports, expected(c, v, p)


@run_for_each("number", range(len(COMBINATIONS)))
def test_each_combination_of_claims_volumes_and_ports_is_found(number: int) -> None:
    fields, ports, found = combination(number)
    document = {"containers": [{"name": "first"}, {"name": "app", "ports": ports}], **fields}
    for fewer in (document, {key: value for key, value in document.items() if value is not None}):
        spec = msgspec.json.decode(msgspec.json.encode(fewer), type=wire.PodSpec)
        assert unchecked_of(spec) == found


def test_kinds_carry_it_and_a_pod_that_is_otherwise_equal_is_of_another_kind() -> None:
    columns = ClusterColumns(NAMESPACE)
    apply(columns, "ADDED", node("n0"))
    for number in range(len(COMBINATIONS)):
        fields, ports, _ = combination(number)
        made = pod(f"web-{number}", node="n0", owner=("StatefulSet", "web"), **fields)
        made["spec"]["containers"][0]["ports"] = ports
        apply(columns, "ADDED", made)
    kinds = columns.snapshot(NOW).kinds
    texts = {found for *_, found in map(combination, range(len(COMBINATIONS)))}
    assert sorted(kinds.unchecked) == sorted(texts)
    assert int(kinds.running.sum()) == len(COMBINATIONS)


CONSTRAINTS: list[dict[str, Any]] = [
    dict(zip(("topology_spread", "pod_affinity", "anti_affinity"), texts, strict=True))
    for texts in product(("", "[{}]"), repeat=3)
]
PARTS = dict(zip(("topology_spread", "pod_affinity", "anti_affinity"), list(Unchecked)[4:7], strict=True))


@run_for_each("kept_apart", [False, True])
@run_for_each("said", CONSTRAINTS)
def test_what_decides_among_pods_is_judged_with_what_a_spec_says(said: dict[str, Any], kept_apart: bool) -> None:
    """Each combination of claims, volumes and ports with each of the three, in the order of `Unchecked`."""
    for own in {found for *_, found in map(combination, range(len(COMBINATIONS)))}:
        among = {PARTS[name] for name, text in said.items() if text and not (kept_apart and name == "anti_affinity")}
        found = unchecked(own, Constraints(**said), kept_apart=kept_apart)
        assert found == tuple(part for part in Unchecked if part in {*own, *among})
