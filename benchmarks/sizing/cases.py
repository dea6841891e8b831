"""The cases: the examples made longer, the scenarios beside them, and recordings where they are.

Nothing is measured in the first two days (of two weeks: in the first one), in which an objective learns. The operator
looks every minute, not every ten seconds, and at once when requests have changed by a tenth: a saving, the same for all
kinds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from slack.cluster.hold import Hold
from slack.simulator.runs.baselines import with_known_prices
from slack.simulator.scenario.scenario import Scenario, parse_scenario
from slack.simulator.traces.parquet import read_trace
from slack.simulator.traces.replay import WARM_UP, scenario_of

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "scenarios"
SCENARIOS = ROOT / "benchmarks" / "scenarios"
LEARNING = timedelta(hours=48)
_DAY = timedelta(hours=24)
_SETTLED = "30m"
"""The first nodes have settled by then."""
_LOOKS = timedelta(seconds=60)
_OPERATOR = {"interval": "60s", "relevantChange": 0.1}


@dataclass(frozen=True, slots=True)
class Case:
    """One load."""

    name: str
    has_pattern: bool
    """Whether the past of this load tells of its future: the clock or the week."""
    file: Path
    """A scenario, or a recording."""
    is_longer: bool = False
    """Whether it is an example, which is made to last three days."""


def _cases(folder: Path, *, patterned: str, chance: str, longer: bool) -> Iterator[Case]:
    for names, has_pattern in ((patterned, True), (chance, False)):
        yield from (Case(name, has_pattern, folder / f"{name}.yaml", longer) for name in names.split())


CASES = (
    *_cases(EXAMPLES, patterned="burst jobwaves webshop", chance="largebursts", longer=True),
    *_cases(SCENARIOS, patterned="weeks deploys cronjobs ci", chance="poisson doubling", longer=False),
)
QUICK = ("burst", "cronjobs", "deploys", "poisson")


def recordings(folder: Path) -> tuple[Case, ...]:
    """Return the recordings in a folder; nobody says of one that it has a pattern."""
    return tuple(Case(path.stem, False, path) for path in sorted(folder.glob("*.parquet")))


def load(case: Case, hold: Hold = Hold.AUTO, *, from_start: bool = False) -> Scenario:
    """Return the scenario of a case, with prices.

    Args:
        case: of which.
        hold: the operator's placeholders have the form that it comes to.
        from_start: measure the days in which an objective learns as well, from when the nodes have settled.
    """
    if case.file.suffix == ".parquet":
        trace = read_trace(case.file.read_bytes(), source=case.name)
        scenario = scenario_of(trace, source=case.name, warm_up=WARM_UP if from_start else _DAY).scenario
        # the first two of its days are for learning, as of the other cases
        learning = min(LEARNING, (scenario.duration - scenario.warm_up) / 2)
        early = scenario.warm_up if from_start else learning + scenario.warm_up
        operator = scenario.operator.model_copy(update={"interval": _LOOKS, "relevant_change": 0.1, "hold": hold})
        return with_known_prices(
            scenario.model_copy(update={"name": case.name, "warm_up": early, "operator": operator})
        )[0]
    document = yaml.safe_load(case.file.read_text(encoding="utf-8"))
    if case.is_longer:
        document = longer(document)
    if from_start:
        document = {**document, "warmUp": _SETTLED}
    return with_known_prices(
        parse_scenario({**document, "operator": {**_OPERATOR, "hold": str(hold)}}, source=case.name)
    )[0]


def longer(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an example with three days: its bursts come again after each time that it lasts, its curves each day."""
    lasts = _seconds(document["duration"])
    end = (LEARNING + _DAY).total_seconds()
    workloads = [
        {**workload, "arrivals": _repeated(workload["arrivals"], lasts, end)} for workload in document["workloads"]
    ]
    return {**document, "duration": "72h", "warmUp": "48h", "workloads": workloads}


def _repeated(arrivals: Mapping[str, Any], lasts: float, end: float) -> dict[str, Any]:
    changed = dict(arrivals)
    if "at" in changed:
        first = [_seconds(at) for at in changed["at"]]
        changed["at"] = [f"{at + turn * lasts:.0f}s" for turn in range(int(end // lasts)) for at in first]
    curve = changed.get("hpa", {}).get("load", {})
    if curve.get("kind") == "points":
        day = _DAY.total_seconds()
        within = [(at, load) for at, load in curve["points"] if at < day]
        points = [[at + turn * day, load] for turn in range(int(end // day)) for at, load in within]
        changed["hpa"] = {**changed["hpa"], "load": {**curve, "points": points}}
    return changed


def _seconds(text: str) -> float:
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    return sum(_amounts(text, units))


def _amounts(text: str, units: Mapping[str, float]) -> Iterator[float]:
    digits = ""
    for letter in text:
        if letter in units:
            yield float(digits) * units[letter]
            digits = ""
        else:
            digits += letter
