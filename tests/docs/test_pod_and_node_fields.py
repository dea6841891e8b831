"""The page of fields names exactly what is decoded of pods and nodes."""

import re
import types
import typing
from collections.abc import Iterator

import msgspec
import pytest

from slack.cluster import labels, wire
from tests.docs.pages import DOCS, section

PAGE = DOCS / "reference" / "pod-and-node-fields.md"


def _parts(declared: object) -> Iterator[tuple[str, object]]:
    """Yield what a type is made of, `[]` before what stands in a list."""
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin in (typing.Union, types.UnionType):
        for argument in arguments:
            if argument is not type(None):
                yield from _parts(argument)
    elif origin is typing.Annotated:
        yield from _parts(arguments[0])
    elif origin is list:
        yield from (("[]", inner) for _, inner in _parts(arguments[0]))
    else:
        yield "", declared


def _paths(struct: type[msgspec.Struct], before: str = "") -> Iterator[str]:
    hints = typing.get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        name = f"{before}{field.encode_name}"
        for suffix, inner in _parts(hints[field.name]):
            if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                yield from _paths(inner, f"{name}{suffix}.")
            elif typing.is_typeddict(inner):
                keys = typing.get_type_hints(inner)
                yield from (f"{name}{suffix}.{key}" if suffix else f"{name}[{key}]" for key in keys)
            else:
                yield f"{name}{suffix}"


@pytest.mark.parametrize(("heading", "struct"), [("Pods", wire.Pod), ("Nodes", wire.Node)])
def test_it_names_each_field_that_is_decoded_and_no_other(heading: str, struct: type[msgspec.Struct]) -> None:
    lines = [line for line in section(PAGE, heading).splitlines() if line.startswith("| `")]
    named = [name for line in lines for name in re.findall(r"`([^`]+)`", line.split("|")[1])]
    assert len(named) == len(set(named)), "a field is named twice"
    by_name = {name for name in named if name.startswith("metadata.labels[")}
    assert set(named) - by_name == set(_paths(struct))


def test_it_names_the_labels_by_which_pods_are_told_apart() -> None:
    named = set(re.findall(r"`metadata\.labels\[([^`]+)\]`", PAGE.read_text()))
    assert set(wire.NAMING_LABELS) < named
    assert named <= {value for name, value in vars(labels).items() if name.startswith("LABEL_")}


def test_each_version_is_one_of_kubernetes() -> None:
    cells = [line.split("|")[3].strip() for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert len(cells) > 30
    assert all(re.fullmatch(r"(1\.\d\d(; 1\.\d\d)?)?", cell) for cell in cells)
