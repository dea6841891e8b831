"""What `status` prints for machines: the same for people's eyes and for `jq`."""

from typing import TYPE_CHECKING, Any

from slack.cluster.labels import API_VERSION

if TYPE_CHECKING:
    from slack.health.answer import Health, HealthFinding


def document(shown: "Health") -> dict[str, Any]:
    """Return the answer for machines: the same for people's eyes and for `jq`."""
    import msgspec

    return {
        "apiVersion": API_VERSION,
        "kind": "Status",
        "good": shown.good,
        "satisfied": shown.satisfied,
        "built_in": shown.built_in,
        "idle": shown.idle,
        "operator": {"runs": shown.operator_runs, "text": shown.operator},
        "not_seen": list(shown.unseen),
        "findings": [_finding_document(finding) for finding in (*shown.operator_findings, *shown.built_in_findings)],
        "policies": [
            {
                "name": policy.name,
                "good": policy.good,
                "ready": policy.ready,
                "satisfied": policy.satisfied,
                "not_known_since": policy.unknown_since,
                "text": policy.headline,
                "state": {
                    "name": policy.state.name,
                    "calm": policy.state.calm,
                    "words": policy.state.words,
                    "remedy": policy.state.remedy,
                },
                "limit": policy.status.limit,
                "bound": policy.bound,
                "pending": policy.pending,
                "nodes": {shape: dict(nodes) for shape, nodes in policy.nodes_of_shape.items()},
                "findings": [_finding_document(finding) for finding in policy.findings],
                "status": msgspec.to_builtins(policy.status),
            }
            for policy in shown.policies
        ],
    }


def _finding_document(finding: "HealthFinding") -> dict[str, Any]:
    return {
        "level": str(finding.level),
        "reason": finding.reason,
        "text": finding.text,
        "advice": finding.advice or "",
        "since": finding.since or "",
    }
