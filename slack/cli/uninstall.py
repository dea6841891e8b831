"""`uninstall`: takes away what the operator has made, and says so line by line. Needs --yes.

Touches only objects of the operator's: ReplicaSets with their placeholder pods, the ResourceQuota of an operator that
was stopped while it held a controller back, the PriorityClass, the lease; the label by which the operator has released
nodes, and its taint of nodes that held unbound placeholders. What the chart made is the chart's (`helm uninstall` runs
this command first); the SlackPolicies and the CRD are the user's, and the last line tells how to delete them.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.inputs.api_server import api_server
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.inputs.objects import PLACEHOLDERS, item, items
from slack.cli.terminal.formats import TABLE, ListedRows, Output, print_document
from slack.cli.terminal.problems import UserError
from slack.kube.access import ClusterAccess

if TYPE_CHECKING:
    from slack.kube.apply import Writer
    from slack.kube.connection import Connection

_NAME_PREFIX = "slack-"
"""Of ReplicaSets and their pods."""
_SCHEDULING = "scheduling.k8s.io/v1"
_RETRY_SECONDS = 10.0
"""So long a write is tried again that a server has not taken."""
_STANDBY_SECONDS = 3.0
"""A standby that was not told to stop yet takes a free lease within this time."""


_WORDS = {
    "Deleted": "deleted",
    "WasGone": "was gone already",
    "WouldBeDeleted": "would be deleted",
    "ScaledToZero": "scaled to zero",
    "WouldBeScaledToZero": "would be scaled to zero",
    "Unlabelled": "is released no longer: its label resource-slack.io/release is removed",
    "WouldBeUnlabelled": "would lose its label resource-slack.io/release",
    "Untainted": "has lost its taint resource-slack.io/slack",
    "WouldBeUntainted": "would lose its taint resource-slack.io/slack",
}
"""By outcome, what is said to people."""


@dataclass(frozen=True, slots=True)
class _Target:
    """One object to delete."""

    kind: str
    namespace: str | None
    name: str
    path: str = ""
    uid: str = ""
    may_be_left: bool = False
    """Whether the rest goes on if there is no right to delete it."""

    @property
    def text(self) -> str:
        """As people read it: replicaset shop/a."""
        return (
            f"{self.kind.lower()} {self.namespace}/{self.name}"
            if self.namespace
            else f"{self.kind.lower()} {self.name}"
        )


@dataclass(slots=True)
class _Told:
    """What became of each object: a line at once for people, one document at the end for programs."""

    output: Output
    namespace: str
    yes: bool
    pods_left: int = 0
    items: list[dict[str, Any]] = field(default_factory=list)

    def say(self, target: _Target, outcome: str, reason: str | None = None) -> None:
        """Tell one outcome; what is kept or left is told to people by who found it so."""
        named = {"kind": target.kind, "namespace": target.namespace, "name": target.name}
        self.items.append({**named, "outcome": outcome, "reason": reason})
        if not self.output.for_machines and outcome in _WORDS:
            uid = f" (uid {target.uid})" if self.output.is_wide and target.uid else ""
            typer.echo(f"{target.text} {_WORDS[outcome]}{uid}")

    def end(self) -> None:
        """Print the document."""
        if self.output.for_machines:
            from slack.cluster.labels import API_VERSION

            found = {"namespace": self.namespace, "yes": self.yes, "pods_left": self.pods_left, "items": self.items}
            print_document({"apiVersion": API_VERSION, "kind": "UninstallList", **found}, self.output)


_Yes = Annotated[bool, typer.Option("--yes", help="Delete; without it only what would be deleted is printed.")]
_Namespace = Annotated[
    str, typer.Option("--namespace", "-n", help="Namespace of the placeholders and the lease.", metavar="NAME")
]
_LeaseName = Annotated[str, typer.Option("--lease-name", help="Name of the lease.", metavar="NAME")]
_StopDeployment = Annotated[
    str | None,
    typer.Option(
        "--stop-deployment", help="First scale the operator's Deployment of this name to zero.", metavar="NAME"
    ),
]
_WaitSeconds = Annotated[
    int,
    typer.Option(
        "--wait-seconds",
        help="How long to wait for the operator to end, and for the placeholders.",
        min=0,
        max=86_400,
    ),
]


@with_kubectl_flags
def uninstall(
    yes: _Yes = False,
    namespace: _Namespace = "resource-slack",
    lease_name: _LeaseName = "resource-slack",
    stop_deployment: _StopDeployment = None,
    wait_seconds: _WaitSeconds = 60,
    output: Annotated[Output, ListedRows("items")] = TABLE,
    access: ClusterAccess = ClusterAccess(),
) -> None:
    """Delete the placeholders, their PriorityClass and the lease. Stop the operator first, or name its Deployment.

    [bold]Examples[/bold]

        resource-slack uninstall          # only says what it would delete

        resource-slack uninstall --yes --stop-deployment resource-slack

        resource-slack uninstall -o json | jq '.items[].name'
    """
    from slack.kube.apply import Writer
    from slack.kube.retry import retrying

    told = _Told(output, namespace, yes)
    with api_server(access) as connection:
        stopping = threading.Event()
        writer = Writer(connection, stopping, retry=retrying(stopping, deadline_seconds=_RETRY_SECONDS), pauses=False)
        try:
            if stop_deployment:
                _stop(writer, _Target("Deployment", namespace, stop_deployment), told)
            other = None
            if yes or not stop_deployment:
                wait = wait_seconds if stop_deployment else 0
                other = _wait_for_free_lease(connection, namespace, lease_name, wait, stop_deployment)
            if other is not None:
                typer.echo(f"another installation leads in namespace {namespace} ({other}): its objects stay", err=True)
                told.end()
                return
            loads = _left_loads(connection, told)
            found = [*_targets(connection, namespace, told), *loads, *_lease(connection, namespace, lease_name)]
            _delete(writer if yes else None, found, told)
            labelled = _unlabel(connection, writer if yes else None, told)
            labelled += _untaint(connection, writer if yes else None, told)
            if yes and found:
                told.pods_left = _wait_for_placeholders(connection, namespace, wait_seconds)
        except BaseException:
            if told.items:  # half of it was done: whoever reads the document has to know
                told.end()
            raise
    told.end()
    if not (found or labelled):
        typer.echo(f"nothing of resource-slack is left in namespace {namespace}", err=True)
    elif not yes:
        typer.echo("nothing was deleted; add --yes to do it", err=True)
    typer.echo("SlackPolicies stay; to delete them: kubectl delete crd slackpolicies.resource-slack.io", err=True)


def _delete(writer: "Writer | None", found: Sequence[_Target], told: _Told) -> None:
    """Delete one after the other; without a writer only say so. Who cannot go on says what is left."""
    from slack.kube.errors import ApiError, KubeError

    for number, target in enumerate(found):
        try:
            gone = writer.delete(target.path, uid=target.uid) if writer is not None else None
        except KubeError as error:
            if target.may_be_left and isinstance(error, ApiError) and error.status == 403:
                typer.echo(f"{target.text} is left: {error}", err=True)
                told.say(target, "Left", str(error))
                continue
            typer.echo(f"left: {', '.join(left.text for left in found[number:])}; run this again", err=True)
            for left in found[number:]:
                told.say(left, "Left", str(error))
            raise
        told.say(target, "WouldBeDeleted" if gone is None else "Deleted" if gone else "WasGone")


def _unlabel(connection: "Connection", writer: "Writer | None", told: _Told) -> int:
    """Take the operator's label off nodes that it has released, and return how many had it.

    A label that a person wrote stays.
    Without the right to, it is said how: the label keeps nothing but unbound placeholders off a node.
    """
    from slack.cluster.labels import LABEL_RELEASE
    from slack.kube.errors import ApiError
    from slack.kube.paths import resource_path
    from slack.planner.release import parse_mark

    by_hand = f"kubectl label nodes -l {LABEL_RELEASE} {LABEL_RELEASE}-"
    try:
        nodes = items(connection, resource_path("v1", "nodes"), LABEL_RELEASE)
    except ApiError as error:
        if error.status != 403:
            raise
        typer.echo(f"released nodes are not looked for, which needs the right to list nodes: {by_hand}", err=True)
        return 0
    count = 0
    pointer = "/metadata/labels/" + LABEL_RELEASE.replace("/", "~1")
    for node in nodes:
        value = (node["metadata"].get("labels") or {}).get(LABEL_RELEASE, "")
        if parse_mark(value) is None:
            continue
        count += 1
        target = _Target("Node", None, node["metadata"]["name"], uid=node["metadata"].get("uid") or "")
        if writer is None:
            told.say(target, "WouldBeUnlabelled")
            continue
        path = resource_path("v1", "nodes", name=target.name)
        test = {"op": "test", "path": pointer, "value": value}
        try:
            writer.json_patch(path, [test, {"op": "remove", "path": pointer}])
        except ApiError as error:
            if error.not_found or error.status == 422:  # the node has gone, or somebody has changed the label
                told.say(target, "WasGone")
                continue
            if error.status != 403:
                raise
            typer.echo(f"{target.text} keeps its label: {error}; {by_hand}", err=True)
            told.say(target, "Left", str(error))
            continue
        told.say(target, "Unlabelled")
    return count


def _untaint(connection: "Connection", writer: "Writer | None", told: _Told) -> int:
    """Take the operator's taint off nodes, and return how many had it; taints of others stay."""
    from slack.cluster.labels import SOFT_TAINT
    from slack.kube.errors import ApiError
    from slack.kube.paths import resource_path

    by_hand = f"kubectl taint nodes NODE {SOFT_TAINT}-"
    try:
        nodes = list(items(connection, resource_path("v1", "nodes")))
    except ApiError as error:
        if error.status != 403:
            raise
        return 0  # as of the label: that was said, and the chart grants the right where nodes may have the taint
    tainted = [node for node in nodes if _other_taints(node) is not None]
    for node in tainted:
        target = _Target("Node", None, node["metadata"]["name"], uid=node["metadata"].get("uid") or "")
        if writer is None:
            told.say(target, "WouldBeUntainted")
            continue
        path = resource_path("v1", "nodes", name=target.name)
        try:
            _write_other_taints(writer, path)
        except ApiError as error:
            if error.not_found:
                told.say(target, "WasGone")
                continue
            if error.status not in (403, 409):
                raise
            typer.echo(f"{target.text} keeps its taint: {error}; {by_hand}", err=True)
            told.say(target, "Left", str(error))
            continue
        told.say(target, "Untainted")
    return len(tainted)


def _write_other_taints(writer: "Writer", path: str, tries: int = 5) -> None:
    """Take the operator's taint off a node; where somebody else writes the node meanwhile, from what is there then."""
    from slack.kube.errors import ApiError

    for left in reversed(range(tries)):
        node = writer.get(path)
        others = _other_taints(node)
        if others is None:
            return
        version = {"resourceVersion": node["metadata"]["resourceVersion"]}
        try:
            writer.merge_patch(path, {"metadata": version, "spec": {"taints": others or None}})
        except ApiError as error:
            if error.status != 409 or not left:
                raise
        else:
            return


def _other_taints(node: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return a node's taints without the operator's; None where it does not have that."""
    from slack.cluster.labels import SOFT_TAINT

    taints = (node.get("spec") or {}).get("taints") or []
    others = [taint for taint in taints if taint.get("key") != SOFT_TAINT]
    return others if len(others) < len(taints) else None


def _stop(writer: "Writer", target: _Target, told: _Told) -> None:
    from slack.kube.errors import ApiError
    from slack.kube.paths import resource_path

    if not told.yes:
        told.say(target, "WouldBeScaledToZero")
        return
    path = resource_path("apps/v1", "deployments", namespace=told.namespace, name=target.name)
    try:
        writer.merge_patch(f"{path}/scale", {"spec": {"replicas": 0}})
    except ApiError as error:
        if not error.not_found:
            raise
        told.say(target, "WasGone")
    else:
        told.say(target, "ScaledToZero")


def _wait_for_free_lease(
    connection: "Connection", namespace: str, name: str, wait_seconds: int, stopped: str | None
) -> str | None:
    """Wait until nobody renews the lease, by our own clock; the holder's may be another.

    Returns:
        The holder, if it is another installation's than the one that was stopped: what is there is its.

    Raises:
        UserError: the holder goes on after the time to wait.
    """
    from slack.kube.lease import HolderSeen, deployment_of

    deadline = time.monotonic() + wait_seconds
    seen = HolderSeen()
    free_since: float | None = None
    while True:
        lease, now = item(connection, _lease_path(namespace, name)), time.monotonic()
        holder = seen.holder(lease, now)
        free_since = None if holder is not None else now if free_since is None else free_since
        if free_since is not None and (not wait_seconds or now - free_since >= _STANDBY_SECONDS):
            return None
        if holder is not None and seen.renewed:
            if stopped and deployment_of(holder) not in ("", stopped):
                return holder
            if now >= deadline:
                raise UserError(
                    f"the operator still runs: {holder} holds the lease {namespace}/{name} and would make "
                    f"everything again; stop it first"
                )
        time.sleep(0.5)


def _wait_for_placeholders(connection: "Connection", namespace: str, wait_seconds: int) -> int:
    """Wait until the placeholders are gone, and return how many are not."""
    from slack.kube.paths import resource_path

    deadline = time.monotonic() + wait_seconds
    while left := len(items(connection, resource_path("v1", "pods", namespace=namespace), PLACEHOLDERS)):
        if time.monotonic() >= deadline:
            typer.echo(f"{left} placeholder pods are still on their way out", err=True)
            return left
        time.sleep(0.5)
    return 0


def _targets(connection: "Connection", namespace: str, told: _Told) -> Iterator[_Target]:
    """Yield ReplicaSets first (their pods go with them), then pods without one and markers, then what is beside."""
    from slack.cluster.labels import CREATION_BLOCK, LABEL_MANAGED_BY, MANAGED_BY, PRIORITY_CLASS
    from slack.kube.paths import resource_path

    for api_version, plural, kind in (("apps/v1", "replicasets", "ReplicaSet"), ("v1", "pods", "Pod")):
        for found in items(connection, resource_path(api_version, plural, namespace=namespace)):
            meta = found["metadata"]
            if not _is_ours(found) or (kind == "Pod" and meta.get("ownerReferences") and not _is_marker(found)):
                continue  # a pod leaves with its ReplicaSet
            path = resource_path(api_version, plural, namespace=namespace, name=meta["name"])
            yield _Target(kind, namespace, meta["name"], path, meta["uid"])
    brake = resource_path("v1", "resourcequotas", namespace=namespace, name=CREATION_BLOCK)
    beside = (
        _Target("ResourceQuota", namespace, CREATION_BLOCK, brake),
        _Target(
            "PriorityClass", None, PRIORITY_CLASS, resource_path(_SCHEDULING, "priorityclasses", name=PRIORITY_CLASS)
        ),
    )
    for target in beside:
        there = item(connection, target.path)
        if there is None:
            continue
        maker = (there["metadata"].get("labels") or {}).get(LABEL_MANAGED_BY)
        if maker == MANAGED_BY:
            yield replace(target, uid=there["metadata"]["uid"])
        else:
            why = f"its label {LABEL_MANAGED_BY} is {maker}" if maker else f"it has no label {LABEL_MANAGED_BY}"
            told.say(target, "Kept", why)
            typer.echo(f"{target.text} is kept: {why}, so the operator did not make it", err=True)


def _left_loads(connection: "Connection", told: _Told) -> list[_Target]:
    """Find Deployments that a `load` has left anywhere, as far as one may see them; one that runs is kept."""
    from slack.cluster.labels import LABEL_MANAGED_BY
    from slack.kube.paths import resource_path
    from slack.loadtest.manifest import ANNOTATION_UNTIL, MAKER, is_expired

    found = _loads_in(connection, None)
    if found is None:  # the Job of `helm uninstall` may not; a load's own Job removes it
        found = _loads_in(connection, told.namespace)
        where = "any namespace" if found is None else f"other namespaces than {told.namespace}"
        typer.echo(
            f"Deployments of loads in {where} are not looked for, which needs the right to list deployments: "
            f"kubectl get deployments -A -l {LABEL_MANAGED_BY}={MAKER}",
            err=True,
        )
    left = []
    for load in found or ():
        meta = load["metadata"]
        if (meta.get("labels") or {}).get(LABEL_MANAGED_BY) != MAKER:
            continue
        path = resource_path("apps/v1", "deployments", namespace=meta["namespace"], name=meta["name"])
        target = _Target("Deployment", meta["namespace"], meta["name"], path, meta["uid"], may_be_left=True)
        if is_expired(load, time.time()):
            left.append(target)
        else:
            until = (meta.get("annotations") or {}).get(ANNOTATION_UNTIL)
            why = f"a load that runs until {until}, if not longer" if until else "a load without a deadline"
            told.say(target, "Kept", why)
            typer.echo(f"{target.text} is kept: it is {why}", err=True)
    return left


def _loads_in(connection: "Connection", namespace: str | None) -> list[dict[str, Any]] | None:
    """List the Deployments of loads; None without the right to."""
    from slack.cluster.labels import LABEL_MANAGED_BY
    from slack.kube.errors import ApiError
    from slack.kube.paths import resource_path
    from slack.loadtest.manifest import MAKER

    try:
        path = resource_path("apps/v1", "deployments", namespace=namespace)
        return list(items(connection, path, f"{LABEL_MANAGED_BY}={MAKER}"))
    except ApiError as error:
        if error.status != 403:
            raise
        return None


def _is_marker(found: dict[str, Any]) -> bool:
    """Whether a pod releases its node from placeholders or pulls an image there; it would stay as long as the node."""
    from slack.cluster.labels import LABEL_MANAGED_BY, LABEL_RELEASE, LABEL_WARM, MANAGED_BY

    labels = found["metadata"].get("labels") or {}
    return labels.get(LABEL_MANAGED_BY) == MANAGED_BY and bool({LABEL_RELEASE, LABEL_WARM} & labels.keys())


def _is_ours(found: dict[str, Any]) -> bool:
    """Whether the operator made a ReplicaSet or a pod, also if somebody took its labels away.

    Without the labels the name has to be one of ours, and with it one more trace: an annotation of the operator's, a
    SlackPolicy as its owner, or the placeholders' PriorityClass.
    """
    from slack.cluster.labels import (
        ANNOTATION_APPLIED,
        ANNOTATION_SPEC,
        API_VERSION,
        LABEL_MANAGED_BY,
        LABEL_PLACEHOLDER,
        MANAGED_BY,
        PRIORITY_CLASS,
    )

    meta, spec = found["metadata"], found.get("spec") or {}
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    group = API_VERSION.partition("/")[0]
    if labels.get(LABEL_MANAGED_BY) == MANAGED_BY and labels.get(LABEL_PLACEHOLDER) == "true":
        return True
    if _is_marker(found):
        return True
    pod_spec = ((spec.get("template") or {}).get("spec") or {}) if "template" in spec else spec
    return meta["name"].startswith(_NAME_PREFIX) and (
        bool(annotations.keys() & {ANNOTATION_APPLIED, ANNOTATION_SPEC})
        or any(str(owner.get("apiVersion")).partition("/")[0] == group for owner in meta.get("ownerReferences") or ())
        or pod_spec.get("priorityClassName") == PRIORITY_CLASS
    )


def _lease_path(namespace: str, name: str) -> str:
    from slack.kube.paths import resource_path

    return resource_path("coordination.k8s.io/v1", "leases", namespace=namespace, name=name)


def _lease(connection: "Connection", namespace: str, name: str) -> Iterator[_Target]:
    path = _lease_path(namespace, name)
    if found := item(connection, path):
        yield _Target("Lease", namespace, name, path, found["metadata"]["uid"])
