"""What a plan may take over from the one before, because nothing that it follows from has changed.

From one plan to the next hardly a node, a constraint or a kind of pod changes: numbers of pods do. So what follows from
the former only is worked out once and kept with its inputs: the arguments of a function of a module, all of them. What
such a function and its arguments may be is in `pure_calls`: nothing else that can change goes in, so that a plan is the
same with a cache or without. There is one value a function, and parts (policies, zones) that a plan has not asked for
go: what is kept is never more than one plan makes.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from slack.planner.model.pure_calls import check_function, check_value, same_value

P = ParamSpec("P")
T = TypeVar("T")


class PlanCache:
    """The latest value of each function with its inputs. Not thread-safe: it belongs to who plans.

    Usage:
        cache = PlanCache()
        plan(snapshot, policies, now=now, cache=cache)
        plan(later, policies, now=soon, cache=cache)
    """

    def __init__(self) -> None:
        self._values: dict[Callable[..., Any], tuple[tuple[object, ...], object]] = {}
        self._parts: dict[str, PlanCache] = {}
        self._asked: set[str] = set()

    def compute(self, make: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `make` returns for these arguments: the earlier value where all of them are equal.

        Where they are not and the value is, that is the earlier one, too: what was made of it is found again at once.

        Args:
            make: a function of a module that reads its arguments and constants only.
            args: values that cannot change; nobody writes to their arrays.
            kwargs: the same.

        Raises:
            TypeError: for a function that could read something beside its arguments, and for a value that can change.
        """
        check_function(make)
        inputs = (args, tuple(sorted(kwargs.items())))
        before = self._values.get(make)
        if before is not None and same_value(before[0], inputs):
            return cast("T", before[1])  # made by the same function
        check_value(inputs)
        value = make(*args, **kwargs)
        check_value(value)
        if before is not None and same_value(before[1], value):
            value = cast("T", before[1])  # equal, and so of the same type
        self._values[make] = (inputs, value)
        return value

    def part(self, name: str) -> "PlanCache":
        """Return the cache of one part of the plan, a policy or a zone."""
        self._asked.add(name)
        return self._parts.setdefault(name, PlanCache())

    def end(self) -> None:
        """End a plan: forget the parts that it has not asked for."""
        self._parts = {name: part for name, part in self._parts.items() if name in self._asked}
        for part in self._parts.values():
            part.end()
        self._asked.clear()
