"""Recorded decisions, made again."""

from typing import Any

from slack.cli.scorer.offline import config_of, rfc3339
from slack.cli.terminal.problems import UserError
from slack.cluster.labels import API_VERSION
from slack.scorer.configuration.arguments import ScorerConfig
from slack.scorer.model import best_first
from slack.scorer.record import InvalidRecord, Recorded, read_line
from slack.scorer.scoring import score
from slack_operator.scorer.settings import ScorerSettings


def scored_lines(data: bytes, source: str, settings: ScorerSettings) -> dict[str, Any]:
    """Return what becomes of each line, as a document.

    Raises:
        UserError: a line is no recorded decision; it names the line.
    """
    config = config_of(settings)
    items = []
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            items.append(_again(read_line(line), config))
        except (InvalidRecord, ValueError) as error:
            raise UserError(f"{source}, line {number}: {error}") from None
    return {
        "apiVersion": API_VERSION,
        "kind": "DecisionList",
        "decisions": len(items),
        "other_best": sum(item["best"] != item["recorded_best"] for item in items),
        "other_scores": sum(item["changed_nodes"] > 0 for item in items),
        "items": items,
    }


def _again(recorded: Recorded, config: ScorerConfig) -> dict[str, Any]:
    scores = score(recorded.basis(config.algorithms, config.rules), recorded.demand(config.prediction))
    names, best, before = recorded.nodes.names, scores.best, -1
    if len(names):
        before = int(best_first(recorded.total, scores.state)[0])
    return {
        "pod": f"{recorded.namespace}/{recorded.name}",
        "at": rfc3339(recorded.at),
        "nodes": len(names),
        "rule": str(scores.rule),
        "best": names[best] if best >= 0 else None,
        "best_score": int(scores.total[best]) if best >= 0 else None,
        "recorded_rule": recorded.rule,
        "recorded_best": names[before] if before >= 0 else None,
        "recorded_best_score": int(recorded.total[before]) if before >= 0 else None,
        "changed_nodes": int((scores.total != recorded.total).sum()),
    }
