"""Runs of one load, made once each: what one seed of one slack came to is kept in a file, and read there again."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from slack.simulator.model.result import Result
from slack.simulator.runs.baselines import variant
from slack.simulator.runs.engine import simulate
from slack.simulator.runs.savings import OutOfReach, with_fewer_looks
from slack.simulator.scenario.scenario import Scenario
from slack.simulator.scenario.slack_kinds import Slack


@dataclass(frozen=True, slots=True)
class Point:
    """One size of one kind: a run, or means over the seeds."""

    word: str
    kind: str
    share: float
    """Of pods that start at once."""
    cost: float
    created: float
    displaced: float
    drained: float
    grown: float
    other: float


_FIGURES = ("share", "cost", "created", "displaced", "drained", "grown", "other")


class Kept:
    """Lines of a file, each the figures of one run; without a file nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def of(self, case: str) -> dict[tuple[str, int], Point]:
        """Return what is known of a load, by word and seed; a line that an interruption has cut is none."""
        found: dict[tuple[str, int], Point] = {}
        if self._path is None or not self._path.exists():
            return found
        for line in self._path.read_text(encoding="utf-8").splitlines():
            row = _read(line)
            if row is not None and row["case"] == case:
                found[row["word"], row["seed"]] = Point(**{name: row[name] for name in ("word", "kind", *_FIGURES)})
        return found

    def add(self, case: str, seed: int, point: Point) -> None:
        """Keep a run; a line is one write, so processes may share the file."""
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"case": case, "seed": seed, **asdict(point)}) + "\n")


def _read(line: str) -> Mapping[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


@dataclass
class Runs:
    """Makes runs of one scenario and remembers them by what they were asked for."""

    scenario: Scenario
    seeds: Sequence[int]
    tell: Callable[[str], None]
    kept: Kept
    case: str = ""
    fewer_looks: bool = False
    """Whether the operator looks a thousand times a run where it has no objective: a saving, as in a tuning."""
    made: dict[str, Point] = field(default_factory=dict)
    """By word, what all seeds came to."""

    def __post_init__(self) -> None:
        self._known = self.kept.of(self.case)

    def __call__(self, kind: str, word: str, slack: Slack | None = None) -> Point:
        """Return what a slack comes to with all seeds; without one, that of a comparison's word."""
        if word not in self.made:
            self.made[word] = _mean([self._one(kind, word, slack, seed, None) for seed in self.seeds])
        return self.made[word]

    def first(self, kind: str, word: str, slack: Slack | None = None, *, goal: float | None = None) -> float:
        """Return the share of the first seed; 0 where the run was given up, as it cannot reach the goal."""
        try:
            return self._one(kind, word, slack, self.seeds[0], goal).share
        except OutOfReach:
            return 0.0

    def _one(self, kind: str, word: str, slack: Slack | None, seed: int, goal: float | None) -> Point:
        if (word, seed) not in self._known:
            changed = {"slack": slack or variant(word, self.scenario).scenario.slack, "seed": seed}
            scenario = self.scenario.model_copy(update=changed)
            point = _point(
                kind, word, simulate(with_fewer_looks(scenario) if self.fewer_looks else scenario, goal=goal)
            )
            self._known[word, seed] = point
            self.kept.add(self.case, seed, point)
            self.tell(f"{word}, seed {seed}: {point.share:.4f} at once, cost {point.cost:.2f}")
        return self._known[word, seed]


def _mean(points: Iterable[Point]) -> Point:
    ran = list(points)
    return Point(ran[0].word, ran[0].kind, *(fmean(getattr(point, name) for point in ran) for name in _FIGURES))


def _point(kind: str, word: str, result: Result) -> Point:
    return Point(
        word,
        kind,
        result.instant_start_ratio,
        result.cost,
        result.placeholders_created,
        result.placeholders_displaced,
        result.placeholders_drained,
        result.placeholders_grown,
        result.placeholders_other,
    )
