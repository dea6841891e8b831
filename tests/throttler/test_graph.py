"""Dependencies inside a pod: the study's graph, declared in any order, and what is refused."""

import json
import time
from itertools import pairwise

import pytest

from slack.throttler.graph import MAX_NAMES, Graph, InvalidGraph, parse_depends_on

STUDY = {"app_b": ["app_a"], "app_c": ["app_b"], "app_d": ["app_b"], "app_e": ["app_c", "app_d"]}
BACKWARDS = ["app_e", "app_d", "app_c", "app_b", "app_a"]


def refused(containers: list[str], depends_on: dict[str, list[str]]) -> tuple[str, ...]:
    with pytest.raises(InvalidGraph) as found:
        Graph.from_dependencies(containers, depends_on)
    return found.value.problems


def test_the_study_s_graph_has_four_levels_even_when_declared_backwards() -> None:
    graph = Graph.from_dependencies(BACKWARDS, STUDY)
    assert graph.levels() == (("app_a",), ("app_b",), ("app_d", "app_c"), ("app_e",))


def test_the_study_s_own_example_names_a_container_that_is_not_there() -> None:
    problems = refused(sorted(BACKWARDS), STUDY | {"app_b": ["mag"]})
    assert problems == ("app_b: depends on 'mag', and no container is called so",)


def test_a_cycle_is_told_with_its_members_and_nobody_else() -> None:
    edges = {"a": ["c"], "b": ["a"], "c": ["b"], "d": ["a"], "x": ["y"], "y": ["x"]}
    assert refused(["first", "a", "b", "c", "d", "x", "y"], edges) == (
        "a: depends on itself: a -> c -> b -> a",
        "x: depends on itself: x -> y -> x",
    )


def test_who_waits_for_itself_is_a_cycle() -> None:
    assert refused(["a"], {"a": ["a"]}) == ("a: depends on itself: a -> a",)


def test_names_that_are_unknown_or_there_twice_are_refused() -> None:
    assert refused(["a", "b", "a"], {"c": [], "b": ["a", "a"]}) == (
        "a: two containers are called so",
        "c: no container is called so",
        "b: depends on 'a' twice",
    )


def test_a_slip_is_told_with_the_name_that_was_meant() -> None:
    (problem,) = refused(["database", "web"], {"web": ["databse"]})
    assert problem == "web: depends on 'databse', and no container is called so; did you mean database?"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "is no JSON object such as"),
        ("{", "is no JSON object such as"),
        ('{"b": "a"}', 'b: is no list of containers such as ["app_a"]'),
        ('{"b": [1]}', 'b: is no list of containers such as ["app_a"]'),
        ('{"b": ["a"], "b": []}', "is no JSON object such as"),
        ("[" * 50_000, "is no JSON object such as"),
        (" " * 70_000, "is longer than 65536 bytes"),
    ],
)
def test_an_annotation_that_is_no_graph_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidGraph) as found:
        parse_depends_on(text, ["a", "b"])
    assert found.value.problems[0].startswith(problem)


def test_the_annotation_is_the_study_s_depends_on() -> None:
    graph = parse_depends_on('{"app_b": ["app_a"]}', ["app_b", "app_a"])
    assert graph.depends_on == {"app_b": ("app_a",), "app_a": ()}


def test_a_long_chain_is_no_recursion() -> None:
    names = [f"c{index}" for index in range(5000)]
    chain = {name: [before] for before, name in pairwise(names)}
    assert len(Graph.from_dependencies(names, chain).levels()) == 5000


@pytest.mark.parametrize("containers", [60, 600])
def test_names_that_are_all_unknown_cost_no_more_than_what_is_told(containers: int) -> None:
    alike = "abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnop"
    names = [f"c{at:03d}-{alike}" for at in range(containers)]
    text = json.dumps({f"q{at:03x}{alike}": [] for at in range(1000)})
    began = time.process_time()
    with pytest.raises(InvalidGraph) as found:
        parse_depends_on(text, names)
    assert time.process_time() - began < 0.5
    assert len(found.value.problems) == 20


def test_the_number_of_names_and_what_is_told_of_a_long_one_are_bounded() -> None:
    with pytest.raises(InvalidGraph, match=f"names more than {MAX_NAMES} containers"):
        parse_depends_on(json.dumps({"a": ["b"] * MAX_NAMES}), ["a", "b"])
    with pytest.raises(InvalidGraph) as found:
        parse_depends_on(json.dumps({"x" * 60_000: ["a"]}), ["a"])
    assert len(str(found.value)) < 200
