"""`throttler explain`: where a pod's containers stand, why they wait, and what would end it. Reads only."""

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.inputs.api_server import api_server, context_namespace
from slack.cli.inputs.flags import namespace_option
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.terminal.formats import TABLE, Output, print_document
from slack.cli.terminal.problems import UserError
from slack.cli.throttler.view_flags import (
    DEFAULT_NAME,
    CaFile,
    Controller,
    ControllerName,
    ThrottlerName,
    ThrottlerNamespace,
    TokenFile,
)
from slack.kube.access import ClusterAccess
from slack.process.exit_codes import INFEASIBLE

if TYPE_CHECKING:
    from slack.cli.throttler.controller_view import ControllerView
    from slack.kube.connection import Connection
    from slack.throttler.config import ThrottlePolicySpec
    from slack.throttler.reports.messages import View
    from slack.throttler.reports.pod_facts import PodFacts
    from slack.throttler.reports.pod_standing import PodStanding

_KINDS = ("pod", "pods", "po")
_EXAMPLE = "pod/api-0"
_SYSTEM_NAMESPACE = "kube-system"


@with_kubectl_flags
def explain(
    pod: Annotated[str, typer.Argument(help="As in: explain -n shop pod/api-0", metavar="pod/NAME")],
    namespace: Annotated[str | None, namespace_option("Namespace of the pod.")] = None,
    output: Output = TABLE,
    throttler_namespace: ThrottlerNamespace = "resource-slack",
    throttler_name: ThrottlerName = DEFAULT_NAME,
    controller: Controller = None,
    controller_name: ControllerName = None,
    ca_file: CaFile = None,
    token_file: TokenFile = None,
    access: ClusterAccess = ClusterAccess(),
) -> None:
    """Show the containers of a pod: each one's state and place in the queue, why it waits, what would end it.

    The pod is read with your own rights, and what its node's agent says comes as for `throttler status`. Without the
    rights for that, or while no controller answers, it still shows what the pod itself says, and what is missing.

    Exit code 0: success; 3: shown without the controller, which would have added more; 2: no such pod, or no cluster.

    [bold]Examples[/bold]

        resource-slack throttler explain -n shop pod/api-0

        resource-slack throttler explain -n shop pod/api-0 -o json
    """
    kind, slash, name = pod.rpartition("/")
    if (slash and kind not in _KINDS) or not name:
        raise UserError(f"{pod}: is no pod; write one such as {_EXAMPLE}")
    from slack.cli.throttler.controller_view import ControllerAddress, ControllerView
    from slack.cli.throttler.explain_answer import document

    where = ControllerAddress(throttler_namespace, throttler_name, controller, controller_name, ca_file, token_file)
    view, not_seen = ControllerView(where), list[str]()
    inside = namespace or context_namespace(access)
    told = _told(view, inside, name, access, not_seen)
    shown = document(inside, name, told, not_seen, time.time())
    if output.for_machines:
        print_document(shown, output)
    else:
        from slack.cli.throttler.explain_answer import print_explanation

        print_explanation(shown, wide=output.is_wide)
    if shown["agent"] == "unknown":
        raise typer.Exit(INFEASIBLE)


def _told(
    view: "ControllerView", namespace: str, name: str, access: ClusterAccess, not_seen: list[str]
) -> "PodStanding":
    from slack.kube.errors import ConnectionFailed
    from slack.throttler.reports.pod_standing import stand_of_rows

    with ExitStack() as stack:
        try:
            connection = stack.enter_context(api_server(access))
        except ConnectionFailed as error:  # no kubeconfig: what the controller knows is all that can be seen
            if view.where.needs_api_server:
                raise
            not_seen.append(f"the pod itself: {error}")
            return stand_of_rows(view.read(None, {"namespace": namespace, "pod": name}))
        return _join(connection, view, namespace, name, not_seen)


def _join(
    connection: "Connection", view: "ControllerView", namespace: str, name: str, not_seen: list[str]
) -> "PodStanding":
    """Join what the pod shows with what its node's agent says."""
    from slack.throttler.reports.pod_standing import stand

    facts = _facts(connection, namespace, name)
    found: View | None = None
    spec: ThrottlePolicySpec | None = None
    if facts.agent_decides:
        found = _view(connection, view, str(facts.node), not_seen)
        policies = {report.policy for report in found.reports if report.policy} if found is not None else set()
        spec = next((_spec(connection, policy, not_seen) for policy in policies), None)
    return stand(
        facts,
        found,
        spec=spec,
        namespace_asks=None if facts.backend is not None else _namespace_asks(connection, namespace),
        never_gated=frozenset((_SYSTEM_NAMESPACE, view.where.namespace)),
    )


def _facts(connection: "Connection", namespace: str, name: str) -> "PodFacts":
    from slack.cli.inputs.objects import item
    from slack.kube.errors import ApiError
    from slack.kube.paths import resource_path
    from slack.throttler.podspec.shape import InvalidManifest
    from slack.throttler.reports.pod_facts import PodFacts

    source = f"{connection.address}: pod {namespace}/{name}"
    try:
        pod = item(connection, resource_path("v1", "pods", namespace=namespace, name=name))
    except ApiError as error:
        if error.status != 403:
            raise
        raise UserError(f"{source}: not allowed to see it: needs get of pods in namespace {namespace}") from None
    if pod is None:
        raise UserError(f"{source}: there is none of this name")
    try:
        return PodFacts.from_manifest(pod)
    except InvalidManifest as error:
        raise UserError(f"{source}: {error}") from None


def _view(connection: "Connection", view: "ControllerView", node: str, not_seen: list[str]) -> "View | None":
    from slack.cli.throttler.controller_view import NoView
    from slack.kube.errors import KubeError

    try:
        return view.read(connection, {"node": node})
    except (NoView, KubeError) as error:
        not_seen.append(f"what its node's agent says: {error}")
        return None


def _spec(connection: "Connection", policy: str, not_seen: list[str]) -> "ThrottlePolicySpec | None":
    from slack.cli.inputs.objects import item
    from slack.cluster.labels import API_VERSION
    from slack.kube.errors import ApiError
    from slack.kube.paths import resource_path
    from slack.throttler.config import InvalidThrottlePolicy, parse_throttle_policy
    from slack.throttler.crd import PLURAL

    try:
        found = item(connection, resource_path(API_VERSION, PLURAL, name=policy))
        return None if found is None else parse_throttle_policy(found, source=f"throttlepolicy {policy}").spec
    except ApiError as error:
        if error.status != 403:
            raise
        not_seen.append(f"throttlepolicy {policy}: not allowed to see it: needs get of throttlepolicies")
    except InvalidThrottlePolicy as error:
        not_seen.append(str(error))
    return None


def _namespace_asks(connection: "Connection", namespace: str) -> bool | None:
    """Whether the namespace has the label; None: that may not be seen."""
    from slack.cli.inputs.objects import item
    from slack.kube.errors import ApiError
    from slack.kube.paths import resource_path
    from slack.throttler.injection import ENABLED

    try:
        found = item(connection, resource_path("v1", "namespaces", name=namespace))
    except ApiError as error:
        if error.status != 403:
            raise
        return None
    labels: dict[str, Any] = ((found or {}).get("metadata") or {}).get("labels") or {}
    return labels.get(ENABLED) == "true"
