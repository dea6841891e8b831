"""The runs of a comparison: every variant with every seed; `static=auto` once what it costs as much as is known."""

from typing import TYPE_CHECKING, NamedTuple

from slack.cli.simulation.runs import RequestedRun, Runs
from slack.cli.terminal.problems import UserError

if TYPE_CHECKING:
    from slack.simulator.runs.baselines import Sized, Variant
    from slack.simulator.runs.repeated import Repeated
    from slack.simulator.scenario.scenario import Scenario
    from slack.simulator.scenario.slack_kinds import Slack


class ComparedVariant(NamedTuple):
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
    from slack.simulator.runs.baselines import InvalidVariant, Variant, variants

    if words is None:
        return (Variant("own", scenario),)
    try:
        return variants(words, scenario)
    except InvalidVariant as error:
        raise UserError(f"--compare: {error}") from None


def compare_variants(
    scenario: "Scenario", wanted: "tuple[Variant, ...]", seeds: range, processes: int
) -> list[ComparedVariant]:
    """Make the runs of all variants; those of equal cost come last, they need to know what the operator costs."""
    from slack.simulator.runs.baselines import default_reference, reference_of, slack_word

    found: dict[int, ComparedVariant] = {}
    with Runs(scenario, processes) as runs:

        def made(label: str, slack: "Slack") -> "Repeated":
            from slack.simulator.runs.repeated import Repeated

            return Repeated(tuple(runs(label, [RequestedRun(slack, seed) for seed in seeds])))

        for row, variant in enumerate(wanted):
            if not variant.equal_cost:
                found[row] = ComparedVariant(variant.label, variant.word, made(variant.label, variant.scenario.slack))
        apart: Repeated | None = None
        for row, variant in enumerate(wanted):
            if not variant.equal_cost:
                continue
            by = reference_of(row, wanted)
            if by is not None:
                name, reference = found[by].word, found[by].found
            else:
                other = default_reference(scenario)
                apart = apart or made(f"{other.label}, for {variant.word}", other.scenario.slack)
                name, reference = slack_word(other.scenario), apart
            label, equal = _equal_cost(variant.scenario, reference.cost.mean, made)
            found[row] = ComparedVariant(f"{label} (cost of {name})", variant.word, equal)
    return [found[row] for row in range(len(wanted))]


def _equal_cost(scenario: "Scenario", cost: float, made: "Made") -> "tuple[str, Repeated]":
    from slack.simulator.runs.baselines import equal_cost, slack_word

    tried: dict[str, Repeated] = {}

    def word(slack: "Sized") -> str:
        return slack_word(scenario.model_copy(update={"slack": slack}))

    def cost_of(slack: "Sized") -> float:
        tried[word(slack)] = made(word(slack), slack)
        return tried[word(slack)].cost.mean

    nearest = word(equal_cost(scenario, cost, cost_of))
    return nearest, tried[nearest]


if TYPE_CHECKING:
    from collections.abc import Callable

    Made = Callable[[str, Slack], Repeated]
