"""Tests of many small cases, each test run as one.

`pytest.mark.parametrize` makes a test of each case, which costs several milliseconds of CPU before a line of it runs:
each worker collects it, and it has fixtures and three reports of its own. Where a case is a look into a table or a
page, that is most of what `make test` takes.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Test = Callable[..., None]


def run_for_each(
    names: str | Sequence[str], cases: Iterable[Any], ids: Callable[[Any], object] | Iterable[object] | None = None
) -> Callable[[Test], Test]:
    """Return a decorator that runs a test once for all cases, to the last one, and tells each that fails.

    It takes what `pytest.mark.parametrize` takes, without marks of a case. Fixtures are made once for all cases.

    Args:
        names: The test's arguments that a case sets, as a sequence or parted by commas.
        cases: A value each, or a tuple for more arguments than one.
        ids: The name of each case, or what makes one of a value; without it the values are the name.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    single = isinstance(names, str) and len(arguments) == 1
    rows = [(case,) if single else tuple(case) for case in cases]
    assert rows, "no case, nothing tested"
    assert all(len(row) == len(arguments) for row in rows)

    given = list(ids) if isinstance(ids, Iterable) else None

    def name_of(number: int) -> str:
        if given is not None:
            return str(given[number])
        return ", ".join(str(ids(value)) if callable(ids) else f"{value!r:.200}" for value in rows[number])

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run_all(**fixtures: Any) -> None:
            failed: list[Exception] = []
            for number, row in enumerate(rows):
                try:
                    test(**dict(zip(arguments, row, strict=True)), **fixtures)
                except Exception as problem:  # noqa: BLE001  # raised below, when all have run
                    problem.add_note(f"case {number}: {name_of(number)}")
                    failed.append(problem)
            if len(failed) == 1:
                raise failed[0]
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(rows)} cases", failed)

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        vars(run_all)["__signature__"] = signature.replace(parameters=left)
        return run_all

    return decorate
