"""`explain` for the page: the same answer as the command's, made of the turn that the page shows."""

import re
from types import MappingProxyType

import msgspec

from slack.planner.explain import NotFoundError, explain, target
from slack.planner.explain_text import lines
from slack.planner.outcome import Plan
from slack_operator.turn import Turn

_NAME = re.compile(r"[A-Za-z0-9]([-.A-Za-z0-9]{0,251}[A-Za-z0-9])?")
_KIND = re.compile(r"[A-Za-z][-.A-Za-z0-9]{0,62}")


class BadQuestion(ValueError):
    """Names the field and what would be right."""


class Answer(msgspec.Struct, frozen=True):
    """What the page shows."""

    found: bool
    ready: bool
    text: str


def question(namespace: str, workload: str) -> tuple[str, str, str]:
    """Return kind, name and namespace; a name without a kind is a pod's, as for kubectl.

    Raises:
        BadQuestion: when one of them cannot be a name.
    """
    namespace, workload = namespace.strip(), workload.strip()
    kind, slash, name = workload.partition("/")
    if not slash:
        kind, name = "pod", workload
    if not _NAME.fullmatch(namespace):
        raise BadQuestion("namespace: write the name of a namespace, such as default")
    if not _NAME.fullmatch(name) or not _KIND.fullmatch(kind):
        raise BadQuestion("workload: write KIND/NAME, such as deploy/api")
    return kind, name, namespace


def answer(turn: Turn, kind: str, name: str, namespace: str) -> Answer:
    """Explain one workload by the plan of a turn."""
    if turn.look is None or not turn.leading:
        return Answer(found=False, ready=False, text="there is no plan here: ask the leader")
    classes = turn.look.priority_classes
    try:
        found = explain(
            turn.look.snapshot,
            Plan(turn.items, MappingProxyType({})),
            [subject.policy for subject in turn.subjects],
            target(kind, name, namespace),
            priorities={name: one.value for name, one in classes.items()},
        )
    except NotFoundError as error:
        return Answer(found=False, ready=False, text=str(error))
    return Answer(found=True, ready=found.ready, text="\n".join(lines(found)))
