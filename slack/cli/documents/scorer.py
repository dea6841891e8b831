"""What `scorer score` prints."""

from typing import Literal

import msgspec

from slack.cli.documents.record import Amounts, ApiVersion, Record


class ScoreTerms(Record):
    """One algorithm's score, 0 to 100, and every figure on the way to it; null for what is not known."""

    name: str
    score: int
    terms: dict[str, float | None]


class NodeScore(Record):
    """One node. `terms` are figures that all algorithms share."""

    node: str
    score: int
    state: Literal["Measured", "New", "NoMetrics", "NoCpu", "Stale", "Future"]
    algorithms: list[ScoreTerms]
    terms: dict[str, float | None]


class NodeScores(Record):
    """`scorer score`: nodes with their scores, the best first."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["NodeScores"]
    pod: str
    requests: Amounts
    predicted: Amounts
    placeholder: bool
    at: str
    rule: Literal["Measured", "TooFewMeasured", "SpreadOnAllocations", "BestFitOnAllocations", "NoLoad", "Placeholder"]
    highest_score: int
    best: str | None
    unmatched: list[str]
    items: list[NodeScore]


class DecisionAgain(Record):
    """A recorded decision, made again."""

    pod: str
    at: str
    nodes: int
    rule: str
    best: str | None
    best_score: int | None
    recorded_rule: str
    recorded_best: str | None
    recorded_best_score: int | None
    changed_nodes: int


class DecisionList(Record):
    """`scorer score --lines`."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["DecisionList"]
    decisions: int
    other_best: int
    other_scores: int
    items: list[DecisionAgain]
