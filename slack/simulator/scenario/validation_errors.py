"""What pydantic finds wrong in a scenario, in words of a scenario: the field as it is written, what would be right.

Nothing of pydantic's own (tags, tuples, coercions) reaches a user.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from slack.cluster.duration import parse_duration
from slack.schema.did_you_mean import did_you_mean

_PLAIN_KEY = re.compile(r"[\w./-]+")
_LONGEST_SHOWN = 60
_KINDS = {
    "text": ("string", "str"),
    "a whole number": ("int",),
    "a number": ("float", "decimal"),
    "true or false": ("bool",),
    "a list": ("tuple", "list", "set", "frozen_set"),
    "a mapping with fields such as {fields}": ("model", "dict", "mapping", "dataclass"),
    "a time such as 2026-01-05T00:00:00Z": ("datetime", "date", "timezone"),
}
_WANTED = {kind: words for words, kinds in _KINDS.items() for kind in kinds}
_BOUNDS = {
    "greater_than": ("gt", "must be more than {}"),
    "greater_than_equal": ("ge", "must be at least {}"),
    "less_than": ("lt", "must be less than {}"),
    "less_than_equal": ("le", "must be at most {}"),
}
NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_PATTERNS = {
    NAME_PATTERN: "is not a name of lowercase letters, digits and dashes",
    r"^[a-z0-9-]*$": "has more than lowercase letters, digits and dashes",
    r"^$|^\d+%?$": "is neither a number such as 2 nor a share such as 25%",
}


def problems(errors: Sequence[Mapping[str, Any]], root: type[BaseModel]) -> tuple[str, ...]:
    """Say pydantic's errors: each field's path, what is wrong with it, what would be right.

    Args:
        errors: ValidationError.errors().
        root: the model that was asked for.
    """
    places = [tuple(error["loc"]) for error in errors]
    return tuple(
        _problem(error, root)
        for error, loc in zip(errors, places, strict=True)
        # a list whose only entry is wrong counts as empty besides: one of the two is enough
        if error["type"] != "too_short"
        or not any(len(place) > len(loc) and place[: len(loc)] == loc for place in places)
    )


def _problem(error: Mapping[str, Any], root: type[BaseModel]) -> str:
    loc = tuple(error["loc"])
    above, parents = _written(loc[:-1], root)
    path, types = _written(loc, root)
    match error["type"]:
        case "extra_forbidden":
            message = f"unknown field{_suggestion(loc[-1], parents)}"
        case "invalid_key":
            path, message = (
                above,
                f"{value_text(loc[-1])} is no name of a field; names that look like numbers need quotes",
            )
        case _ if error.get("input") is None and error["type"] != "missing" and "value" not in error["type"]:
            optional = any(
                not field.is_required()
                for parent in parents
                if _is_model(parent)
                for field in parent.model_fields.values()
                if field.alias == loc[-1]
            )
            message = f"is null; write {_expected(error['type'], types)}{', or leave it out' if optional else ''}"
        case _:
            where, message = _message(error, types)
            path = (path + where).removeprefix(".")
    return f"{path}: {message}" if path else message


def value_text(value: object) -> str:
    """Return a value as a file has it, cut where it is long."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    try:
        text = repr(value) if isinstance(value, str | int | float) else repr(str(value))
    except ValueError:  # Python writes no integers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _written(loc: tuple[str | int, ...], root: type[BaseModel]) -> tuple[str, list[Any]]:
    """Return a path as people write it, without the kinds that pydantic puts in, and the types that stand there."""
    path, types = "", [root]
    for part in loc:
        models = [type_ for type_ in types if _is_model(type_)]
        if len(models) > 1 and part in {kind_of(model) for model in models}:
            types = [model for model in models if kind_of(model) == part]
            continue
        path += step(path, part)
        types = [found for type_ in types for found in _below(type_, part)]
    return path, types


def step(path: str, part: str | int) -> str:
    """Return how a path goes on."""
    if isinstance(part, int):
        return f"[{part}]"
    text = part if _PLAIN_KEY.fullmatch(part) else f"[{value_text(part)}]"
    return f".{text}" if path and not text.startswith("[") else text


def _below(type_: Any, part: str | int) -> list[Any]:
    """Return the types that can stand under a name or number."""
    if _is_model(type_):
        for name, field in type_.model_fields.items():
            if part in (name, field.alias):
                return list(members(field.annotation))
        return []
    arguments = [argument for argument in get_args(type_) if argument is not Ellipsis]
    if get_origin(type_) in (tuple, list) and isinstance(part, int):
        inner = arguments[part] if len(arguments) > part and Ellipsis not in get_args(type_) else arguments[0]
        return list(members(inner))
    return list(members(arguments[1])) if get_origin(type_) is dict else []


def members(annotation: Any) -> Iterator[Any]:
    """Yield the types that an annotation allows, without their `Annotated`."""
    if hasattr(annotation, "__metadata__"):
        yield from members(get_args(annotation)[0])
    elif get_origin(annotation) in (None, tuple, list, dict, Literal) or _is_model(annotation):
        yield annotation
    else:
        for argument in get_args(annotation):
            yield from members(argument)


def _is_model(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, BaseModel)


def kind_of(model: Any) -> str:
    """Return the kind that says which model of a union this is; '' for a model of none."""
    field = model.model_fields.get("kind")
    return str(get_args(field.annotation)[0]) if field is not None else ""


def _message(error: Mapping[str, Any], types: list[Any]) -> tuple[str, str]:
    """Return what follows the path (a field below it, often nothing), and the words."""
    type_, given, context = str(error["type"]), error.get("input"), error.get("ctx") or {}
    match type_:
        case "value_error":
            return _ours(str(error["msg"]).removeprefix("Value error, "), given)
        case "missing":
            return "", "is missing"
        case "union_tag_not_found" | "union_tag_invalid":
            kinds = ", ".join(re.findall(r"'(\w+)'", str(context.get("expected_tags", "")))) or _kinds(types)
            if type_ == "union_tag_not_found":
                return ".kind", f"is missing; write one of {kinds}"
            return ".kind", f"{value_text(_kind_given(given))} is none of {kinds}"
        case "literal_error" | "enum":
            allowed = re.findall(r"'([^']*)'", str(context.get("expected", "")))
            if len(allowed) == 1:
                return "", f"must be {allowed[0]}, not {value_text(given)}"
            return "", f"{value_text(given)} is none of {', '.join(value or repr(value) for value in allowed)}"
        case "string_pattern_mismatch":
            pattern = str(context.get("pattern", ""))
            return "", f"{value_text(given)} {_PATTERNS.get(pattern, f'does not match {pattern}')}"
        case "string_too_long":
            return "", f"is longer than {context.get('max_length')} characters"
        case "too_short" | "string_too_short":
            least = context.get("min_length")
            return "", "is empty" if least == 1 else f"has fewer than {least} entries"
        case "too_long":
            return "", f"has more than {context.get('max_length')} entries"
        case "finite_number":
            return "", f"must be a finite number, not {value_text(given)}"
        case "int_parsing_size":
            return "", f"{value_text(given)} is too large"
        case "recursion_loop":
            return "", "contains itself"
    if type_ in _BOUNDS:
        bound, words = _BOUNDS[type_]
        limit = context.get(bound)
        return "", f"{words.format(_plain(limit))}, not {value_text(given)}"
    return "", _of_another_type(type_, given, types)


def _plain(limit: object) -> object:
    """Return a bound as people write it: 10000000000 and 0.1, not 1e+10."""
    return f"{limit:.10f}".rstrip("0").rstrip(".") if isinstance(limit, float) else limit


def _ours(message: str, given: object) -> tuple[str, str]:
    """A validator of a whole model or mapping puts the name of what is inside before its words: it joins the path."""
    name, colon, rest = message.partition(": ")
    if colon and isinstance(given, Mapping) and name in given:
        return f".{name}", rest
    return "", message


def _expected(type_: str, types: list[Any]) -> str:
    """Say what a field takes."""
    words = next((words for kind, words in _WANTED.items() if type_.startswith(f"{kind}_")), "a value")
    models = [type_ for type_ in types if _is_model(type_)]
    if len(models) > 1:
        return f"a mapping with its kind: {_kinds(types)}"
    fields = [str(field.alias) for model in models for field in model.model_fields.values()]
    return words.format(fields=", ".join(fields[:3]) or "name: value")


def _of_another_type(type_: str, given: object, types: list[Any]) -> str:
    wanted = _expected(type_, types)
    if wanted == "text" and not isinstance(given, Mapping | list | tuple):
        return f"must be text, not {value_text(given)}; put it in quotes"
    return f"must be {wanted}, not {value_text(given)}{_as_number(given) if 'number' in wanted else ''}"


def _as_number(given: object) -> str:
    """Say a duration in seconds and a percentage as a share, as fields of numbers take them."""
    if isinstance(given, str) and re.fullmatch(r"\d{1,9}(\.\d{1,9})?%", given):
        return f"; write {float(given[:-1]) / 100:g}"
    try:
        return f"; write {parse_duration(given).total_seconds():g}, in seconds"
    except (ValueError, OverflowError):
        return ""


def _suggestion(name: object, types: list[Any]) -> str:
    """Name the field that was meant, if one looks like it."""
    return did_you_mean(
        name, (str(field.alias) for type_ in types if _is_model(type_) for field in type_.model_fields.values())
    )


def _kinds(types: list[Any]) -> str:
    return ", ".join(kind_of(type_) for type_ in types if _is_model(type_))


def _kind_given(given: object) -> object:
    return given.get("kind") if isinstance(given, Mapping) else given
