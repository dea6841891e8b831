"""`scorer score`: the decision that the scorer would make, offline: of files, or of recorded decisions. Reads only."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.inputs.files import name_of, read_bytes
from slack.cli.inputs.flag_values import instant
from slack.cli.inputs.flags import SnapshotFile
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.terminal.formats import TABLE, Output, print_document, wide_columns
from slack.cli.terminal.problems import UserError

if TYPE_CHECKING:
    from slack_operator.scorer.settings import ScorerSettings

MOST_LOAD_BYTES = 64 << 20
_LoadFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--load",
        help="What a load watcher answers at /watcher, ours or upstream's; once for each window.",
        metavar="FILE",
    ),
]
_PodFile = Annotated[
    Path | None,
    typer.Option("--pod", help="The pod that is to be placed, or a workload with its template.", metavar="FILE"),
]
_Lines = Annotated[
    Path | None,
    typer.Option("--lines", help="Decisions that `scorer serve --record` wrote; - is stdin.", metavar="FILE"),
]
_Config = Annotated[Path | None, typer.Option("--config", help="The settings file of `scorer serve`.", metavar="FILE")]
_Algorithms = Annotated[
    str | None,
    typer.Option(
        "--algorithms",
        help="Other algorithms than those of --config: names with weights such as LoadVariationRiskBalancing=2, or "
        "JSON with arguments.",
        metavar="LIST",
        show_default=False,
    ),
]
_At = Annotated[
    str | None,
    typer.Option(
        "--at", help="Score as of this instant (RFC 3339) instead of the time of the load figures.", metavar="TIME"
    ),
]
_PlaceholderNamespace = Annotated[
    str | None,
    typer.Option(
        "--placeholder-namespace",
        help="Namespace of the placeholders, which are no load.",
        metavar="NAME",
        show_default=False,
    ),
]


@with_kubectl_flags
def score(
    snapshot: SnapshotFile = None,
    load: _LoadFiles = None,
    pod: _PodFile = None,
    lines: _Lines = None,
    config: _Config = None,
    algorithms: _Algorithms = None,
    output: Output = TABLE,
    at: _At = None,
    placeholder_namespace: _PlaceholderNamespace = None,
) -> None:
    """Score nodes for a pod, offline, with every figure on the way; or recorded decisions again.

    All nodes of the snapshot are scored; in a cluster the scheduler asks only for those that the pod fits on. Without
    --load no node's load is known, and requests decide. Recorded decisions can be made again with other algorithms and
    other arguments. Exit code 0; 2: bad input.

    [bold]Examples[/bold]

        kubectl get nodes,pods -A -o json > cluster.json

        curl -s 127.0.0.1:2020/watcher?window=5m > watcher.json

        resource-slack scorer score --snapshot cluster.json --load watcher.json --pod pod.yaml -o wide

        resource-slack scorer score --lines decisions.jsonl --algorithms LoadVariationRiskBalancing
    """
    settings = _settings(config, algorithms, placeholder_namespace)
    if lines is not None:
        if snapshot or load or pod or at:
            raise UserError("--lines: recorded decisions have their nodes, load and pod; leave out the other files")
        from slack.cli.scorer.offline import scored_lines
        from slack.cli.scorer.tables import print_lines

        document = scored_lines(read_bytes(lines), name_of(lines), settings)
        show = print_lines
    else:
        if snapshot is None or pod is None:
            missing = "--snapshot" if snapshot is None else "--pod"
            raise UserError(f"{missing}: give --snapshot and --pod, and --load for real load; or --lines")
        from slack.cli.scorer.offline import Files, score_document
        from slack.cli.scorer.tables import print_scores

        files = Files(
            (name_of(snapshot), read_bytes(snapshot)),
            tuple((name_of(path), read_bytes(path, MOST_LOAD_BYTES)) for path in load or ()),
            (name_of(pod), read_bytes(pod, MOST_LOAD_BYTES)),
        )
        document = score_document(files, settings, None if at is None else instant(at), time.time())
        show = print_scores
    _print(document, output, show)


def _settings(config: Path | None, algorithms: str | None, namespace: str | None) -> "ScorerSettings":
    from slack.process.settings import load
    from slack_operator.scorer.settings import ScorerSettings

    return load(ScorerSettings, {"algorithms": algorithms, "namespace": namespace}, {}, file=config)


def _print(document: dict[str, Any], output: Output, show: Any) -> None:
    if output.for_machines:
        print_document(document, output)
        return
    with wide_columns(output):
        show(document, wide=output.is_wide)
