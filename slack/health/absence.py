"""What is known of a policy that no operator looks after: what its pods say, and since when nothing else."""

from dataclasses import replace

from slack.health.ages import age_text
from slack.health.answer import PolicyHealth
from slack.health.observation import Json
from slack.health.reasons import OPERATOR_ABSENT, advice_on
from slack.health.states import State
from slack.process.reasons import Level


def not_known(health: PolicyHealth, policy: Json, lease: Json | None, now: float, namespace: str) -> PolicyHealth:
    """Of a policy that nobody looks after only its pods are known; what its status says is what was said last."""
    since = _last_sign(policy, lease)
    words = "no operator keeps its status up"
    if since is not None:
        words = f"not known since {since} ({age_text(since, now) or 'no time'})"
    elif health.looked_at:
        words = "not known since the operator has gone"
    absent = State(OPERATOR_ABSENT, Level.TROUBLE, words, advice_on(OPERATOR_ABSENT, namespace))
    return replace(
        health,
        ready=None,
        satisfied=None,
        headline=words if health.looked_at else health.headline,
        findings=tuple(
            replace(finding, text=f"said last: {finding.text}", level=Level.NOTE) for finding in health.findings
        ),
        nodes_of_shape={},
        state=absent,
        said_last=health.headline if health.looked_at else None,
        unknown_since=since,
    )


def _last_sign(policy: Json, lease: Json | None) -> str | None:
    """When a leader was last there: its last renewal of the lease, else its last write of the status. RFC 3339."""
    renewed = ((lease or {}).get("spec") or {}).get("renewTime")
    if renewed:
        return f"{str(renewed).partition('.')[0].removesuffix('Z')}Z"
    managed = policy["metadata"].get("managedFields") or ()
    return max((str(m["time"]) for m in managed if m.get("subresource") == "status" and m.get("time")), default=None)
