"""Which limit binds: a floor; of the ceilings the one that keeps placeholders from growing, not those that it drags.

A placeholder has cpu and memory: where the ceiling on cpu stops the number, memory is short too, and nothing limits it.
"""

from collections.abc import Mapping, Sequence

from slack.cluster.snapshot import BoolArray, IntArray
from slack.planner.domain.capacity import Size
from slack.planner.model.result import Binding
from slack.planner.model.wanted_by import Source, WantedByField


def bindings(
    resources: Sequence[str],
    asked: IntArray,
    over: BoolArray,
    ceiling: Mapping[str, int],
    planned: IntArray,
    each: Sequence[IntArray],
    *,
    capped: bool,
) -> tuple[Binding, ...]:
    """Return the ceilings that bind, in the order of the resources.

    Args:
        resources: names of the R resources.
        asked: [R] what would be wanted without a ceiling.
        over: [R] whether more is asked than a ceiling allows, in any zone more than its part of it.
        ceiling: by resource, as the policy has it; nothing where there is none.
        planned: [R] what all placeholders request.
        each: [R] requests of one placeholder, of every size.
        capped: whether a ceiling cut placeholders off; then one binds although no more is asked than it allows.
    """
    found = [
        Binding(name, ceiling[name], int(asked[r]), in_parts=bool(asked[r] <= ceiling[name]))
        for r, name in enumerate(resources)
        if over[r]
    ]
    if found or not capped:
        return tuple(found)
    more = [min((int(vector[r]) for vector in each if vector[r]), default=0) for r in range(len(resources))]
    return tuple(
        Binding(name, ceiling[name], int(planned[r]) + more[r])
        for r, name in enumerate(resources)
        if name in ceiling and planned[r] + more[r] > ceiling[name]
    )


def binding_floors(
    resources: Sequence[str], wanted_by: Sequence[WantedByField], parts: Sequence[Size]
) -> tuple[Binding, ...]:
    """Return the floors that bind, in the order of the resources.

    Args:
        resources: names of the R resources.
        wanted_by: what sets the amounts.
        parts: what each domain of a policy asks for. A number of replicas is no amount: then nothing is said of floors.
    """
    floor = {name: least for field in wanted_by if field.source is Source.FLOOR for name, least in field.floor}
    if not floor or any(part.replicas is not None for part in parts):
        return ()
    found = []
    for r, name in enumerate(resources):
        if name in floor and any(part.floor[r] > part.share[r] for part in parts):
            wanted = sum(int(part.share[r]) for part in parts)
            found.append(Binding(name, floor[name], wanted, in_parts=wanted >= floor[name], limit="floor"))
    return tuple(found)
