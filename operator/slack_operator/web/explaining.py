"""`explain` for the page: the same answer as the command's, made of the reconciliation that the page shows."""

import re
from collections.abc import Callable, Sequence
from types import MappingProxyType

import msgspec

from slack.cluster.wire import ResourceQuota
from slack.errors import InvalidInput
from slack.planner.explain import NotFoundError, explain, target
from slack.planner.explain_text import lines
from slack.planner.model.result import Plan
from slack.planner.objects.priority_classes import PriorityClasses
from slack_operator.placeholders.reconciliation import Reconciliation
from slack_operator.placeholders.report.status import why_of

_NAME = re.compile(r"[A-Za-z0-9]([-.A-Za-z0-9]{0,251}[A-Za-z0-9])?")
_KIND = re.compile(r"[A-Za-z][-.A-Za-z0-9]{0,62}")


QuotasOf = Callable[[str], Sequence[ResourceQuota] | None]
"""Gives the ResourceQuotas of a namespace, None where they are not read."""


class InvalidQuestion(InvalidInput):
    """Names the field and what would be right."""


class ExplanationAnswer(msgspec.Struct, frozen=True):
    """What the page shows."""

    found: bool
    ready: bool
    text: str


def question(namespace: str, workload: str) -> tuple[str, str, str]:
    """Return kind, name and namespace; a name without a kind is a pod's, as for kubectl.

    Raises:
        InvalidQuestion: when one of them cannot be a name.
    """
    namespace, workload = namespace.strip(), workload.strip()
    kind, slash, name = workload.partition("/")
    if not slash:
        kind, name = "pod", workload
    if not _NAME.fullmatch(namespace):
        raise InvalidQuestion("namespace: write the name of a namespace, such as default")
    if not _NAME.fullmatch(name) or not _KIND.fullmatch(kind):
        raise InvalidQuestion("workload: write KIND/NAME, such as deploy/api")
    return kind, name, namespace


def unread(_: str) -> None:
    """Say of each namespace that its quotas are not read."""


def answer(
    reconciliation: Reconciliation, kind: str, name: str, namespace: str, quotas_of: QuotasOf = unread
) -> ExplanationAnswer:
    """Explain one workload by the plan of a reconciliation.

    Args:
        reconciliation: that the page shows.
        kind: of the workload, as kubectl takes it.
        name: of the workload.
        namespace: of the workload.
        quotas_of: see `QuotasOf`.
    """
    if reconciliation.observation is None or not reconciliation.leading:
        return ExplanationAnswer(found=False, ready=False, text="there is no plan here: ask the leader")
    try:
        found = explain(
            reconciliation.observation.snapshot,
            Plan(reconciliation.items, MappingProxyType({})),
            [planned.policy for planned in reconciliation.planned_policies],
            target(kind, name, namespace),
            priorities=PriorityClasses(reconciliation.observation.priority_classes).values,
            quotas=quotas_of(namespace),
        )
    except NotFoundError as error:
        return ExplanationAnswer(found=False, ready=False, text=str(error))
    whys = {item.policy: why for item in reconciliation.items if (why := why_of(item)) is not None}
    return ExplanationAnswer(found=True, ready=found.ready, text="\n".join(lines(found, whys)))
