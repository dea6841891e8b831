"""`scorer explain`: asks a scorer that runs why a pod went where it went."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from slack.cli.inputs.api_server import context_namespace
from slack.cli.inputs.flags import namespace_option
from slack.cli.terminal.problems import UserError
from slack.kube.access import ClusterAccess

_SCORER = "The scorer's address; kubectl port-forward reaches one in a cluster."
_MOST_BYTES = 4 << 20


class ExplainOutput(StrEnum):
    """How it is printed."""

    TEXT = "text"
    JSON = "json"


def explain(
    pod: Annotated[str, typer.Argument(help="The pod: api-x2x4z, or pod/api-x2x4z.", metavar="POD")],
    namespace: Annotated[str | None, namespace_option("Namespace of the pod.")] = None,
    scorer: Annotated[str, typer.Option("--scorer", help=_SCORER, metavar="URL")] = "http://127.0.0.1:8888",
    output: Annotated[ExplainOutput, typer.Option("--output", "-o", help="Output format.")] = ExplainOutput.TEXT,
) -> None:
    """Show why a pod went to its node: use, age, prediction, and each algorithm's score, next to the best nodes.

    Running pods are remembered as they were decided, two thousand at most; others are scored as they would be now.

    [bold]Examples[/bold]

        kubectl -n resource-slack port-forward deploy/resource-slack-scorer 8888

        resource-slack scorer explain -n shop pod/api-x2x4z
    """
    found = _ask(scorer, namespace or context_namespace(ClusterAccess()), pod)
    if output is ExplainOutput.JSON:
        typer.echo(json.dumps(found, indent=2))
        return
    typer.echo(_text(found))


def _ask(scorer: str, namespace: str, pod: str) -> Mapping[str, Any]:
    import urllib3

    http = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(connect=3.0, read=10.0))
    try:
        answer = http.request(
            "GET",
            f"{scorer.rstrip('/')}/explain",
            fields={"namespace": namespace, "pod": pod},
            redirect=False,
            preload_content=False,
        )
        body = answer.read(_MOST_BYTES)
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        raise UserError(f"--scorer {scorer}: does not answer: {error}") from None
    if answer.status == 404:
        raise UserError(body.decode(errors="replace").strip()[:500])
    try:
        found = json.loads(body) if answer.status == 200 else None
    except ValueError:
        found = None
    if not isinstance(found, dict) or "rule" not in found:
        raise UserError(f"--scorer {scorer}: this is no scorer (status {answer.status})")
    return found


def _text(found: Mapping[str, Any]) -> str:
    from slack.cli.scorer.tables import RULES

    when = "at" if found["remembered"] else "not remembered; as it would be now,"
    lines = [
        f"pod {found['pod']}: {when} {found['at']}, {found['nodes_asked']} nodes",
        f"rule {found['rule']}: {RULES.get(found['rule'], '')}",
    ]
    if found["nodes_unknown"]:
        lines.append(f"not known here, so at the minimum: {', '.join(found['nodes_unknown'])}")
    chosen = found["chosen"]
    if chosen is not None:
        better = found["nodes_with_a_better_score"]
        lines.append(f"it went to {found['node']}; {better} nodes had a better score from us")
        if better:
            lines.append("  the scheduler adds what its own plugins say: affinity, spreading, taints, images")
    elif found["node"] is None:
        lines.append("it has no node yet")
    shown = [found["chosen"]] if chosen is not None else []
    shown += [node for node in found["best"] if chosen is None or node["node"] != chosen["node"]]
    for node in shown:
        lines.append("")
        lines.append(f"{node['node']}: {node['score']} of {found['highest_score']}, load {node['state']}")
        lines += [f"  {name} {score}" for name, score in node["algorithms"].items()]
        lines += [f"  {term} {value:g}" for term, value in node["terms"].items() if value is not None]
    return "\n".join(lines)
