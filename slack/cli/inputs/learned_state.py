"""What operators have learnt for policies with an objective, so that a dry run says the size that they would keep.

In a live cluster it is read from the SlackHistories beside the placeholders; a snapshot has none, and then the plan is
that of the rate and says why.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from slack.cli.inputs.measured import PolicyMeasurement
from slack.cluster.labels import API_VERSION

if TYPE_CHECKING:
    from slack.kube.connection import Connection
    from slack.planner.objective.amount import Amount
    from slack.planner.policy.spec import Policy

Histories = Mapping[str, "dict[str, Any] | str"]
"""By policy: its SlackHistory, or why there is none to be read."""
NOT_IN_A_SNAPSHOT = "what the operator has learnt is not known: a snapshot has no SlackHistory, ask the cluster itself"


def read_histories(connection: "Connection", namespace: str, policies: Iterable[str]) -> Histories:
    """Read the SlackHistories of these policies.

    Raises:
        KubeError: there is no answer; one that refuses is told in place of the object.
    """
    from slack.cli.inputs.objects import item
    from slack.kube.errors import ApiError
    from slack.kube.paths import resource_path
    from slack.planner.policy.history import HISTORY_PLURAL

    found: dict[str, dict[str, Any] | str] = {}
    for policy in policies:
        where = f"SlackHistory {policy} of namespace {namespace}"
        try:
            history = item(connection, resource_path(API_VERSION, HISTORY_PLURAL, namespace=namespace, name=policy))
            found[policy] = history if history is not None else f"nothing is learnt yet, there is no {where}"
        except ApiError as error:
            found[policy] = f"what the operator has learnt is not known, {where} cannot be read: {error}"
    return found


def amounts(
    policies: "Iterable[Policy]",
    uids: Mapping[str, str],
    histories: Histories | None,
    statuses: Mapping[str, PolicyMeasurement],
    now: float,
) -> "dict[str, Amount]":
    """Return what the policies with an objective ask for; where that is not known the amount says so.

    Args:
        policies: all that are planned for.
        uids: of those that the cluster has.
        histories: what was read; None for a snapshot.
        statuses: of policies of the cluster; an operator has said there why it keeps this much.
        now: Unix seconds.
    """
    found = {}
    for policy in policies:
        if policy.spec.objective is None:
            continue
        history = (histories or {}).get(policy.name, NOT_IN_A_SNAPSHOT)
        status = statuses.get(policy.name)
        if isinstance(history, str) and status is not None and status.why is not None:
            history = f"{history}; it has said: {status.why}"
        found[policy.name] = _amount(policy, uids.get(policy.name, ""), history, now)
    return found


def _amount(policy: "Policy", uid: str, history: "dict[str, Any] | str", now: float) -> "Amount":
    from slack.planner.objective.amount import Amount, SizingReason
    from slack.planner.objective.codec import InvalidState
    from slack.planner.objective.history_object import learner_of

    objective = policy.spec.objective
    assert objective is not None
    if isinstance(history, str):
        lacking = history
    else:
        owners = history["metadata"].get("ownerReferences") or ()
        if owners and uid not in [owner.get("uid") for owner in owners]:
            lacking = f"nothing is learnt yet, SlackHistory {policy.name} is not of this policy"
        else:
            try:
                return learner_of(history).amount(now, objective, policy.spec.stabilization.keep_seconds)
            except InvalidState as error:
                lacking = f"what was learnt is lost, learnt.state of SlackHistory {policy.name} {error}"
    return Amount(0, 0, SizingReason(objective=objective.instant_start, known=False, lacking=lacking))
