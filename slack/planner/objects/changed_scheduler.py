"""Unbound placeholders whose schedulerName is not what was planned, in words: who has changed it, or refuses it.

Such a placeholder is bound by a scheduler, or counts for no autoscaler. Admission plugins of batch schedulers write
their own name into each pod; managed platforms refuse names that they do not know.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from slack.cluster.identity import owner_name
from slack.cluster.labels import ANNOTATION_SPEC, FIELD_MANAGER, LABEL_POLICY
from slack.cluster.wire import OwnReplicaSet
from slack.planner.model.shape import Shape
from slack.planner.objects.actions import Present
from slack.planner.objects.adoption import replicas_of
from slack.planner.objects.drift import OwnedField, holder_of

_LONGEST = 63
_KNOWN = {"yunikorn": "YuniKorn", "volcano": "Volcano", "koord-scheduler": "Koordinator"}
"""Schedulers with an admission webhook that writes their name."""
_WORDS = ("schedulername", "scheduler name", "scheduler_name")


def changed_schedulers(present: Present) -> dict[str, str]:
    """Return by policy how its unbound placeholders got another scheduler; a policy without such ones is left out."""
    planned: dict[str, str] = {}
    found: dict[str, str] = {}
    for name, replica_set in sorted(present.sets.items()):
        scheduler = _planned(replica_set.metadata.annotation(ANNOTATION_SPEC))
        if not scheduler or replica_set.metadata.deletion_timestamp is not None:
            continue
        planned[name] = scheduler
        policy = replica_set.metadata.label(LABEL_POLICY)
        if policy not in found and (text := _template(replica_set, scheduler)):
            found[policy] = text
    if not planned:
        return found
    names = frozenset(planned.values())
    for name, pod in present.pods.items():
        spec = pod.spec
        if spec is None or (spec.scheduler_name in names and not spec.node_name):
            continue  # nearly all of them, at every plan
        owner = owner_name(pod)
        scheduler = planned.get(owner, "")
        if not scheduler or pod.metadata.deletion_timestamp is not None:
            continue
        policy = present.sets[owner].metadata.label(LABEL_POLICY)
        if policy in found:
            continue
        actual = spec.scheduler_name or "default-scheduler"
        if actual != scheduler:
            found[policy] = f"pod {name} has the schedulerName {_cut(actual)}, planned {scheduler}: {_writer(actual)}"
        elif spec.node_name:
            found[policy] = f"pod {name} was bound to a node: some scheduler has the name {scheduler}"
    return found


def names_scheduler(message: str, scheduler: str) -> bool:
    """Say whether a refusal is about a schedulerName."""
    low = message.lower()
    return bool(scheduler) and (scheduler.lower() in low or any(word in low for word in _WORDS))


def refused_schedulers(present: Present, refusals: Mapping[str, str]) -> dict[str, str]:
    """Return by policy what admission says against the schedulerName of its unbound placeholders.

    Args:
        present: what is there.
        refusals: by ReplicaSet what was answered to its last pod.
    """
    found: dict[str, str] = {}
    there = Counter(owner_name(pod) for pod in present.pods.values()) if refusals else Counter[str]()
    for name, message in sorted(refusals.items()):
        replica_set = present.sets.get(name)
        if replica_set is None or there[name] >= replicas_of(replica_set):
            continue
        scheduler = _planned(replica_set.metadata.annotation(ANNOTATION_SPEC))
        if names_scheduler(message, scheduler):
            found.setdefault(replica_set.metadata.label(LABEL_POLICY), f"pods of {name} are refused: {message}")
    return found


def refused_template(problems: Sequence[str], scheduler: str) -> str | None:
    """Return the refusal of a ReplicaSet for its schedulerName among the refusals of a policy's last writes."""
    return next((problem for problem in problems if names_scheduler(problem, scheduler)), None)


@lru_cache(maxsize=1024)
def _planned(annotation: str) -> str:
    """Return the schedulerName of unbound placeholders; '' for bound ones and for what cannot be read."""
    try:
        return Shape.from_json(annotation).unbound_scheduler
    except (msgspec.DecodeError, ValueError):
        return ""


def _template(replica_set: OwnReplicaSet, planned: str) -> str | None:
    actual = _template_scheduler(bytes(replica_set.spec_json))
    if actual in (planned, None):
        return None
    holder = holder_of(replica_set, OwnedField.TEMPLATE, FIELD_MANAGER)
    by = f"written by {holder}" if holder else _writer(actual or "")
    name = replica_set.metadata.name
    return f"the template of {name} has the schedulerName {_cut(actual or '')}, planned {planned}: {by}"


@lru_cache(maxsize=256)
def _template_scheduler(raw: bytes) -> str | None:
    try:
        return _SPEC.decode(raw).template.spec.scheduler_name or "default-scheduler"
    except msgspec.DecodeError:
        return None


class _TemplateSpec(msgspec.Struct, rename="camel"):
    scheduler_name: str | None = None


class _Template(msgspec.Struct):
    spec: _TemplateSpec


class _Spec(msgspec.Struct):
    template: _Template


_SPEC = msgspec.json.Decoder(_Spec)


def _writer(scheduler: str) -> str:
    known = _KNOWN.get(scheduler)
    return f"as the admission webhook of {known} writes it" if known else "an admission webhook or policy writes it"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
