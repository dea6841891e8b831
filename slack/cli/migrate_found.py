"""What a migration finds in somebody else's manifests, in common terms: how much room, where, and what is to be said.

Values only. Amounts are millicores and base units, as everywhere.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from slack.cli.problems import UserError
from slack.cluster import wire
from slack.cluster.requests import RequestError, effective_requests

Json = dict[str, Any]

ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_KEEPS_NODE = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class Where:
    """To which nodes it goes."""

    node_selector: Mapping[str, str]
    tolerations: tuple[Mapping[str, str], ...]
    per_zone: bool
    scheduler: str
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """One thing that keeps room, read."""

    source: str
    """Kind, namespace and name, for comments."""
    name: str
    where: Where
    room: Mapping[str, int] = field(default_factory=dict)
    """All that it keeps."""
    ceiling: Mapping[str, int] = field(default_factory=dict)
    ladder: tuple[Json, ...] = ()
    """Steps for spec.extraCapacity.ladder."""
    rate: float | None = None
    mirrors: bool = False
    """Its room follows a workload, by an annotation: nothing is to be added to it."""
    notes: tuple[str, ...] = ()
    """What became of what, as `theirs -> ours`."""
    warnings: tuple[str, ...] = ()


def named(manifest: Json) -> str:
    """Return `Deployment shop/api` of a manifest."""
    meta = manifest.get("metadata") or {}
    where = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{manifest.get('kind')} {where}{meta.get('name')}"


def requests_of(pod_spec: Json, source: str) -> dict[str, int]:
    """Return what one pod requests, as the API server would complete it: a limit without a request is one.

    Raises:
        UserError: for a quantity that is none, with its path.
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
        raise UserError(f"{source}: {error}") from None


def times(requests: Mapping[str, int], count: int) -> dict[str, int]:
    """Return the requests of so many pods."""
    return {name: amount * count for name, amount in requests.items()}


def where_of(pod_spec: Json, source: str) -> Where:
    """Read to which nodes the pods go; what a policy has no field for becomes a warning."""
    warnings: list[str] = []
    notes: list[str] = []
    selector = {str(key): str(value) for key, value in (pod_spec.get("nodeSelector") or {}).items()}
    if selector:
        notes.append("nodeSelector -> spec.nodeSelector")
    affinity = pod_spec.get("affinity") or {}
    selector |= _of_affinity(affinity.get("nodeAffinity") or {}, source, notes, warnings)
    warnings += [
        f"{source}: {kind} has no counterpart; placeholders spread softly over zones and nodes, "
        f"and follow real pods' own rules where those are annotated with resource-slack.io/reserve"
        for kind in ("podAffinity", "podAntiAffinity")
        if affinity.get(kind)
    ]
    per_zone = False
    for constraint in pod_spec.get("topologySpreadConstraints") or ():
        if constraint.get("topologyKey") in ZONES and constraint.get("whenUnsatisfiable") != "ScheduleAnyway":
            per_zone = True
    if per_zone:
        notes.append("topologySpreadConstraints by zone -> spec.perDomain: Zone")
    elif pod_spec.get("topologySpreadConstraints"):
        notes.append("topologySpreadConstraints -> none needed: placeholders spread softly over zones and nodes")
    tolerations = _tolerations(pod_spec.get("tolerations") or (), source, warnings)
    if tolerations:
        notes.append("tolerations -> spec.tolerations")
    scheduler = str(pod_spec.get("schedulerName") or "default-scheduler")
    return Where(selector, tolerations, per_zone, scheduler, tuple(warnings), tuple(notes))


def _of_affinity(affinity: Json, source: str, notes: list[str], warnings: list[str]) -> dict[str, str]:
    terms = (affinity.get(_KEEPS_NODE) or {}).get("nodeSelectorTerms") or ()
    found: dict[str, str] = {}
    expressions = [one for term in terms for one in term.get("matchExpressions") or ()]
    if terms:
        plain = len(terms) == 1 and not terms[0].get("matchFields")
        if plain and all(one.get("operator") == "In" and len(one.get("values") or ()) == 1 for one in expressions):
            found = {str(one["key"]): str(one["values"][0]) for one in expressions}
            notes.append("nodeAffinity -> spec.nodeSelector")
        else:
            warnings.append(
                f"{source}: its nodeAffinity is more than labels with one value each; "
                f"write a policy for each set of nodes, with spec.nodeSelector"
            )
    return found


def _tolerations(given: Iterable[Json], source: str, warnings: list[str]) -> tuple[Mapping[str, str], ...]:
    found = []
    for one in given:
        if not one.get("key"):
            warnings.append(
                f"{source}: its toleration without a key is left out: it tolerates every taint, that of a dying node "
                f"too; name the taints of your pools in spec.tolerations"
            )
            continue
        kept = {key: str(one[key]) for key in ("key", "operator", "value", "effect") if one.get(key)}
        if kept.get("operator") == "Exists":
            kept.pop("value", None)
        found.append(kept)
    return tuple(found)


def one_named(manifests: Sequence[Json], kind: str, name: str, namespace: str) -> Json | None:
    """Find an object among manifests; those without a namespace are taken to be in the same one."""
    for one in manifests:
        meta = one.get("metadata") or {}
        if one.get("kind") == kind and meta.get("name") == name and meta.get("namespace", namespace) == namespace:
            return one
    return None


def namespace_of(manifest: Json) -> str:
    """Return the namespace, `default` where the manifest has none."""
    return str((manifest.get("metadata") or {}).get("namespace") or "default")
