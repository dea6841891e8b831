"""`status`: is my slack there? Reads only; exit code 0 when nothing is wrong, 3 when something is."""

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.inputs.api_server import api_server
from slack.cli.inputs.cluster_names import policy_names
from slack.cli.inputs.flags import Selector
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.terminal.formats import TABLE, ListedRows, Output, print_document, watch_document
from slack.cli.terminal.problems import UserError
from slack.kube.access import ClusterAccess
from slack.process.exit_codes import INFEASIBLE

if TYPE_CHECKING:
    from slack.cli.documents.status import PolicyStatus, StatusFinding
    from slack.health.answer import Health, HealthFinding, PolicyHealth

_Policy = Annotated[
    str | None,
    typer.Argument(help="Only this SlackPolicy.", metavar="POLICY", show_default=False, autocompletion=policy_names),
]
_Output = Annotated[
    Output, ListedRows("policies", "slackpolicy.resource-slack.io", text="wide adds nodes and pods without capacity.")
]
_Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it again whenever it changes.")]
_Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help="Namespace of the placeholders and the lease. Default resource-slack; where nothing is there, the one "
        "where the operator is found.",
        metavar="NAME",
        show_default=False,
    ),
]
_LeaseName = Annotated[
    str | None,
    typer.Option(
        "--lease-name",
        help="Name of the operator's lease. Default resource-slack, or that of the operator that is found.",
        metavar="NAME",
        show_default=False,
    ),
]


@with_kubectl_flags
def status(
    policy: _Policy = None,
    output: _Output = TABLE,
    watch: _Watch = False,
    selector: Selector = "",
    namespace: _Namespace = None,
    lease_name: _LeaseName = None,
    access: ClusterAccess = ClusterAccess(),
) -> None:
    """Show whether the reserved capacity is in place, and how to fix it if not.

    Only reads. The right to list SlackPolicies is enough. With the right to see pods and leases in the operator's
    namespace it also shows the nodes of placeholders and whether the operator runs.

    Exit code 0: nothing is wrong, also while a refill is under way or a ceiling binds; 3: something is wrong, or
    unknown; 2: bad input or no cluster. To wait until the capacity is there:
    kubectl wait --for=condition=SlackSatisfied slackpolicy/NAME.

    [bold]Examples[/bold]

        kubectl slack status

        kubectl slack status web -o wide

        kubectl slack status --watch

        kubectl slack status -l team=web -o custom-columns=NAME:.name,STATE:.state.name

        kubectl slack status -o jsonpath='{.policies[*].name}'
    """
    if policy is not None and selector:
        raise UserError("--selector: not together with POLICY; leave one of the two out")
    look = partial(_health, policy, selector, namespace, lease_name, access)
    if watch:
        from slack.kube.errors import KubeError

        watch_document(look, lambda shown: _print(shown, output), document, output, passing=(KubeError, UserError))
    shown = look()
    _print(shown, output)
    if not shown.good:
        raise typer.Exit(INFEASIBLE)


def _health(
    policy: str | None, selector: str, namespace: str | None, lease_name: str | None, access: ClusterAccess
) -> "Health":
    from slack.capacity_buffers.answer import NOT_PROBED, answer_of
    from slack.cli.inputs.buffers import read_buffers
    from slack.cli.status.observe import observe_operator
    from slack.health.verdict import assess

    with api_server(access) as connection:
        seen, at_namespace, at_lease = observe_operator(
            connection, policy, namespace=namespace, lease_name=lease_name, selector=selector
        )
        buffers = read_buffers(connection, at_namespace) if policy is None and not selector else None
    shown = assess(seen, now=time.time(), namespace=at_namespace, lease_name=at_lease)
    if buffers is None or not (buffers[0] or buffers[1]):
        return shown
    answers = [answer_of(own, None) for own in buffers[0]]
    server = NOT_PROBED if buffers[1] is None else str(buffers[1])
    return replace(shown, buffers=tuple((each.name, each.headline) for each in answers), buffer_server=server)


def _print(shown: "Health", output: Output) -> None:
    if output.for_machines:
        print_document(document(shown), output)
    else:
        from slack.cli.status.answer_text import print_answer

        print_answer(shown, wide=output.is_wide, headers=output.headers)


def document(shown: "Health") -> dict[str, Any]:
    """Return the answer for machines: the same for people's eyes and for `jq`."""
    from slack.cli.documents.record import API_VERSION
    from slack.cli.documents.status import BufferSeen, OperatorSeen, Status

    return Status(
        api_version=API_VERSION,
        kind="Status",
        good=shown.good,
        satisfied=shown.satisfied,
        built_in=shown.built_in,
        idle=shown.idle,
        operator=OperatorSeen(runs=shown.operator_runs, text=shown.operator),
        not_seen=list(shown.unseen),
        buffers=[BufferSeen(name=name, text=text) for name, text in shown.buffers],
        buffer_server=shown.buffer_server,
        findings=[_finding(finding) for finding in (*shown.operator_findings, *shown.built_in_findings)],
        policies=[_policy(policy) for policy in shown.policies],
    ).document()


def _policy(policy: "PolicyHealth") -> "PolicyStatus":
    from slack.cli.documents.status import PolicyState, PolicyStatus

    return PolicyStatus(
        name=policy.name,
        good=policy.good,
        ready=policy.ready,
        satisfied=policy.satisfied,
        not_known_since=policy.unknown_since,
        text=policy.headline,
        state=PolicyState(
            name=policy.state.name, calm=policy.state.calm, words=policy.state.words, remedy=policy.state.remedy
        ),
        limit=policy.status.limit or "",
        bound=policy.bound,
        pending=policy.pending,
        nodes={shape: dict(nodes) for shape, nodes in policy.nodes_of_shape.items()},
        findings=[_finding(finding) for finding in policy.findings],
        status=policy.status.document(),
    )


def _finding(finding: "HealthFinding") -> "StatusFinding":
    from slack.cli.documents.status import StatusFinding

    return StatusFinding(
        level=str(finding.level),
        reason=finding.reason,
        text=finding.text,
        advice=finding.advice or "",
        since=finding.since or "",
    )
