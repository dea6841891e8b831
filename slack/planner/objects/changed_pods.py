"""How placeholders differ from what was planned, in words: what admission has added, and where it can be known, who.

The API server notes nobody for what a webhook or an admission plugin does to a pod: all of it is written in the name of
who creates the pod, the ReplicaSet controller. So the container's name has to tell, and for what was changed later,
managedFields. Names and amounts are other people's: each is cut, and so are their numbers.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from slack.cluster.classes import Toleration
from slack.cluster.quantity import format_quantity
from slack.cluster.requests import RequestError, effective_requests
from slack.cluster.snapshot import Placeholder
from slack.cluster.wire import ABSENT, Container, Pod, PodSpec
from slack.planner.model.added import Amounts
from slack.planner.model.shape import Shape

CONTAINER = "placeholder"
_SHAPES, _PARTS, _RESOURCES, _LONGEST = 3, 4, 4, 63
_INJECTORS = {
    "istio-proxy": "Istio",
    "istio-init": "Istio",
    "istio-validation": "Istio",
    "linkerd-proxy": "Linkerd",
    "linkerd-init": "Linkerd",
    "kuma-sidecar": "Kuma",
    "kuma-init": "Kuma",
    "daprd": "Dapr",
    "vault-agent": "Vault",
    "vault-agent-init": "Vault",
    "consul-dataplane": "Consul",
    "consul-connect-inject-init": "Consul",
    "otc-container": "OpenTelemetry",
    "install-oneagent": "Dynatrace",
    "dynatrace-operator": "Dynatrace",
}
_USUAL = frozenset({"kube-controller-manager", "kubelet", "kube-scheduler", "resource-slack"})


class _Entry(msgspec.Struct):
    """One of metadata.managedFields."""

    manager: str = ""
    fieldsV1: msgspec.Raw = ABSENT  # noqa: N815  # its name on the wire


_tolerations = msgspec.json.Decoder(list[dict[str, Any]])
_entries = msgspec.json.Decoder(list[_Entry] | None)


def changes(
    shapes: Mapping[str, Shape], placeholders: Iterable[Placeholder], pods: Mapping[str, Pod]
) -> tuple[str, ...]:
    """Say how the placeholders of one policy differ from their shapes, a text a shape; () where all are as planned.

    The overhead of a RuntimeClass that the shape has is as planned: the workload's own pods have it, too.

    Args:
        shapes: of its ReplicaSets, by name.
        placeholders: of the policy.
        pods: the same ones as objects, by name.
    """
    found: dict[str, str] = {}
    looked_at: set[tuple[str, Amounts | None]] = set()
    alike: dict[tuple[str, str | None, str | None, bytes, bytes], bool] = {}
    """What pods of a shape have in common, and whether it sends them elsewhere: nearly all of them are alike."""
    for placeholder in placeholders:
        name, shape, pod = placeholder.replica_set, shapes.get(placeholder.shape), pods.get(placeholder.name)
        if shape is None or pod is None or pod.spec is None or name in found:
            continue
        as_planned = placeholder.requests in (None, shape.requests)
        if as_planned or (name, placeholder.requests) in looked_at:
            spec = pod.spec
            key = (
                placeholder.shape,
                spec.scheduler_name,
                spec.priority_class_name,
                bytes(spec.node_selector),
                bytes(spec.tolerations),
            )
            if key not in alike:
                alike[key] = any(_elsewhere(spec, shape))
            if not alike[key]:
                continue
        looked_at.add((name, placeholder.requests))
        if parts := _parts(pod, shape):
            more = f" and {len(parts) - _PARTS} more" if len(parts) > _PARTS else ""
            found[name] = f"pod {pod.metadata.name} of {name}: {', '.join(parts[:_PARTS])}{more}{_by(pod)}"
    texts = [text for _, text in sorted(found.items())][:_SHAPES]
    if len(found) > _SHAPES:
        texts.append(f"{len(found) - _SHAPES} more ReplicaSets have such pods")
    return tuple(texts)


def _parts(pod: Pod, shape: Shape) -> list[str]:
    spec = pod.spec or PodSpec()
    planned = dict(shape.requests)
    found = []
    for container in spec.containers or ():
        name = _name(container)
        amounts = _requests(PodSpec(containers=[container]))
        if name == CONTAINER and amounts != planned:
            found.append(f"container {CONTAINER} requests {_other(amounts, planned)}")
        elif name != CONTAINER:
            found.append(f"container {_known(name)} adds {_amounts(amounts)}")
    for container in spec.init_containers or ():
        kind = "native sidecar" if container.restart_policy == "Always" else "init container"
        amounts = _requests(PodSpec(containers=[container]))
        found.append(f"{kind} {_known(_name(container))} adds {_amounts(amounts)}")
    overhead = _requests(PodSpec(overhead=spec.overhead))
    if overhead and spec.runtime_class_name != shape.runtime_class:
        found.append(f"spec.overhead of RuntimeClass {_cut(spec.runtime_class_name or '')} adds {_amounts(overhead)}")
    found += [text for text in _elsewhere(spec, shape) if text]
    actual = _requests(spec, pod)
    if not found and actual != {name: planned.get(name, 0) + overhead.get(name, 0) for name in {*planned, *overhead}}:
        found.append(f"it requests {_other(actual, planned)} (spec.resources, or a resize in place)")
    return found


def _elsewhere(spec: PodSpec, shape: Shape) -> tuple[str, ...]:
    """What sends it elsewhere than planned, or makes it more than a placeholder."""
    found = []
    if spec.scheduler_name and spec.scheduler_name != shape.pod_scheduler:
        found.append(f"spec.schedulerName is {_cut(spec.scheduler_name)}, planned {shape.pod_scheduler}")
    if spec.priority_class_name and spec.priority_class_name != shape.priority_class_name:
        found.append(f"spec.priorityClassName is {_cut(spec.priority_class_name)}, planned {shape.priority_class_name}")
    planned = dict(shape.node_selector)
    if bytes(spec.node_selector) not in (b"", b"null"):
        selector = msgspec.json.decode(spec.node_selector, type=dict[str, str])
        more = sorted(key for key, value in selector.items() if planned.get(key) != value)
        # A RuntimeClass brings a selector of its own, and the shape asked for that class.
        if more and not shape.runtime_class:
            found.append(f"spec.nodeSelector has {_cut(more[0])}={_cut(selector[more[0]])}")
    tolerated = () if shape.runtime_class else _tolerated(bytes(spec.tolerations), shape.tolerations)
    resources = dict(shape.requests)
    # Kubernetes' own taints, and those of extended resources, are tolerated by admission of its own.
    others = [key for key in tolerated if not key.startswith("node.kubernetes.io/") and key not in resources]
    if others:
        found.append(f"spec.tolerations has {_cut(others[0]) or 'every taint'}")
    return tuple(found)


@lru_cache(maxsize=256)
def _tolerated(raw: bytes, planned: tuple[Toleration, ...]) -> tuple[str, ...]:
    """Return the keys of tolerations that were not planned, '' for every key; pods of one shape share one text."""
    if raw in (b"", b"null"):
        return ()
    known = {(t.key, t.operator or "Equal", t.value, t.effect) for t in planned}
    found = {
        (t.get("key") or "", t.get("operator") or "Equal", t.get("value") or "", t.get("effect") or "")
        for t in _tolerations.decode(raw)
    }
    return tuple(sorted(key for key, *_ in found - known))


def _requests(spec: PodSpec, pod: Pod | None = None) -> dict[str, int]:
    try:
        return effective_requests(spec, pod.status if pod is not None else None)
    except RequestError:
        return {}


def _amounts(amounts: Mapping[str, int]) -> str:
    listed = [f"{_cut(name)} {format_quantity(name, amount)}" for name, amount in sorted(amounts.items())]
    more = f" and {len(listed) - _RESOURCES} more" if len(listed) > _RESOURCES else ""
    return " ".join(listed[:_RESOURCES]) + more if listed else "no requests"


def _other(amounts: Mapping[str, int], planned: Mapping[str, int]) -> str:
    """Name the amounts that are other than planned."""
    names = sorted(name for name in {*amounts, *planned} if amounts.get(name, 0) != planned.get(name, 0))
    said = []
    for name in names[:_RESOURCES]:
        why = "none is planned (a LimitRange's default?)"
        if name in planned:
            why = f"{format_quantity(name, planned[name])} is planned"
        said.append(f"{_cut(name)} {format_quantity(name, amounts.get(name, 0))} where {why}")
    return " ".join(said)


def _by(pod: Pod) -> str:
    """Name who has changed it after it was made; '' where nobody has, or it is not known."""
    # Only the metadata of pods that come over the wire has it.
    raw = getattr(pod.metadata, "managed_fields_json", ABSENT)
    try:
        entries: Sequence[_Entry] = _entries.decode(raw) or () if raw != ABSENT else ()
    except msgspec.DecodeError:
        return ""
    who = {_cut(e.manager) for e in entries if e.manager not in _USUAL and b'"f:spec"' in bytes(e.fieldsV1)}
    return f" (changed by {', '.join(sorted(who)[:_SHAPES])})" if who else ""


def _known(name: str) -> str:
    return f"{name} ({_INJECTORS[name]})" if name in _INJECTORS else name


def _name(container: Container) -> str:
    return _cut(bytes(container.name).decode(errors="replace").strip('"'))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
