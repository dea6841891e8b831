"""A test that is run once for all cases fails as each of its cases would."""

import pytest

from tests.cases import run_for_each


def test_every_case_is_run_and_each_that_fails_is_told_by_its_name(tmp_path: object) -> None:
    seen = []

    @run_for_each(("number", "word"), [(1, "a"), (2, "b"), (3, "c")], ids=["one", "two", "three"])
    @run_for_each("more", (number for number in (10, 20)))
    def check(number: int, word: str, more: int, place: object) -> None:
        seen.append((number, word, more, place))
        assert number != 2 or more == 10
        assert number != 3

    with pytest.raises(ExceptionGroup, match="2 of 3 cases") as found:
        check(place=tmp_path)
    assert seen == [(n, w, more, tmp_path) for n, w in ((1, "a"), (2, "b"), (3, "c")) for more in (10, 20)]
    of_two, of_three = found.value.exceptions
    assert isinstance(of_two, AssertionError)
    assert of_two.__notes__ == ["case 1: 20", "case 1: two"]
    assert isinstance(of_three, ExceptionGroup)
    assert of_three.__notes__ == ["case 2: three"]


@run_for_each("word", ["a", "b"], ids=str.upper)
def test_fixtures_are_there_and_cases_are_no_fixtures(word: str, request: pytest.FixtureRequest) -> None:
    assert word in ("a", "b")
    assert request.node.name == "test_fixtures_are_there_and_cases_are_no_fixtures"


def test_one_failure_is_raised_as_it_is() -> None:
    @run_for_each("number", [1, 2], ids=lambda number: f"n{number}")
    def check(number: int) -> None:
        if number == 2:
            raise ValueError("it is two")

    with pytest.raises(ValueError, match="it is two") as found:
        check()
    assert found.value.__notes__ == ["case 1: n2"]


def test_no_case_at_all_is_refused() -> None:
    with pytest.raises(AssertionError, match="no case"):
        run_for_each("number", [])(lambda number: None)
