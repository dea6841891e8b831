"""Selectors decide as kube-scheduler's own code does."""

from pathlib import Path

import pytest

from slack.cluster.constraints import parse_constraints
from slack.cluster.selectors import counts, label_keys, matches, resolved, selects
from tests.cluster.build import Json
from tests.cluster.selector_pairs import PAIRS, Pair, namespaces, pairs

ANSWERS = Path(__file__).with_name("selector_answers.txt")


def _answer(pair: Pair) -> int:
    """Return what we say of a pair, as the program that asks the scheduler prints it."""
    own, other = (pair.namespace, pair.labels), (pair.other_namespace, pair.other_labels)
    there = pair.namespace == pair.other_namespace and counts(pair.spread, pair.labels, pair.other_labels)
    return (
        1 * matches(pair.term, own, other, namespaces())
        + 2 * matches(pair.term, own, own, namespaces())
        + 4 * there
        + 8 * (there and counts(pair.spread, pair.labels, pair.labels))
    )


def test_ten_thousand_random_pairs_are_decided_as_by_kube_scheduler() -> None:
    said = ANSWERS.read_text(encoding="ascii").strip()
    assert len(said) == PAIRS
    different = [
        (number, pair, answer, _answer(pair))
        for number, (pair, answer) in enumerate(zip(pairs(), (int(digit, 16) for digit in said), strict=True))
        if answer != _answer(pair)
    ]
    assert not different[:3]
    # A comparison in which one side of a question hardly occurs would say nothing.
    for bit in (1, 2, 4, 8):
        asked = sum(bool(int(digit, 16) & bit) for digit in said)
        assert PAIRS // 100 < asked < PAIRS - PAIRS // 100


@pytest.mark.parametrize("operator", ["Gt", "", None])
def test_an_operator_that_the_api_server_refuses_matches_nothing(operator: str | None) -> None:
    assert not selects({"matchExpressions": [{"key": "a", "operator": operator}]}, {"a": "1"})


def test_a_term_that_the_api_server_has_resolved_already_stays_as_it_is() -> None:
    term: Json = {"labelSelector": {"matchLabels": {"app": "a"}}, "matchLabelKeys": ["rev"]}
    once = resolved(term, {"rev": "1"})
    assert resolved({**once, "matchLabelKeys": ["rev"]}, {"rev": "1"}) == once


def test_label_keys_are_all_that_the_terms_look_at() -> None:
    affinity = (
        b'{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"z","matchLabelKeys":["r"],'
        b'"labelSelector":{"matchLabels":{"a":"1"},"matchExpressions":[{"key":"b","operator":"Exists"}]}}]}}'
    )
    spread = b'[{"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchLabels":{"c":""}}}]'
    assert label_keys(parse_constraints(b"", affinity, b"", spread)) == {"a", "b", "c", "r"}
