"""The flags that the audit's commands share, checked: where the counters come from and how long is waited between two.

Three sources exclude each other: this node's cgroups (--root, --interval), every node through the API server
(--cluster, --interval) and a Prometheus' history (--prometheus, --window).
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from slack.cli.completing import node_names
from slack.cli.problems import UserError

LOCAL_SECONDS = 10.0
"""100 enforcement periods of 100 ms: fewer mean nothing."""
CLUSTER_SECONDS = 60.0
"""cAdvisor reads each cgroup every 10 to 15 s only."""
HISTORY_SECONDS = 3600.0
_LEAST_SECONDS, _LEAST_CLUSTER_SECONDS, _LEAST_HISTORY_SECONDS = 1.0, 30.0, 60.0


class Kind(StrEnum):
    """Which source."""

    CGROUPS = "cgroups"
    CADVISOR = "cadvisor"
    PROMETHEUS = "prometheus"


class Output(StrEnum):
    """How the answer is printed."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


class FailOn(StrEnum):
    """From which severity on the exit code is 3."""

    NONE = "none"
    WARN = "warn"
    HIGH = "high"


Root = Annotated[
    Path | None,
    typer.Option(
        "--root",
        help="Root of the node's file system, or of a recorded tree. Default /.",
        metavar="DIR",
        show_default=False,
    ),
]
Interval = Annotated[
    str | None,
    typer.Option(
        "--interval",
        help="Between the two samples. Default 10s, with --cluster 60s.",
        metavar="DURATION",
        show_default=False,
    ),
]
Cluster = Annotated[
    bool, typer.Option("--cluster", help="Every node, through the API server: its kubelets' cAdvisor, read twice.")
]
Prometheus = Annotated[
    str | None,
    typer.Option("--prometheus", help="The history that this Prometheus has of cAdvisor's series.", metavar="URL"),
]
HistoryWindow = Annotated[
    str | None,
    typer.Option(
        "--window", help="With --prometheus: how far back. Default 1h.", metavar="DURATION", show_default=False
    ),
]
Nodes = Annotated[
    list[str] | None,
    typer.Option(
        "--node",
        help="Only this node; may be repeated. Without --cluster: the name that this machine has as a node.",
        metavar="NAME",
        autocompletion=node_names,
    ),
]
KubeletPods = Annotated[
    str | None,
    typer.Option(
        "--kubelet-pods",
        help="Names from a kubelet's /pods or a file of it instead of the API, such as http://127.0.0.1:10255/pods.",
        metavar="FILE|URL",
    ),
]
Names = Annotated[
    bool,
    typer.Option("--names/--no-names", help="Ask the cluster for the names of pods; without: uids and container ids."),
]


@dataclass(frozen=True, slots=True)
class Where:
    """Where the counters and the names come from."""

    kind: Kind
    root: Path = Path("/")
    seconds: float = LOCAL_SECONDS
    """Between two samples; the window of a history."""
    prometheus: str = ""
    nodes: tuple[str, ...] = ()
    kubelet_pods: str | None = None
    names: bool = True
    kubeconfig: Path | None = None
    context: str | None = None


def where(
    *,
    root: Path | None,
    interval: str | None,
    cluster: bool,
    prometheus: str | None,
    window: str | None,
    nodes: list[str] | None,
    kubelet_pods: str | None,
    names: bool,
    kubeconfig: Path | None,
    context: str | None,
) -> Where:
    """Check the flags against each other.

    Raises:
        UserError: for two sources at once, a flag that the source does not know, and durations that are none.
    """
    kind = Kind.PROMETHEUS if prometheus is not None else Kind.CADVISOR if cluster else Kind.CGROUPS
    _fitting(kind, root=root, interval=interval, cluster=cluster, window=window, kubelet_pods=kubelet_pods)
    if root is not None and not root.is_dir():
        raise UserError(f"--root: {root} is no folder; give a node's root such as /host, or a recorded tree")
    least, default = _bounds(kind)
    flag, text = ("--window", window) if kind is Kind.PROMETHEUS else ("--interval", interval)
    return Where(
        kind=kind,
        root=root or Path("/"),
        seconds=default if text is None else _seconds(flag, text, least),
        prometheus=prometheus or "",
        nodes=tuple(dict.fromkeys(nodes or ())),
        kubelet_pods=kubelet_pods,
        names=names,
        kubeconfig=kubeconfig,
        context=context,
    )


def _bounds(kind: Kind) -> tuple[float, float]:
    """Return the least and the usual seconds of a source."""
    return {
        Kind.CGROUPS: (_LEAST_SECONDS, LOCAL_SECONDS),
        Kind.CADVISOR: (_LEAST_CLUSTER_SECONDS, CLUSTER_SECONDS),
        Kind.PROMETHEUS: (_LEAST_HISTORY_SECONDS, HISTORY_SECONDS),
    }[kind]


def _fitting(
    kind: Kind,
    *,
    root: Path | None,
    interval: str | None,
    cluster: bool,
    window: str | None,
    kubelet_pods: str | None,
) -> None:
    local, history = kind is Kind.CGROUPS, kind is Kind.PROMETHEUS
    if history and cluster:
        raise UserError("--prometheus: give either a Prometheus' history or --cluster, not both")
    if root is not None and not local:
        raise UserError("--root: belongs to this node's cgroups; leave it out with --cluster and --prometheus")
    if kubelet_pods is not None and not local:
        raise UserError("--kubelet-pods: names one node's pods; leave it out with --cluster and --prometheus")
    if interval is not None and history:
        raise UserError("--interval: a history has no interval between samples; give --window, such as --window 1h")
    if window is not None and not history:
        raise UserError("--window: belongs to --prometheus; give --interval for how long to watch the counters")


def _seconds(flag: str, text: str, least: float) -> float:
    from slack.cli.tune import duration

    value = duration(flag, text).total_seconds()
    if value < least:
        why = "; cAdvisor reads its counters every 10 to 15 s" if least == _LEAST_CLUSTER_SECONDS else ""
        raise UserError(f"{flag}: {text} is too short; give {least:g}s or longer{why}")
    return value
