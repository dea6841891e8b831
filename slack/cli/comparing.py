"""The runs of a comparison: every variant with every seed, and `static=auto` once what it costs as much as is known."""

from typing import TYPE_CHECKING, NamedTuple

from slack.cli.problems import UserError
from slack.cli.runs import Runs, Wanted

if TYPE_CHECKING:
    from slack.simulator.baselines import Variant
    from slack.simulator.repeated import Repeated
    from slack.simulator.scenario import Scenario, Slack, Static


class Compared(NamedTuple):
    """One line of a comparison."""

    label: str
    """What people read; unambiguous."""
    word: str
    """As it was asked for."""
    found: "Repeated"


def asked_for(words: str | None, scenario: "Scenario") -> "tuple[Variant, ...]":
    """Read --compare; without it, the scenario's own slack.

    Raises:
        UserError: for a word that cannot be read.
    """
    from slack.simulator.baselines import BadVariant, Variant, variants

    if words is None:
        return (Variant("own", scenario),)
    try:
        return variants(words, scenario)
    except BadVariant as error:
        raise UserError(f"--compare: {error}") from None


def compared(scenario: "Scenario", wanted: "tuple[Variant, ...]", seeds: range, processes: int) -> list[Compared]:
    """Make the runs of all variants; those of equal cost come last, they need to know what the operator costs."""
    from slack.simulator.baselines import default_reference, described, reference_of

    found: dict[int, Compared] = {}
    with Runs(scenario, processes) as runs:

        def made(label: str, slack: "Slack") -> "Repeated":
            from slack.simulator.repeated import Repeated

            return Repeated(tuple(runs(label, [Wanted(slack, seed) for seed in seeds])))

        for row, one in enumerate(wanted):
            if not one.equal_cost:
                found[row] = Compared(one.label, one.word, made(one.label, one.scenario.slack))
        apart: Repeated | None = None
        for row, one in enumerate(wanted):
            if not one.equal_cost:
                continue
            by = reference_of(row, wanted)
            if by is not None:
                name, reference = found[by].word, found[by].found
            else:
                other = default_reference(scenario)
                apart = apart or made(f"{other.label}, for static=auto", other.scenario.slack)
                name, reference = described(other.scenario), apart
            label, equal = _equal_cost(one.scenario, reference.cost.mean, made)
            found[row] = Compared(f"{label} (cost of {name})", one.word, equal)
    return [found[row] for row in range(len(wanted))]


def _equal_cost(scenario: "Scenario", cost: float, made: "Made") -> "tuple[str, Repeated]":
    from slack.simulator.baselines import described, equal_cost_static

    tried: dict[str, Repeated] = {}

    def word(slack: "Static") -> str:
        return described(scenario.model_copy(update={"slack": slack}))

    def cost_of(slack: "Static") -> float:
        tried[word(slack)] = made(word(slack), slack)
        return tried[word(slack)].cost.mean

    nearest = word(equal_cost_static(scenario, cost, cost_of))
    return nearest, tried[nearest]


if TYPE_CHECKING:
    from collections.abc import Callable

    Made = Callable[[str, Slack], Repeated]
