"""Calls that give the same value again: functions that read their arguments only, arguments that cannot change.

What is checked of a function is what it reads by itself, not what the functions that it calls read. An array counts as
a value that cannot change: numpy would let it, and here nobody writes to an array once another function has it.
"""

import dis
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from functools import cache
from operator import is_
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from pydantic import BaseModel

_ATOMS = (str, bytes, int, float, NoneType, datetime, timedelta, np.generic)
_CODE = (type, FunctionType, BuiltinFunctionType, ModuleType, np.ufunc)


@cache
def check_function(make: Any) -> None:
    """Check that a function reads nothing but its arguments and constants of its module.

    Raises:
        TypeError: for a partial, a method, a lambda, a function in a function, and one that reads a variable.
    """
    if not isinstance(make, FunctionType) or make.__closure__ is not None or make.__qualname__ != make.__name__:
        raise TypeError(f"{make!r} reads more than its arguments: it is no function of a module")
    if make.__name__ == "<lambda>":
        raise TypeError(f"{make!r} has no name of its own")
    check_value((*(make.__defaults__ or ()), *(make.__kwdefaults__ or {}).values()))
    for name, is_read in _globals_of(make.__code__):
        value = make.__globals__.get(name)  # None for builtins
        if is_read and (value is None or isinstance(value, _CODE) or get_origin(value) is not None):
            continue
        if not is_read or not name.isupper():
            raise TypeError(f"{make!r} reads more than its arguments: {name} is no constant")
        check_value(value)


def check_value(value: Any) -> None:
    """Check that a value cannot change, by its type; one of a dataclass by the types of its fields.

    Raises:
        TypeError: when it can.
    """
    if not isinstance(value, tuple | frozenset):
        kind: Any = type(value)
        _compared(kind)
        return
    kinds: set[Any] = set(map(type, value))
    for kind in kinds:
        if not issubclass(kind, tuple | frozenset):
            _compared(kind)
        elif isinstance(value, frozenset):
            raise TypeError("a set of collections cannot be compared with the types of what is in them")
        else:
            for inner in value:
                check_value(inner)


def same_value(first: Any, second: Any) -> bool:
    """Tell whether two values are the same in all that a function could see of them: types and order included."""
    if first is second:
        return True
    if type(first) is not type(second):
        return False
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return first.shape == second.shape and first.dtype == second.dtype and bool((first == second).all())
    if isinstance(first, tuple) and isinstance(second, tuple):
        return len(first) == len(second) and _same_tuples(first, second)
    if isinstance(first, frozenset) and isinstance(second, frozenset):
        return {(type(item), item) for item in first} == {(type(item), item) for item in second}
    if isinstance(first, dict) and isinstance(second, dict):  # of a frozen model, its own
        return len(first) == len(second) and _same_tuples(tuple(first.items()), tuple(second.items()))
    if isinstance(first, _ATOMS):
        return bool(first == second)
    kind: Any = type(first)
    for name in _compared(kind):
        left, right = getattr(first, name), getattr(second, name)
        if left is not right and not same_value(left, right):
            return False
    return True


def _same_tuples(first: tuple[object, ...], second: tuple[object, ...]) -> bool:
    same = list(map(is_, first, second))
    if all(same):
        return True
    at = same.index(False)
    if not same_value(first[at], second[at]):  # nearly always, and then nothing else has to be looked at
        return False
    kinds = set(map(type, first))
    if len(kinds) == 1 and issubclass(next(iter(kinds)), _ATOMS):
        return first == second and kinds == set(map(type, second))
    # The same object is the rule: it is seen here, for a call takes many times as long.
    return all(a is b or same_value(a, b) for a, b in zip(first, second, strict=True))


@cache
def _compared(kind: type) -> tuple[str, ...]:
    """Return the names of the fields by which values of a type are compared: none of an atom or an array.

    Raises:
        TypeError: for a type whose values can change.
    """
    if issubclass(kind, (*_ATOMS, np.ndarray)):
        return ()
    if issubclass(kind, BaseModel) and kind.model_config.get("frozen"):
        return tuple(kind.model_fields)
    if not is_dataclass(kind) or not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]  # not in typeshed
        raise TypeError(f"a value of {kind.__qualname__} can change: no frozen dataclass, tuple, array, text or number")
    hints = get_type_hints(kind)
    names = tuple(field.name for field in fields(kind) if field.compare)
    for name in names:
        _check_hint(hints[name])
    return names


def _check_hint(hint: Any) -> None:
    origin = get_origin(hint)
    if origin in (Union, UnionType, tuple, frozenset):
        for inner in get_args(hint):
            _check_hint(inner)
    elif origin is not Literal and hint is not Ellipsis:
        _compared(origin or hint)


def _globals_of(code: CodeType) -> Iterator[tuple[str, bool]]:
    """Yield the module's variables that a function's code, or a function inside it, reads (True) or sets (False)."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"):
            yield str(instruction.argval), instruction.opname == "LOAD_GLOBAL"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_of(constant)
