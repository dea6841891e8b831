"""The flags that the audit's commands share, checked: where the counters come from and how long is waited between two.

Three sources exclude each other: this node's cgroups (--root, --interval), every node through the API server
(--all-nodes, --interval) and a Prometheus' history (--prometheus, --window).
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from slack.audit.results.source_kind import SourceKind
from slack.cli.inputs.cluster_names import node_names
from slack.cli.inputs.files import is_folder
from slack.cli.terminal.problems import UserError
from slack.kube.access import ClusterAccess

LOCAL_SECONDS = 15.0
"""150 enforcement periods of 100 ms: fewer than 100 mean nothing, and what is busy with pauses has not all of them."""
CLUSTER_SECONDS = 60.0
"""cAdvisor reads each cgroup every 10 to 15 s only."""
HISTORY_SECONDS = 3600.0
_LEAST_SECONDS, _LEAST_CLUSTER_SECONDS, _LEAST_HISTORY_SECONDS = 1.0, 30.0, 60.0


class LevelName(StrEnum):
    """`slack.audit.findings.sample.CgroupLevel`, which is not loaded for a help text: it brings msgspec."""

    NODE = "node"
    KUBEPODS = "kubepods"
    QOS = "qos"
    POD = "pod"
    CONTAINER = "container"
    OTHER = "other"


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
        help="Between the two samples. Default 15s, with --all-nodes 60s: 100 periods of 100 ms are the least.",
        metavar="DURATION",
        show_default=False,
    ),
]
AllNodes = Annotated[
    bool, typer.Option("--all-nodes", help="Every node, through the API server: its kubelets' cAdvisor, read twice.")
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
PrometheusCluster = Annotated[
    str | None,
    typer.Option(
        "--prometheus-cluster",
        help="With --prometheus: only this cluster, by the label cluster, or LABEL=NAME by another one.",
        metavar="NAME",
        show_default=False,
    ),
]
Nodes = Annotated[
    list[str] | None,
    typer.Option(
        "--node",
        help="Only this node; may be repeated. Without --all-nodes: the name that this machine has as a node.",
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
class SourceOptions:
    """Where the counters and the names come from."""

    kind: SourceKind
    root: Path = Path("/")
    seconds: float = LOCAL_SECONDS
    """Between two samples; the window of a history."""
    duration: str = ""
    """The same as somebody wrote it; empty for the usual one."""
    prometheus: str = ""
    prometheus_cluster: str = ""
    """One of several clusters in it: NAME or LABEL=NAME."""
    nodes: tuple[str, ...] = ()
    kubelet_pods: str | None = None
    names: bool = True
    access: ClusterAccess = field(default_factory=ClusterAccess)

    @property
    def pause_seconds(self) -> float:
        """Seconds between two looks of --watch."""
        return CLUSTER_SECONDS if self.kind is SourceKind.PROMETHEUS else self.seconds

    def flags(self, node: str | None = None) -> str:
        """Return the flags that open the same source again, as a shell takes them.

        Args:
            node: Of a cluster's nodes only this one; None for those that were chosen.
        """
        return " ".join(map(shlex.quote, self._flags(node)))

    def _flags(self, node: str | None) -> Iterator[str]:
        if self.kind is SourceKind.CADVISOR:
            yield "--all-nodes"
        elif self.kind is SourceKind.PROMETHEUS:
            yield from ("--prometheus", _without_password(self.prometheus))
        if self.prometheus_cluster:
            yield from ("--prometheus-cluster", self.prometheus_cluster)
        if self.root != Path("/"):
            yield from ("--root", str(self.root))
        if self.duration:
            yield from ("--window" if self.kind is SourceKind.PROMETHEUS else "--interval", self.duration)
        for name in (node,) if node and self.kind is SourceKind.CADVISOR else self.nodes:
            yield from ("--node", name)
        if self.kubelet_pods is not None:
            yield from ("--kubelet-pods", self.kubelet_pods)
        if not self.names:
            yield "--no-names"
        chosen = self.access
        for flag, value in (
            ("--kubeconfig", chosen.kubeconfig),
            ("--context", chosen.context),
            ("--user", chosen.user),
        ):
            if value is not None:
                yield from (flag, str(value))


def _without_password(url: str) -> str:
    """Return an address as it can be shown: what is printed ends up in tickets."""
    parts = urlsplit(url)  # was read before
    user, at, place = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    return parts._replace(netloc=f"{name}:PASSWORD@{place}").geturl() if at and colon else url


def source_options(
    *,
    root: Path | None,
    interval: str | None,
    all_nodes: bool,
    prometheus: str | None,
    window: str | None,
    prometheus_cluster: str | None,
    nodes: list[str] | None,
    kubelet_pods: str | None,
    names: bool,
    access: ClusterAccess,
) -> SourceOptions:
    """Check the flags against each other.

    Raises:
        UserError: for two sources at once, a flag that the source does not know, and durations that are none.
    """
    kind = SourceKind.PROMETHEUS if prometheus is not None else SourceKind.CADVISOR if all_nodes else SourceKind.CGROUPS
    _fitting(kind, root=root, interval=interval, all_nodes=all_nodes, window=window, kubelet_pods=kubelet_pods)
    _fitting_cluster(kind, prometheus_cluster)
    if root is not None and not is_folder(root):
        raise UserError(f"--root: {root} is no folder; give a node's root such as /host, or a recorded tree")
    _fitting_names(kind, names=names, kubelet_pods=kubelet_pods, cluster_named=access.is_chosen)
    least, default = _bounds(kind)
    flag, text = ("--window", window) if kind is SourceKind.PROMETHEUS else ("--interval", interval)
    return SourceOptions(
        kind=kind,
        root=root or Path("/"),
        seconds=default if text is None else _seconds(flag, text, least),
        duration=text or "",
        prometheus=prometheus or "",
        prometheus_cluster=prometheus_cluster or "",
        nodes=tuple(dict.fromkeys(nodes or ())),
        kubelet_pods=kubelet_pods,
        names=names,
        access=access,
    )


def _bounds(kind: SourceKind) -> tuple[float, float]:
    """Return the least and the usual seconds of a source."""
    return {
        SourceKind.CGROUPS: (_LEAST_SECONDS, LOCAL_SECONDS),
        SourceKind.CADVISOR: (_LEAST_CLUSTER_SECONDS, CLUSTER_SECONDS),
        SourceKind.PROMETHEUS: (_LEAST_HISTORY_SECONDS, HISTORY_SECONDS),
    }[kind]


def _fitting(
    kind: SourceKind,
    *,
    root: Path | None,
    interval: str | None,
    all_nodes: bool,
    window: str | None,
    kubelet_pods: str | None,
) -> None:
    local, history = kind is SourceKind.CGROUPS, kind is SourceKind.PROMETHEUS
    if history and all_nodes:
        raise UserError("--prometheus: give either a Prometheus' history or --all-nodes, not both")
    if root is not None and not local:
        raise UserError("--root: belongs to this node's cgroups; leave it out with --all-nodes and --prometheus")
    if kubelet_pods is not None and not local:
        raise UserError("--kubelet-pods: names one node's pods; leave it out with --all-nodes and --prometheus")
    if interval is not None and history:
        raise UserError("--interval: a history has no interval between samples; give --window, such as --window 1h")
    if window is not None and not history:
        raise UserError("--window: belongs to --prometheus; give --interval for how long to watch the counters")


def _fitting_cluster(kind: SourceKind, cluster: str | None) -> None:
    if cluster is None:
        return
    if kind is not SourceKind.PROMETHEUS:
        raise UserError("--prometheus-cluster: belongs to --prometheus; --context chooses the cluster of --all-nodes")
    label, equals, name = cluster.rpartition("=")
    if not name or (equals and not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", label)):
        raise UserError(f"--prometheus-cluster: {cluster!r} is no cluster; give NAME, or LABEL=NAME")


def _fitting_names(kind: SourceKind, *, names: bool, kubelet_pods: str | None, cluster_named: bool) -> None:
    if kubelet_pods is not None and not names:
        raise UserError("--kubelet-pods: gives the names that --no-names leaves out; leave one of the two out")
    if cluster_named and kind is not SourceKind.CADVISOR and (kubelet_pods is not None or not names):
        other = "--kubelet-pods" if kubelet_pods is not None else "--no-names"
        raise UserError(f"--kubeconfig, --context: no cluster is asked with {other}; leave one of the two out")


def _seconds(flag: str, text: str, least: float) -> float:
    from slack.cli.inputs.flag_values import duration

    value = duration(flag, text).total_seconds()
    if value < least:
        why = "; cAdvisor reads its counters every 10 to 15 s" if least == _LEAST_CLUSTER_SECONDS else ""
        raise UserError(f"{flag}: {text} is too short; give {least:g}s or longer{why}")
    return value
