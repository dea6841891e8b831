"""Many node classes at once are judged as each one is."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster import class_index
from slack.cluster.class_index import ClassIndex
from slack.cluster.classes import DECLARED, NODE_NAME, Constraints, NodeClass, Requirement, Taint, Toleration, admits
from tests.examples import examples

KEYS = ["pool", "size", "none", NODE_NAME, DECLARED + "f"]
VALUES = ["", "a", "b", "7", "+8", "-1", "1_0", str(1 << 63)]
_keys, _values = st.sampled_from(KEYS), st.sampled_from(VALUES)
_taints = st.builds(Taint, st.sampled_from(["t", "u"]), _values, st.sampled_from(["NoSchedule", "PreferNoSchedule"]))
_classes = st.builds(
    NodeClass,
    st.dictionaries(_keys, _values, max_size=3).map(lambda labels: tuple(sorted(labels.items()))),
    st.lists(_taints, max_size=2).map(tuple),
)
_requirements = st.builds(
    Requirement,
    _keys,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Other"]),
    st.lists(_values, max_size=2).map(tuple),
    st.booleans(),
)
_constraints = st.builds(
    Constraints,
    node_selector=st.lists(st.tuples(_keys, _values), max_size=2).map(tuple),
    node_affinity=st.lists(st.lists(_requirements, max_size=2).map(tuple), max_size=2).map(tuple),
    tolerations=st.lists(
        st.builds(
            Toleration,
            st.sampled_from(["", "t", "u"]),
            st.sampled_from(["Exists", "Equal", "Gt"]),
            _values,
            st.just(""),
        ),
        max_size=2,
    ).map(tuple),
    features=st.sampled_from([(), ("f",)]),
)


@examples(200)
@given(st.lists(_classes, max_size=6), st.lists(_constraints, min_size=1, max_size=4))
def test_an_index_admits_what_the_rule_admits_of_each_class(
    classes: list[NodeClass], constraints: list[Constraints]
) -> None:
    many = classes * class_index._FEW
    index = ClassIndex(many)
    for own in constraints:
        assert index.admitted(own).tolist() == [admits(own, node_class) for node_class in many]


def test_what_one_index_has_answered_is_not_changed_by_who_reads_it() -> None:
    index = ClassIndex([NodeClass((("pool", str(i)),), ()) for i in range(40)])
    exists = Constraints(node_affinity=((Requirement("pool", "Exists", ()),),))
    index.admitted(exists)[:] = False
    assert np.all(index.admitted(exists))
