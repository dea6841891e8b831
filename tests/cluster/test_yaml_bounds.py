"""A text that is small and a value without end: refused before it is loaded, with line and path."""

import pytest

from slack.cluster.yaml_bounds import MOST_DEPTH, MOST_DIGITS, UnboundedYaml, check_bounds
from tests.cases import run_for_each


def laughs(levels: int, each: int) -> str:
    text = "spec:\n  a0: &a0 [" + ",".join("x" * each) + "]\n"
    for level in range(1, levels):
        text += f"  a{level}: &a{level} [{','.join([f'*a{level - 1}'] * each)}]\n"
    return text


@run_for_each(
    ("text", "said"),
    [
        (laughs(9, 9), "line 7: spec.a5[0]: aliases stand for more than 100,000 values; write them out"),
        ("a: &a\n  b: *a\n", "line 2: a.b: an alias stands within what it stands for"),
        ("a: &a " + "x" * 7_000_000 + "\nb: [*a, *a]", "line 2: b[0]: aliases stand for"),
        ("a:\n  - b: " + "9" * 5000, "line 2: a[0].b: a number of 5,000 characters"),
        ("a: 0." + "9" * 5000, "line 1: a: a number of 5,002 characters"),
        ("a: !!int '" + "9" * 5000 + "'", "line 1: a: a number of 5,000 characters"),
        ("a: " + ":".join(["1"] * 5000), "line 1: a: a number of 9,999 characters"),
        ("a: " + "[" * 200_000, f"line 1: it is nested too deeply, in more than {MOST_DEPTH} levels"),
        ("- " * 200_000 + "x", "it is nested too deeply"),
        ("a: 1\n---\nb: " + "9" * 100, "line 3: b: a number of 100 characters"),
    ],
    ids=["laughs", "itself", "long text", "integer", "fraction", "tagged", "sexagesimal", "flow", "block", "second"],
)
def test_what_would_have_no_end_is_refused_with_its_place(text: str, said: str) -> None:
    for data in (text, text.encode(), text.encode("utf-16")):
        with pytest.raises(UnboundedYaml) as caught:
            check_bounds(data)
        assert said in str(caught.value)
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "text",
    [
        "base: &base {cpu: 1}\nweb: {<<: *base, memory: 2}\napi: *base\n",
        "digest: 'sha256:" + "9" * 64 + "'\nquoted: '" + "9" * 500 + "'\nscript: |\n  a && b *.txt " + "9" * 500,
        "n: " + "9" * MOST_DIGITS,
        "a: [",
        "\x00",
        "",
        "a: *never-named",
        "&a x: 1",
    ],
)
def test_what_people_write_and_what_is_no_yaml_is_left_to_who_loads_it(text: str) -> None:
    check_bounds(text)
    check_bounds(text.encode())
