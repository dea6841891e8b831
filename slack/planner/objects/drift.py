"""What others have changed on a ReplicaSet of ours: by part, by whom, and the patch that takes it away again.

Its template is compared as a whole, for a toleration that somebody adds changes what its pods do as much as one that
somebody takes away; only what the API server fills in by itself may be there beside what was applied. Of its labels,
annotations and owners only ours are looked at: people may add their own. Values only.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from slack.cluster.labels import ANNOTATION_APPLIED, FIELD_MANAGER, SUSPENDED_PRIORITY_CLASS
from slack.cluster.quantity import QuantityError, amount
from slack.cluster.requests import RequestError, effective_requests
from slack.cluster.wire import ABSENT, OwnReplicaSet, PodSpec
from slack.planner.objects.adoption import is_adopted

Json = Mapping[str, Any]

_FILLED_IN = frozenset(
    {
        "creationTimestamp",
        "dnsPolicy",
        "terminationMessagePath",
        "terminationMessagePolicy",
    }
)
"""Of a template, by the API server's defaults. Those of a newer one stay after a write, and are then left alone."""
_AMOUNTS = frozenset({"requests", "limits"})


class OwnedField(StrEnum):
    """What of an object of ours can be taken from us."""

    REPLICAS = "replicas"
    TEMPLATE = "template"
    METADATA = "metadata"
    """Our labels and annotations, and the reference to its owner."""
    OWNER = "owner"
    """Another controller's object has made itself the controlling owner."""
    OBJECT = "object"
    """It was deleted."""
    GLOBAL_DEFAULT = "globalDefault"
    """Of our PriorityClass: every pod without a class would be a placeholder's equal."""
    PODS = "pods"
    """Its placeholders were made from a changed template."""
    LOST = "lost"
    """Its placeholders lose their labels, or their owner, and it makes others."""
    COST = "cost"
    """The deletion costs of its placeholders."""
    PRIORITY = "priority"
    """Its placeholders were given a priority at which they are a burden to real pods."""


def changed_fields(wanted: Json, found: OwnReplicaSet) -> frozenset[OwnedField]:
    """Say what of a ReplicaSet is not as it should be; its count is not looked at.

    Args:
        wanted: its manifest.
        found: as the watch shows it.
    """
    parts = set()
    if _differs(wanted["spec"]["template"], found.template):
        parts.add(OwnedField.TEMPLATE)
    if _metadata_differs(wanted["metadata"], found):
        parts.add(OwnedField.METADATA)
    if is_adopted(found):
        parts.add(OwnedField.OWNER)
    return frozenset(parts)


def changed_by_others(wanted: Json, found: OwnReplicaSet) -> bool:
    """Whether a difference is somebody's doing; with an earlier digest we had wanted it so, unless he wrote that, too.

    A copy of a ReplicaSet that a GitOps tool applies again and again has the digest of the day when it was taken.
    """
    if found.metadata.annotation(ANNOTATION_APPLIED) in ("", wanted["metadata"]["annotations"][ANNOTATION_APPLIED]):
        return True
    return any(
        entry.manager != FIELD_MANAGER and entry.fields_json != ABSENT and _within(entry.fields_json, _DIGEST)
        for entry in found.metadata.managed_fields or ()
    )


def is_suspended_by_operator(found: OwnReplicaSet) -> bool:
    """Whether the operator itself has suspended a ReplicaSet for a burst: an earlier process may have ended meanwhile.

    Args:
        found: as the watch shows it. Nobody else may hold its template.
    """
    named = found.template.get("spec", {}).get("priorityClassName")
    return named == SUSPENDED_PRIORITY_CLASS and holder_of(found, OwnedField.TEMPLATE, FIELD_MANAGER) is None


def same_room(wanted: Json, found: Json) -> bool:
    """Whether pods of two templates request the same, with the same priority."""
    try:
        texts = [msgspec.json.encode(template.get("spec", {})) for template in (wanted, found)]
        specs = [msgspec.json.decode(text, type=PodSpec) for text in texts]
        first, second = (effective_requests(spec) for spec in specs)
    except (msgspec.DecodeError, RequestError):
        return False
    return first == second and specs[0].priority_class_name == specs[1].priority_class_name


def restoring_patch(wanted: Json, found: OwnReplicaSet, parts: frozenset[OwnedField]) -> dict[str, Any] | None:
    """Return the JSON merge patch for what an apply would leave: fields that others have added, and their ownership.

    Returns:
        None when an apply is enough.
    """
    patch: dict[str, Any] = {}
    if OwnedField.TEMPLATE in parts and (template := _removals(wanted["spec"]["template"], found.template)):
        patch["spec"] = {"template": template}
    if OwnedField.OWNER in parts:
        patch["metadata"] = {"ownerReferences": wanted["metadata"].get("ownerReferences", [])}
    return patch or None


def left_as_found(wanted: Json, found: OwnReplicaSet, replicas: int, held: frozenset[OwnedField]) -> dict[str, Any]:
    """Return the manifest with the parts that are left alone as they are there."""
    spec, metadata = dict(wanted["spec"]), dict(wanted["metadata"])
    if OwnedField.REPLICAS in held:
        spec["replicas"] = replicas
    if OwnedField.TEMPLATE in held:
        spec["template"] = found.template
    if OwnedField.METADATA in held:
        for field, there in (("labels", found.metadata.labels), ("annotations", found.metadata.annotations)):
            metadata[field] = {key: (there or {}).get(key, value) for key, value in metadata.get(field, {}).items()}
    return {**wanted, "metadata": metadata, "spec": spec}


def holder_of(found: OwnReplicaSet, part: OwnedField, manager: str) -> str | None:
    """Name who else holds a part, the last one to have written it; None where managedFields name nobody.

    Args:
        found: the ReplicaSet.
        part: of it.
        manager: our own name.
    """
    if part is OwnedField.OWNER and (owner := found.metadata.controller()) is not None:
        return f"{owner.kind}/{owner.name}"
    others = sorted(
        (
            (entry.time.timestamp() if entry.time else 0.0, entry.manager, entry.subresource)
            for entry in found.metadata.managed_fields or ()
            if entry.manager != manager and _holds(entry.fields_json, part)
        ),
        key=lambda entry: entry[0],
    )
    if not others:
        return None
    _, name, subresource = others[-1]
    return f"{name} ({subresource})" if subresource else name


_PATHS: dict[OwnedField, tuple[tuple[str, ...], ...]] = {
    OwnedField.REPLICAS: (("f:spec", "f:replicas"),),
    OwnedField.TEMPLATE: (("f:spec", "f:template"),),
    OwnedField.METADATA: (
        ("f:metadata", "f:labels"),
        ("f:metadata", "f:annotations"),
        ("f:metadata", "f:ownerReferences"),
    ),
}
_DIGEST = ("f:metadata", "f:annotations", f"f:{ANNOTATION_APPLIED}")


def _holds(fields: msgspec.Raw, part: OwnedField) -> bool:
    return fields != ABSENT and any(_within(fields, path) for path in _PATHS.get(part, ()))


def _within(fields: msgspec.Raw, path: Sequence[str]) -> bool:
    tree = msgspec.json.decode(fields)
    for key in path:
        if not isinstance(tree, dict) or key not in tree:
            return False
        tree = tree[key]
    return True


def _metadata_differs(wanted: Json, found: OwnReplicaSet) -> bool:
    metadata = found.metadata
    for ours, there in (
        (wanted.get("labels", {}), metadata.labels or {}),
        (wanted.get("annotations", {}), metadata.annotations or {}),
    ):
        if any(there.get(key) != value for key, value in ours.items()):
            return True
    owners = {(owner.uid, bool(owner.controller)) for owner in metadata.owner_references or ()}
    return any((owner["uid"], bool(owner["controller"])) not in owners for owner in wanted.get("ownerReferences", ()))


def _differs(wanted: Any, found: Any, key: str = "") -> bool:
    if isinstance(wanted, Mapping):
        there = found if isinstance(found, Mapping) else {}
        if key in _AMOUNTS:
            return _amounts(wanted) != _amounts(there)
        return any(_differs(value, there.get(name), name) for name, value in wanted.items()) or any(
            _extra(wanted, there)
        )
    if isinstance(wanted, list):
        left = list(found) if isinstance(found, list) else []
        if len(left) != len(wanted):
            return True
        for item in wanted:
            alike = next((other for other in left if not _differs(item, other)), None)
            if alike is None:
                return True
            left.remove(alike)
        return False
    return bool(wanted != found) and not (_empty(wanted) and _empty(found))


def _extra(wanted: Json, found: Json) -> Iterator[str]:
    return (name for name in found if name not in wanted and name not in _FILLED_IN and not _empty(found[name]))


def _removals(wanted: Json, found: Json) -> dict[str, Any]:
    """Return the merge patch that takes away what is there beside the wanted, and lists that have grown as a whole."""
    patch: dict[str, Any] = dict.fromkeys(_extra(wanted, found))
    for name, value in wanted.items():
        there = found.get(name)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            if name in _AMOUNTS:
                less: dict[str, Any] = dict.fromkeys(key for key in there if key not in value)
            else:
                less = _removals(value, there)
            if less:
                patch[name] = less
        elif isinstance(value, list) and isinstance(there, list) and _has_more(value, there):
            patch[name] = value
    return patch


def _has_more(wanted: list[Any], found: list[Any]) -> bool:
    return len(found) > len(wanted) or any(
        isinstance(item, Mapping) and isinstance(other, Mapping) and bool(_removals(item, other))
        for item, other in zip(wanted, found, strict=False)
    )


def _empty(value: Any) -> bool:
    return value is None or value in ({}, [], "")


def _amounts(quantities: Json) -> Json:
    try:
        return {name: amount(name, str(text)) for name, text in quantities.items()}
    except QuantityError:
        return quantities
