"""What sets what a policy wants of each resource: the largest of rate or objective, floor, number, and demand."""

from collections.abc import Sequence

from slack.planner.domain.capacity import RATED, Size
from slack.planner.domain.terms import Terms
from slack.planner.model.wanted_by import Source, WantedByField


def wanted_by(terms: Terms, resources: Sequence[str], parts: Sequence[Size]) -> tuple[WantedByField, ...]:
    """Return what sets the amounts that a policy wants; where it wants nothing, what that follows from.

    Args:
        terms: of the policy.
        resources: names of the R resources.
        parts: what each of its domains asks for; each may have another reason.
    """
    windows = dict(terms.floor_windows)
    of_rate = terms.rate_from, terms.rate_window
    if any(part.by_objective for part in parts):
        of_rate = Source.OBJECTIVE, None
    named: dict[tuple[Source, str | None], dict[str, None]] = {}
    for r, name in enumerate(resources):
        for part in parts:
            if not part.asked[r]:
                continue
            if _by_demand(part, r):
                key: tuple[Source, str | None] = Source.DEMAND, None
            elif terms.replicas is not None and part.asked[r] > part.floor[r]:
                key = Source.NODES if terms.whole_nodes else Source.REPLICAS, terms.replicas_window
            elif part.floor[r] > part.share[r]:
                key = Source.FLOOR, windows.get(name)
            else:
                key = of_rate
            named.setdefault(key, {})[name] = None
    base = {name: sum(int(part.base[r]) for part in parts) for r, name in enumerate(resources)}
    if not named:
        if terms.replicas is not None:
            of_rate = Source.NODES if terms.whole_nodes else Source.REPLICAS, terms.replicas_window
        named[of_rate] = {name: None for name in resources[:RATED] if base[name]}
    return tuple(_named(terms, key, tuple(names), base) for key, names in named.items() if names)


def _by_demand(part: Size, r: int) -> bool:
    """Tell whether what pools announce is more than all else that a domain asks for of a resource."""
    if len(part.demand) <= r:
        return False  # it was not planned for
    return bool(part.demand[r] == part.asked[r] and part.demand[r] > max(part.share[r], part.floor[r]))


def _named(terms: Terms, key: tuple[Source, str | None], names: tuple[str, ...], base: dict[str, int]) -> WantedByField:
    source, window = key
    is_rate = source in (Source.RATE, Source.LADDER)
    return WantedByField(
        source=source,
        resources=names,
        window=window,
        rate=terms.rate if is_rate else None,
        base=tuple((name, base[name]) for name in names) if is_rate else (),
        floor=tuple((name, least) for name, least in terms.floor if name in names) if source is Source.FLOOR else (),
        replicas=terms.replicas if source in (Source.REPLICAS, Source.NODES) else None,
        instant_start=terms.instant_start if source is Source.OBJECTIVE else None,
    )
