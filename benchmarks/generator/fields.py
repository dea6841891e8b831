"""metadata.managedFields as the API server derives them: who set which field, as a tree of keys.

A merging list is told apart by its keys (`k:{"name":"main"}`), a set by its values (`v:"..."`), what is atomic is a
leaf. `.` says that the thing itself, beside its fields, is owned; required lists and the roots go without.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.generator.size import Json

_KEYS: Mapping[str, Sequence[str]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "ownerReferences": ("uid",),
    "conditions": ("type",),
    "podIPs": ("ip",),
    "addresses": ("type",),
}
_ATOMIC = frozenset(
    [
        "nodeSelector",
        "tolerations",
        "args",
        "command",
        "envFrom",
        "labelSelector",
        "fieldRef",
        "resourceFieldRef",
        "secretKeyRef",
        "drop",
        "add",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
        "containerStatuses",
        "initContainerStatuses",
        "hostIPs",
        "images",
        "taints",
        "runtimeHandlers",
    ]
)
_SETS = frozenset(("finalizers", "podCIDRs"))
_WITHOUT_SELF = frozenset(("containers",))
_ITSELF: Json = {".": {}}


def owned(value: object, name: str = "") -> Json:
    """Return the tree of fields below `value`, which is the field `name` of its parent."""
    if name in _ATOMIC or not isinstance(value, (dict, list)) or not value:
        return {}
    if isinstance(value, list):
        tree = _items(value, name)
    else:
        tree = {f"f:{key}": owned(part, key) for key, part in value.items()}
    own = {} if name in _WITHOUT_SELF else _ITSELF
    return own | dict(sorted(tree.items()))


def _items(values: list[Any], name: str) -> Json:
    if name in _SETS:
        return {f"v:{json.dumps(value)}": {} for value in values}
    if name == "ownerReferences":  # a merging list of atomic things
        return {_key(value, name): {} for value in values}
    return {_key(value, name): owned(value) for value in values}


def _key(value: Json, name: str) -> str:
    return f"k:{json.dumps({key: value[key] for key in _KEYS[name]}, separators=(',', ':'))}"


def roots(**parts: Json) -> Json:
    """Return the trees of `metadata=...`, `spec=...`, `status=...`; roots are not owned themselves."""
    return {
        f"f:{root}": dict(sorted((f"f:{key}", owned(value, key)) for key, value in content.items()))
        for root, content in parts.items()
    }


def entry(manager: str, time: str, tree: Json, subresource: str = "") -> Json:
    """Return one entry of managedFields."""
    written: Json = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": tree,
    }
    return written | ({"subresource": subresource} if subresource else {})
