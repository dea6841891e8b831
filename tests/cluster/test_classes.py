"""Cases follow nodeaffinity_test.go and toleration_test.go of 1.36."""

from typing import Any

import msgspec
import pytest

from slack.cluster.classes import (
    Constraints,
    NodeClass,
    Requirement,
    Taint,
    Toleration,
    admits,
    reason_against,
    tolerates,
)
from slack.cluster.constraints import label_needs, parse_constraints
from tests.cases import run_for_each

Json = dict[str, Any]
HOST = "kubernetes.io/hostname"


def raw(value: object) -> bytes:
    return msgspec.json.encode(value)


def nodes(labels: dict[str, str] | None = None, *taints: Taint) -> NodeClass:
    return NodeClass(tuple(sorted((labels or {}).items())), tuple(sorted(taints)))


def terms(*items: Json | None) -> bytes:
    required = {"nodeSelectorTerms": list(items)}
    return raw({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})


def expression(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": list(values) or None}


def wants(*expressions: Json) -> Constraints:
    return parse_constraints(affinity=terms({"matchExpressions": list(expressions)}))


@run_for_each(
    ("wanted", "labels", "admitted"),
    [
        (expression("pool", "In", "web", "db"), {"pool": "db"}, True),
        (expression("pool", "In", "web"), {"pool": "db"}, False),
        (expression("pool", "In", "web"), {}, False),
        (expression("pool", "In"), {"pool": "web"}, False),
        (expression("pool", "NotIn", "web"), {"pool": "db"}, True),
        (expression("pool", "NotIn", "web"), {}, True),
        (expression("pool", "NotIn", "web"), {"pool": "web"}, False),
        (expression("pool", "NotIn"), {"pool": "web"}, False),
        (expression("pool", "Exists"), {"pool": ""}, True),
        (expression("pool", "Exists"), {}, False),
        (expression("pool", "Exists", "web"), {"pool": "web"}, False),
        (expression("pool", "DoesNotExist"), {}, True),
        (expression("pool", "DoesNotExist"), {"pool": "web"}, False),
        (expression("cores", "Gt", "8"), {"cores": "16"}, True),
        (expression("cores", "Gt", "8"), {"cores": "8"}, False),
        (expression("cores", "Lt", "8"), {"cores": "-1"}, True),
        (expression("cores", "Lt", "8"), {"cores": "8"}, False),
        (expression("cores", "Gt", "8"), {"cores": "many"}, False),
        (expression("cores", "Gt", "8"), {"cores": " 16"}, False),
        (expression("cores", "Gt", "8"), {"cores": str(1 << 63)}, False),
        (expression("cores", "Gt", "8"), {"cores": "9" * 5000}, False),
        (expression("cores", "Lt", "9" * 5000), {"cores": "1"}, False),
        (expression("cores", "Gt", "08"), {"cores": "16"}, True),
        (expression("cores", "Gt", "8"), {}, False),
        (expression("cores", "Gt", "eight"), {"cores": "16"}, False),
        (expression("cores", "Gt", "1", "2"), {"cores": "16"}, False),
        (expression("pool", "Near", "web"), {"pool": "web"}, False),
    ],
)
def test_one_expression_of_required_node_affinity(wanted: Json, labels: dict[str, str], admitted: bool) -> None:
    assert admits(wants(wanted), nodes(labels)) is admitted


def test_all_expressions_of_a_term_and_any_of_the_terms_must_match() -> None:
    both = wants(expression("pool", "In", "web"), expression("zone", "In", "a"))
    assert admits(both, nodes({"pool": "web", "zone": "a"}))
    assert not admits(both, nodes({"pool": "web", "zone": "b"}))
    either = parse_constraints(
        affinity=terms(
            {"matchExpressions": [expression("pool", "In", "web")]},
            {"matchExpressions": [expression("zone", "In", "a")]},
        )
    )
    assert admits(either, nodes({"zone": "a"}))
    assert not admits(either, nodes({"zone": "b"}))


def test_the_node_selector_is_required_besides_the_affinity() -> None:
    both = parse_constraints(raw({"pool": "web"}), terms({"matchExpressions": [expression("zone", "In", "a")]}))
    assert admits(both, nodes({"pool": "web", "zone": "a"}))
    assert not admits(both, nodes({"pool": "web"}))
    assert not admits(both, nodes({"zone": "a"}))


@pytest.mark.parametrize("items", [(), ({},), ({"matchExpressions": [], "matchFields": None}, {})])
def test_an_affinity_of_empty_terms_matches_no_node(items: tuple[Json, ...]) -> None:
    impossible = parse_constraints(affinity=terms(*items))
    assert impossible.node_affinity == ((),)
    assert not admits(impossible, nodes({"pool": "web"}))
    assert reason_against(impossible, nodes()) == "required node affinity (an empty term) is not met"


@pytest.mark.parametrize("affinity", [b"", b"null", b"{}", b'{"nodeAffinity": null}', b'{"nodeAffinity": {}}'])
def test_no_affinity_admits_everywhere(affinity: bytes) -> None:
    assert parse_constraints(b"null", affinity, b"null", b"null") == Constraints()
    assert admits(parse_constraints(affinity=affinity), nodes({"pool": "web"}))


def test_match_fields_compares_the_name_of_the_node() -> None:
    def pinned(operator: str, *values: str) -> Constraints:
        return parse_constraints(affinity=terms({"matchFields": [expression("metadata.name", operator, *values)]}))

    named, other = nodes({"metadata.name": "n1"}), nodes()
    assert admits(pinned("In", "n1"), named)
    assert not admits(pinned("In", "n1"), other)
    assert not admits(pinned("NotIn", "n1"), named)
    assert admits(pinned("NotIn", "n1"), other)
    # nodeaffinity.go takes exactly one value, and no other operator.
    assert not admits(pinned("In", "n1", "n2"), named)
    assert not admits(pinned("Exists"), named)


DEDICATED = Taint("dedicated", "gpu", "NoSchedule")


@run_for_each(
    ("toleration", "tolerated"),
    [
        ({"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}, True),
        ({"key": "dedicated", "value": "gpu"}, True),
        ({"key": "dedicated", "value": "db"}, False),
        ({"key": "dedicated", "operator": "Exists"}, True),
        ({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "dedicated", "operator": "Like", "value": "gpu"}, False),
        ({"key": "dedicated", "operator": "Gt", "value": "1"}, False),
        ({"key": "dedicated", "operator": "Exists", "effect": "PreferNoSchedule"}, False),
    ],
)
def test_one_toleration_against_one_taint(toleration: Json, tolerated: bool) -> None:
    assert admits(parse_constraints(tolerations=raw([toleration])), nodes(None, DEDICATED)) is tolerated


@pytest.mark.parametrize(
    ("operator", "mine", "its", "tolerated"),
    [("Gt", "5", "6", True), ("Gt", "5", "5", False), ("Lt", "5", "4", True), ("Lt", "5", "6", False),
     ("Lt", "5", "x", False), ("Gt", "05", "6", False), ("Lt", "9" * 5000, "5", False), ("Gt", "5", "9" * 5000, False),
     ("Gt", "5", str(1 << 63), False)],
)  # fmt: skip
def test_numeric_tolerations(operator: str, mine: str, its: str, tolerated: bool) -> None:
    assert tolerates(Toleration("sla", operator, mine, ""), Taint("sla", its, "NoSchedule")) is tolerated


def test_every_taint_needs_a_toleration_but_prefer_no_schedule_keeps_nobody_away() -> None:
    one = parse_constraints(tolerations=raw([{"key": "dedicated", "operator": "Exists"}]))
    assert not admits(one, nodes(None, DEDICATED, Taint("spot", "", "NoExecute")))
    assert admits(Constraints(), nodes(None, Taint("spot", "", "PreferNoSchedule")))


def test_the_reason_names_what_is_in_the_way() -> None:
    selector = parse_constraints(raw({"pool": "web"}))
    assert reason_against(selector, nodes({"pool": "db"})) == "node selector pool=web is not met"
    assert reason_against(Constraints(), nodes(None, DEDICATED)) == "taint dedicated=gpu:NoSchedule is not tolerated"
    assert (
        reason_against(Constraints(), nodes(None, Taint("spot", "", "NoExecute")))
        == "taint spot:NoExecute is not tolerated"
    )
    affinity = wants(expression("zone", "In", "a", "b"), expression("gpu", "Exists"))
    assert reason_against(affinity, nodes()) == "required node affinity [gpu Exists and zone In (a, b)] is not met"
    assert reason_against(selector, nodes({"pool": "web"})) == ""


def test_equal_meanings_are_equal_values() -> None:
    one = parse_constraints(
        b'{"b": "2", "a": "1"}',
        terms({"matchExpressions": [expression("x", "In", "2", "1"), expression("w", "Exists")]}, {}),
        raw([{"key": "k", "operator": "Exists", "effect": None}, {"key": "j", "operator": "Equal", "value": "v"}]),
    )
    other = parse_constraints(
        b'{"a":"1","b":"2"}',
        terms({"matchExpressions": [expression("w", "Exists"), expression("x", "In", "1", "2", "1")]}),
        raw([{"key": "j", "value": "v"}, {"key": "k", "operator": "Exists"}]),
        scheduler_name="default-scheduler",
    )
    assert one == other
    assert hash(one) == hash(other)


def test_what_admission_adds_to_every_pod_makes_no_difference() -> None:
    added = [{"key": f"node.kubernetes.io/{k}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
             for k in ("not-ready", "unreachable")]  # fmt: skip
    assert parse_constraints(tolerations=raw(added)) == Constraints()


def test_required_pod_affinity_and_hard_spread_are_kept_as_canonical_json() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "db"}}, "namespaces": None}
    listed = {"topologyKey": HOST, "namespaces": ["a", "b"], "labelSelector": None}
    far = parse_constraints(affinity=raw({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [listed]}}))
    assert far.pod_affinity == f'[{{"namespaces":["a","b"],"topologyKey":"{HOST}"}}]'
    hard = {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    soft = hard | {"whenUnsatisfiable": "ScheduleAnyway"}
    found = parse_constraints(
        affinity=raw({
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]},
        }),
        topology_spread=raw([soft, hard]),
        scheduler_name="batch",
        runtime_class="gvisor",
    )  # fmt: skip
    assert found.anti_affinity == f'[{{"labelSelector":{{"matchLabels":{{"app":"db"}}}},"topologyKey":"{HOST}"}}]'
    assert found.pod_affinity == ""
    assert msgspec.json.decode(found.topology_spread) == [hard]
    assert (found.scheduler_name, found.runtime_class) == ("batch", "gvisor")
    near = parse_constraints(affinity=raw({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}))
    assert near.pod_affinity == found.anti_affinity


def test_the_labels_that_constraints_look_at() -> None:
    both = parse_constraints(raw({"pool": "web", HOST: "n1"}))
    assert label_needs(both) == {("pool", None), (HOST, "n1")}
    assert label_needs(wants(expression(HOST, "NotIn", "n1", "n2"))) == {(HOST, "n1"), (HOST, "n2")}
    assert label_needs(wants(expression(HOST, "Exists"))) == {(HOST, None)}
    assert label_needs(Constraints(node_affinity=((Requirement("metadata.name", "In", ("n1",), True),),))) == {
        ("metadata.name", "n1")
    }
    apart = Constraints(anti_affinity=f'[{{"topologyKey":"rack"}},{{"topologyKey":"{HOST}"}}]')
    assert label_needs(apart) == {("rack", None)}
