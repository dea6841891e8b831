"""Reads what an API server shows of slack, as far as one may: the right to list SlackPolicies is enough.

What else could not be seen is said. `slack.health` has the verdict.
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from slack.cli.inputs.objects import PLACEHOLDERS, Json, item, items
from slack.cli.terminal.problems import UserError
from slack.cluster.labels import (
    API_VERSION,
    DEFAULT_NAMESPACE,
    LABEL_BUFFER,
    LABEL_POLICY,
    LABEL_SHAPE,
    SLACK_POLICIES,
)
from slack.cluster.tables.placeholder_table import is_unbound
from slack.cluster.wire import Pod
from slack.health.observation import (
    DEFAULT_LEASE,
    OPERATOR_PODS,
    Installation,
    ObservedPlaceholder,
    StatusObservation,
    is_plausible,
)
from slack.kube.errors import ApiError
from slack.kube.paths import resource_path

if TYPE_CHECKING:
    from slack.kube.connection import Connection

RENEWAL_SECONDS = 6.0
"""A leader renews every two seconds, or tries to."""
LOOK_SECONDS = 0.5


def observe(
    connection: "Connection", name: str | None, *, namespace: str, lease_name: str, selector: str = ""
) -> StatusObservation:
    """Ask the API server about a place.

    Raises:
        UserError: a policy is named that is not there, or none has the labels of the selector.
        KubeError: no answer, or no right to see SlackPolicies.
    """
    unseen: list[str] = []

    def optional(what: str, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except ApiError as error:
            if error.status != 403:
                raise
            unseen.append(f"{what}: not allowed to see them")
            return None

    pods_path = resource_path("v1", "pods", namespace=namespace)
    policies, crd = _policies(connection, name, selector)
    pods = optional(f"pods in {namespace}", lambda: items(connection, pods_path, PLACEHOLDERS))
    operators = None if pods is None else items(connection, pods_path, OPERATOR_PODS)
    before = len(unseen)
    lease_path = resource_path("coordination.k8s.io/v1", "leases", namespace=namespace, name=lease_name)
    lease = optional(f"leases in {namespace}", lambda: item(connection, lease_path))
    lease_seen = len(unseen) == before
    elsewhere = installations(connection) if lease is None and lease_seen else ()
    return StatusObservation(
        policies,
        crd,
        None
        if pods is None
        else tuple(_placeholder(pod) for pod in pods if not (being_deleted(pod) or _is_chunk(pod))),
        lease,
        lease_seen,
        None if operators is None else sum(running(pod) for pod in operators),
        tuple(unseen),
        tuple(other for other in elsewhere if (other.namespace, other.lease_name) != (namespace, lease_name)),
        _is_renewed(connection, lease_path, lease),
    )


def _is_renewed(connection: "Connection", path: str, lease: Json | None) -> bool | None:
    """Whether a lease is renewed while we look; None where its time is plausible, so that nobody has to wait."""
    if lease is None or is_plausible(lease, time.time()):
        return None
    deadline = time.monotonic() + RENEWAL_SECONDS
    before = lease["spec"].get("renewTime")
    while time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        again = item(connection, path)
        if again is not None and (again.get("spec") or {}).get("renewTime") != before:
            return True
    return False


def observe_operator(
    connection: "Connection", name: str | None, *, namespace: str | None, lease_name: str | None, selector: str = ""
) -> tuple[StatusObservation, str, str]:
    """Observe the place that is named. Without a name: the usual one, or the only other one where an operator is.

    Returns:
        what is seen, and the namespace and the lease's name that it is of.

    Raises:
        UserError, KubeError: as `observe`.
    """
    at_namespace, at_lease = namespace or DEFAULT_NAMESPACE, lease_name or DEFAULT_LEASE
    seen = observe(connection, name, namespace=at_namespace, lease_name=at_lease, selector=selector)
    if namespace is None and lease_name is None and seen.elsewhere:
        with_operator = [other for other in seen.elsewhere if other.operator_pods]
        best = with_operator or ([] if seen.placeholders else list(seen.elsewhere))
        if len(best) == 1:
            at_namespace, at_lease = best[0].namespace, best[0].lease_name
            seen = observe(connection, name, namespace=at_namespace, lease_name=at_lease, selector=selector)
    return seen, at_namespace, at_lease


def _policies(connection: "Connection", name: str | None, selector: str) -> tuple[tuple[Json, ...], bool]:
    if name is not None:
        found = item(connection, resource_path(API_VERSION, SLACK_POLICIES, name=name))
        if found is not None:
            return (found,), True
    try:
        known = items(connection, resource_path(API_VERSION, SLACK_POLICIES), selector)
    except ApiError as error:
        if not error.not_found or name is not None:
            raise
        return (), False
    if selector and not known:
        raise UserError(f"--selector: no SlackPolicy has the labels {selector}")
    if name is None:
        return tuple(sorted(known, key=_name)), True
    names = ", ".join(map(_name, known))
    raise UserError(f"slackpolicy {name}: there is none of this name; there are: {names or 'none'}")


def _name(item: Json) -> str:
    return str(item["metadata"]["name"])


def _is_chunk(pod: Json) -> bool:
    """Say whether a CapacityBuffer asks for it, and no policy does: its buffer says how it is."""
    return LABEL_BUFFER in pod["metadata"].get("labels", {})


def _placeholder(pod: Json) -> ObservedPlaceholder:
    labels = pod["metadata"].get("labels", {})
    node = pod.get("spec", {}).get("nodeName") or None
    unbound = node is None and is_unbound(msgspec.json.decode(msgspec.json.encode(pod), type=Pod))
    return ObservedPlaceholder(labels.get(LABEL_POLICY, ""), labels.get(LABEL_SHAPE, ""), node, unbound)


def installations(connection: "Connection") -> tuple[Installation, ...]:
    """Find installations by the labels of their pods, and the lease that one of them holds; () without the rights."""
    try:
        everywhere = resource_path("v1", "pods")
        placeholders = Counter(str(pod["metadata"]["namespace"]) for pod in items(connection, everywhere, PLACEHOLDERS))
        operators: dict[str, set[str]] = {}
        for pod in items(connection, everywhere, OPERATOR_PODS):
            if running(pod):
                operators.setdefault(str(pod["metadata"]["namespace"]), set()).add(str(pod["metadata"]["name"]))
        found = []
        for namespace in sorted({*placeholders, *operators}):
            pods = operators.get(namespace, set())
            lease = _lease_of(connection, namespace, pods)
            found.append(Installation(namespace, lease, placeholders[namespace], len(pods)))
        return tuple(found)
    except ApiError as error:
        if error.status != 403:
            raise
        return ()


def _lease_of(connection: "Connection", namespace: str, operators: set[str]) -> str:
    """Return the lease whose holder is one of these pods; a holder's name is that of its pod, `_` and more."""
    for lease in items(connection, resource_path("coordination.k8s.io/v1", "leases", namespace=namespace)):
        holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
        if holder.rpartition("_")[0] in operators:
            return str(lease["metadata"]["name"])
    return DEFAULT_LEASE


def being_deleted(pod: Json) -> bool:
    """Whether a pod is on its way out."""
    return "deletionTimestamp" in pod["metadata"]


def running(pod: Json) -> bool:
    """Whether a pod runs and is to stay."""
    return not being_deleted(pod) and pod.get("status", {}).get("phase") == "Running"
