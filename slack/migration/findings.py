"""What a migration finds in somebody else's manifests, in common terms: how much room, where, and what is to be said.

Only values. Amounts are millicores and base units, as everywhere.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from slack.cluster import wire
from slack.cluster.labels import ANNOTATION_RESERVE, FORMER_ZONE, ZONE
from slack.cluster.requests import RequestError, effective_requests
from slack.errors import UserFacingError

Json = dict[str, Any]

DEFAULT_SCHEDULER = "default-scheduler"
_KEEPS_NODE = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERS_NODE = "preferredDuringSchedulingIgnoredDuringExecution"


class CannotMigrate(UserFacingError):
    """Manifests of which no policy can be made; the text names the object and says what would be right."""


class KeepsNothing(CannotMigrate):
    """An object that keeps no room now: a warning beside others that do."""


@dataclass(slots=True)
class Remarks:
    """What is to be said about a migrated object, gathered while it is read."""

    source: str
    """Kind, namespace and name."""
    notes: list[str] = field(default_factory=list)
    """What became of what, as `theirs -> ours`."""
    warnings: list[str] = field(default_factory=list)
    """What a person has to look at."""

    def warn(self, text: str) -> None:
        """Add a warning about the object."""
        self.warnings.append(f"{self.source}: {text}")


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """To which nodes it goes, and who binds it there."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, str], ...] = ()
    per_zone: bool = False
    scheduler: str | None = None
    """None for the default one."""


@dataclass(frozen=True, slots=True)
class KeptRoom:
    """Something that keeps room, read."""

    source: str
    """Kind, namespace and name, for comments."""
    name: str
    placement: PodPlacement
    room: Mapping[str, int] = field(default_factory=dict)
    """All that it keeps."""
    ceiling: Mapping[str, int] = field(default_factory=dict)
    ladder: tuple[tuple[int, Mapping[str, int]], ...] = ()
    """From so many millicores of allocatable on it keeps this, ascending."""
    nodes: int | None = None
    """Its pods take a node each, and this many: its room, said in whole spare nodes."""
    mirrors: bool = False
    """Its room follows a workload, by an annotation: nothing is to be added to it."""
    reserve: Mapping[str, int] = field(default_factory=dict)
    """The most that its annotation takes; nothing where that is not known."""
    most_share: float = 1.0
    """The most placeholders that its annotation asks for, as a share of the workload's pods."""
    namespace: str = ""
    """Its namespace: a part of the policy's name where two objects have one name."""
    notes: tuple[str, ...] = ()
    """What became of what, as `theirs -> ours`."""
    warnings: tuple[str, ...] = ()


def object_name(manifest: Json) -> str:
    """Return `Deployment shop/api` of a manifest."""
    meta = manifest.get("metadata") or {}
    where = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{manifest.get('kind')} {where}{meta.get('name')}"


def requests_of(pod_spec: Json, source: str) -> dict[str, int]:
    """Return what one pod requests, as the API server would complete it: a limit without a request is one.

    Raises:
        CannotMigrate: for a quantity that is none, with its path.
    """
    completed = json.loads(json.dumps(pod_spec))
    for kind in ("containers", "initContainers"):
        for container in completed.get(kind) or ():
            resources = container.get("resources") or {}
            container["resources"] = {
                "requests": {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
            }
    try:
        decoded = msgspec.json.decode(json.dumps(completed), type=wire.PodSpec)
        return {name: amount for name, amount in effective_requests(decoded).items() if amount and name != "pods"}
    except (msgspec.ValidationError, RequestError) as error:
        raise CannotMigrate(f"{source}: {error}") from None


def whole_number(value: object, field: str, source: str) -> int:
    """Return the number in a field of an object.

    Raises:
        CannotMigrate: when it is none, or less than 0.
    """
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    if not (text.isascii() and text.isdecimal()):
        raise CannotMigrate(f"{source}: {field}: expected a number such as 3, found {value!r}")
    return int(text)


def warn_of_missing(requests: Mapping[str, int], remarks: Remarks) -> None:
    """Say that the policy keeps some cpu, or memory, of which the pods request none."""
    if missing := [name for name in ("cpu", "memory") if not requests.get(name)]:
        others = [name for name in requests if name not in missing]
        remarks.warn(
            f"its pods request no {' and no '.join(missing)}; placeholders are cut like pods and nodes, so the policy "
            f"keeps some {' and '.join(missing)} beside the {' and '.join(others)}"
        )


def times(requests: Mapping[str, int], count: int) -> dict[str, int]:
    """Return the requests of so many pods."""
    return {name: amount * count for name, amount in requests.items()}


def placement_of(pod_spec: Json, remarks: Remarks, source: str | None = None) -> PodPlacement:
    """Read to which nodes the pods go; what a policy has no field for becomes a warning.

    Args:
        pod_spec: of the pods.
        remarks: takes the notes and warnings.
        source: whose pods they are, where it is not the object that the remarks are about.
    """
    about = Remarks(source or remarks.source, remarks.notes, remarks.warnings)
    selector = {str(key): str(value) for key, value in (pod_spec.get("nodeSelector") or {}).items()}
    if selector:
        about.notes.append("nodeSelector -> spec.nodeSelector")
    affinity = pod_spec.get("affinity") or {}
    by_affinity = _selector_of_affinity(affinity.get("nodeAffinity") or {}, about)
    if other := sorted(key for key, value in by_affinity.items() if selector.get(key, value) != value):
        about.warn(f"its nodeSelector and its nodeAffinity want different values of {other[0]}, which no node has")
    selector |= by_affinity
    if pod_spec.get("nodeName"):
        about.warn(f"it is bound to the node {pod_spec['nodeName']} (nodeName); the policy keeps its room on any node")
    if (affinity.get("nodeAffinity") or {}).get(_PREFERS_NODE):
        about.warn(
            "the nodes that it prefers (nodeAffinity) are not kept; name them in spec.nodeSelector if all of the room "
            "is to be there"
        )
    for kind in ("podAffinity", "podAntiAffinity"):
        if affinity.get(kind):
            about.warn(
                f"{kind} has no counterpart; placeholders spread softly over zones and nodes, "
                f"and follow real pods' own rules where those are annotated with {ANNOTATION_RESERVE}"
            )
    constraints = pod_spec.get("topologySpreadConstraints") or ()
    per_zone = any(
        constraint.get("topologyKey") in (ZONE, FORMER_ZONE) and constraint.get("whenUnsatisfiable") != "ScheduleAnyway"
        for constraint in constraints
    )
    if per_zone:
        about.notes.append(
            "topologySpreadConstraints by zone -> spec.perDomain: Zone; the part of each zone is rounded up to whole "
            "placeholders"
        )
    elif constraints:
        about.notes.append("topologySpreadConstraints -> none needed: placeholders spread softly over zones and nodes")
    tolerations = _tolerations(pod_spec.get("tolerations") or (), about)
    if tolerations:
        about.notes.append("tolerations -> spec.tolerations")
    scheduler = str(pod_spec.get("schedulerName") or DEFAULT_SCHEDULER)
    return PodPlacement(selector, tolerations, per_zone, None if scheduler == DEFAULT_SCHEDULER else scheduler)


def _selector_of_affinity(affinity: Json, remarks: Remarks) -> dict[str, str]:
    terms = (affinity.get(_KEEPS_NODE) or {}).get("nodeSelectorTerms") or ()
    if not terms:
        return {}
    wanted = [expression for term in terms for expression in term.get("matchExpressions") or ()]
    plain = len(terms) == 1 and not terms[0].get("matchFields")
    if not plain or any(
        expression.get("operator") != "In" or len(expression.get("values") or ()) != 1 for expression in wanted
    ):
        remarks.warn(
            "its nodeAffinity is more than labels with one value each; "
            "write a policy for each set of nodes, with spec.nodeSelector"
        )
        return {}
    remarks.notes.append("nodeAffinity -> spec.nodeSelector")
    return {str(expression["key"]): str(expression["values"][0]) for expression in wanted}


def _tolerations(given: Iterable[Json], remarks: Remarks) -> tuple[Mapping[str, str], ...]:
    kept = []
    for toleration in given:
        if not toleration.get("key"):
            remarks.warn(
                "its toleration without a key is left out: it tolerates every taint, that of a dying node "
                "too; name the taints of your pools in spec.tolerations"
            )
            continue
        fields = {key: str(toleration[key]) for key in ("key", "operator", "value", "effect") if toleration.get(key)}
        if fields.get("operator") == "Exists":
            fields.pop("value", None)
        kept.append(fields)
    return tuple(kept)


def object_named(manifests: Sequence[Json], kind: str, name: str, namespace: str) -> Json | None:
    """Find an object among manifests; those without a namespace are taken to be in the same one."""
    for manifest in manifests:
        meta = manifest.get("metadata") or {}
        if manifest.get("kind") == kind and meta.get("name") == name and meta.get("namespace", namespace) == namespace:
            return manifest
    return None


def may_be_in(manifest: Json, namespace: str) -> bool:
    """Tell whether an object is of a namespace; one without any, as in most charts, may be of each."""
    own = (manifest.get("metadata") or {}).get("namespace")
    return own is None or own == namespace


def namespace_of(manifest: Json) -> str:
    """Return the namespace, `default` where the manifest has none."""
    return str((manifest.get("metadata") or {}).get("namespace") or "default")


def template_of(workload: Json) -> Json:
    """Return the spec of a workload's pods."""
    pod_spec: Json = ((workload.get("spec") or {}).get("template") or {}).get("spec") or {}
    return pod_spec
