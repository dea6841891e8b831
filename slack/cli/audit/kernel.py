"""`audit kernel`: is a kernel affected by the bugs of the CFS quota; this machine's, a named one, or every node's."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from slack.audit.kernel.quota_bugs import (
    Feature,
    KernelFeatures,
    KernelState,
    KernelVerdict,
    kernel_features,
    kernel_verdict,
)
from slack.cli.audit.formats import clean
from slack.cli.inputs.api_server import api_server
from slack.cli.terminal.formats import Output, print_document
from slack.cli.terminal.problems import UserError
from slack.kube.access import ClusterAccess

if TYPE_CHECKING:
    from slack.audit.kernel.probe import ProbeResult

SCHEMA = "resource-slack.io/audit-kernel/v1"
_STYLES = {
    KernelState.AFFECTED: "bold red",
    KernelState.UNKNOWN: "yellow",
    KernelState.FIXED: "green",
    KernelState.NEVER_HAD_IT: "green",
}
_ORDER = (KernelState.AFFECTED, KernelState.UNKNOWN, KernelState.FIXED, KernelState.NEVER_HAD_IT)
_NODES_SHOWN = 3
_PROC_VERSION = Path("/proc/version")
_PROBE_SECONDS = 5.0
_BAD, _NOT_RUN = "bad", "not run"
"""`slack.audit.kernel.probe.ProbeState`, which is not loaded unless it is asked for."""


@dataclass(frozen=True, slots=True)
class KernelGroup:
    """Nodes of one kernel."""

    verdict: KernelVerdict
    nodes: tuple[str, ...]
    """Empty for a kernel that belongs to no node."""


def run(
    release: str | None,
    version: str,
    *,
    remote: bool,
    probe: bool,
    output: Output,
    access: ClusterAccess,
) -> bool:
    """Print verdicts; return whether a kernel is affected.

    Raises:
        UserError, KubeError: for an empty release, no cluster, and a probe that cannot run.
    """
    if remote:
        groups = group_by_kernel(_releases(access))
    elif release is not None:
        if not release.strip():
            raise UserError("--release: is empty; give the output of `uname -r`, such as 6.1.0-44-amd64")
        groups = (KernelGroup(kernel_verdict(release.strip(), version), ()),)
    else:
        groups = (KernelGroup(kernel_verdict(os.uname().release, _own_version()), ()),)
    probed = _probed() if probe else None
    if output.for_machines:
        print_document(document(groups, probed), output)
    else:
        _print(groups, probed)
    if probed is not None and probed.state == _NOT_RUN:
        raise UserError(f"--probe: {probed.reason}")
    bad = probed is not None and probed.state == _BAD
    return bad or any(group.verdict.state is KernelState.AFFECTED for group in groups)


def _probed() -> "ProbeResult":
    from slack.audit.kernel.probe import probe

    typer.echo(f"probing this kernel for {_PROBE_SECONDS:g} s", err=True)
    return probe(_PROBE_SECONDS)


def _own_version() -> str:
    """Return /proc/version: `uname -v` with more around it."""
    try:
        return _PROC_VERSION.read_text().strip()
    except OSError:
        return os.uname().version


def _releases(access: ClusterAccess) -> dict[str, str]:
    """Return each node's `uname -r` as its kubelet has told it."""
    from slack.audit.sources.node_objects import AuditedNode
    from slack.kube.paging import list_all
    from slack.kube.paths import resource_path

    with api_server(access) as connection:
        nodes = list(list_all(connection, resource_path("v1", "nodes"), AuditedNode))
        judged = {node.metadata.name: node.kernel_release for node in nodes if node.is_linux}
    if others := len(nodes) - len(judged):
        typer.echo(f"not judged: {others} node{'s' if others > 1 else ''} without Linux", err=True)
    return judged


def group_by_kernel(releases: Mapping[str, str]) -> tuple[KernelGroup, ...]:
    """Return nodes by kernel, the affected first."""
    nodes: dict[str, list[str]] = {}
    for node, release in sorted(releases.items()):
        nodes.setdefault(release, []).append(node)
    groups = [KernelGroup(kernel_verdict(release), tuple(names)) for release, names in nodes.items()]
    return tuple(sorted(groups, key=lambda group: (_ORDER.index(group.verdict.state), group.verdict.release)))


def document(groups: tuple[KernelGroup, ...], probed: "ProbeResult | None") -> dict[str, Any]:
    """Return the verdicts for machines."""
    from slack.cli.audit.export import kernel_document

    return {
        "schema": SCHEMA,
        "kernels": [
            {
                **kernel_document(group.verdict),
                "nodes": list(group.nodes),
                "features": [
                    {
                        "name": feature.name,
                        "present": feature.present,
                        "since": feature.since,
                        "confidence": str(feature.confidence),
                        "note": feature.note,
                    }
                    for feature in features_of(group.verdict.release)
                ],
            }
            for group in groups
        ],
        "probe": None
        if probed is None
        else {
            "state": str(probed.state),
            "why": probed.reason,
            "periods": probed.periods,
            "throttledPeriods": probed.throttled,
            "useOfLimitRatio": probed.use_of_limit,
        },
    }


def features_of(release: str) -> tuple[Feature, ...]:
    """Return what a kernel of that name can do about quotas."""
    found: KernelFeatures = kernel_features(release)
    return found.burst, found.burst_statistics, found.stat_local, found.burst_survives_quota, found.task_throttling


def ask_for(group: KernelGroup) -> str:
    """Return what would decide an unknown kernel: a command to run, or '' where nothing would."""
    verdict = group.verdict
    if verdict.state is not KernelState.UNKNOWN:
        return ""
    release = shlex.quote(verdict.release or "RELEASE")
    then = f'resource-slack audit kernel --release {release} --version-text "$(uname -v)"'
    where = f"on {group.nodes[0]} " if group.nodes else ""
    return f"{verdict.ask}; then {where}run: {then}" if verdict.ask else ""


def _print(groups: tuple[KernelGroup, ...], probed: "ProbeResult | None") -> None:
    from rich.text import Text

    from slack.cli.terminal.console import console

    out = console()
    for number, group in enumerate(groups):
        verdict = group.verdict
        if number:
            out.print()
        bug = f" by the {verdict.bug} bug" if verdict.bug is not None else ""
        nodes = f"  {_some(group.nodes)}" if group.nodes else ""
        out.print(
            Text.assemble(
                (clean(verdict.release) or "(no release)", "bold"),
                "  ",
                (f"{verdict.state}{bug}", _STYLES[verdict.state]),
                nodes,
            ),
            soft_wrap=True,
        )
        out.print(Text(f"  why      {clean(verdict.why)}"), soft_wrap=True)
        if verdict.source:
            sure = f", confidence {verdict.confidence}" if verdict.confidence is not None else ""
            out.print(Text(f"  source   {verdict.source}{sure}"), soft_wrap=True)
        if verdict.fixed_in and verdict.state is KernelState.AFFECTED:
            out.print(Text(f"  fixed in {verdict.fixed_in}"), soft_wrap=True)
        if asked := ask_for(group):
            out.print(Text(f"  ask      {clean(asked)}", style="yellow"), soft_wrap=True)
        if verdict.release:
            out.print(Text(f"  has      {_features(verdict.release)}"), soft_wrap=True)
    if not groups:
        out.print("The cluster has no nodes.")
    if probed is not None:
        out.print()
        style = "bold red" if probed.state == _BAD else ""
        out.print(Text(f"probe    {probed.state}: {probed.reason}", style=style), soft_wrap=True)


def _features(release: str) -> str:
    said = {True: "yes", False: "no", None: "unknown"}
    return ", ".join(f"{feature.name} {said[feature.present]}" for feature in features_of(release))


def _some(nodes: tuple[str, ...]) -> str:
    more = len(nodes) - _NODES_SHOWN
    return ", ".join(nodes[:_NODES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
