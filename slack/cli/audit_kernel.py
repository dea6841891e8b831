"""`audit kernel`: is a kernel affected by the bugs of the CFS quota; this machine's, a named one, or every node's."""

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from slack.cfs.kernel import Feature, KernelFeatures, KernelState, KernelVerdict, kernel_features, kernel_verdict
from slack.cli.audit_words import clean
from slack.cli.problems import UserError

if TYPE_CHECKING:
    from slack.cfs.probe import ProbeResult

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
"""`slack.cfs.probe.ProbeState`, which is not loaded unless it is asked for."""


@dataclass(frozen=True, slots=True)
class Group:
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
    as_json: bool,
    kubeconfig: Path | None,
    context: str | None,
) -> bool:
    """Print verdicts; return whether a kernel is affected.

    Raises:
        UserError, KubeError: for an empty release, no cluster, and a probe that cannot run.
    """
    if remote:
        groups = grouped(_releases(kubeconfig, context))
    elif release is not None:
        if not release.strip():
            raise UserError("--release: is empty; give the output of `uname -r`, such as 6.1.0-44-amd64")
        groups = (Group(kernel_verdict(release.strip(), version), ()),)
    else:
        groups = (Group(kernel_verdict(os.uname().release, _own_version()), ()),)
    probed = _probed() if probe else None
    if as_json:
        typer.echo(json.dumps(document(groups, probed), indent=2, ensure_ascii=False))
    else:
        _print(groups, probed)
    if probed is not None and probed.state == _NOT_RUN:
        raise UserError(f"--probe: {probed.reason}")
    bad = probed is not None and probed.state == _BAD
    return bad or any(one.verdict.state is KernelState.AFFECTED for one in groups)


def _probed() -> "ProbeResult":
    from slack.cfs.probe import probe

    typer.echo(f"probing this kernel for {_PROBE_SECONDS:g} s", err=True)
    return probe(_PROBE_SECONDS)


def _own_version() -> str:
    """Return /proc/version: `uname -v` with more around it."""
    try:
        return _PROC_VERSION.read_text().strip()
    except OSError:
        return os.uname().version


def _releases(kubeconfig: Path | None, context: str | None) -> dict[str, str]:
    """Return each node's `uname -r` as its kubelet has told it."""
    from slack.cli.audit_cluster import Node
    from slack.cli.cluster import Page, listed
    from slack.kube.kubeconfig import connect

    connection = connect(kubeconfig, context)
    try:
        nodes = listed(connection, "v1", "nodes", Page[Node])
        return {node.metadata.name: node.status.node_info.kernel_version for node in nodes}
    finally:
        connection.close()


def grouped(releases: Mapping[str, str]) -> tuple[Group, ...]:
    """Return nodes by kernel, the affected first."""
    nodes: dict[str, list[str]] = {}
    for node, release in sorted(releases.items()):
        nodes.setdefault(release, []).append(node)
    groups = [Group(kernel_verdict(release), tuple(names)) for release, names in nodes.items()]
    return tuple(sorted(groups, key=lambda one: (_ORDER.index(one.verdict.state), one.verdict.release)))


def document(groups: tuple[Group, ...], probed: "ProbeResult | None") -> dict[str, Any]:
    """Return the verdicts for machines."""
    from slack.cli.audit_output import kernel_document

    return {
        "schema": SCHEMA,
        "kernels": [
            {
                **kernel_document(one.verdict),
                "nodes": list(one.nodes),
                "features": [
                    {
                        "name": feature.name,
                        "present": feature.present,
                        "since": feature.since,
                        "confidence": str(feature.confidence),
                        "note": feature.note,
                    }
                    for feature in features_of(one.verdict.release)
                ],
            }
            for one in groups
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


def ask_for(one: Group) -> str:
    """Return what would decide an unknown kernel: a command to run, or '' where nothing would."""
    verdict = one.verdict
    if verdict.state is not KernelState.UNKNOWN:
        return ""
    release = shlex.quote(verdict.release or "RELEASE")
    then = f'resource-slack audit kernel --release {release} --version-text "$(uname -v)"'
    where = f"on {one.nodes[0]} " if one.nodes else ""
    return f"{verdict.ask}; then {where}run: {then}" if verdict.ask else ""


def _print(groups: tuple[Group, ...], probed: "ProbeResult | None") -> None:
    from rich.text import Text

    from slack.cli.tables import console

    out = console()
    for number, one in enumerate(groups):
        verdict = one.verdict
        if number:
            out.print()
        bug = f" by the {verdict.bug} bug" if verdict.bug is not None else ""
        nodes = f"  {_some(one.nodes)}" if one.nodes else ""
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
        if asked := ask_for(one):
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
    return ", ".join(f"{one.name} {said[one.present]}" for one in features_of(release))


def _some(nodes: tuple[str, ...]) -> str:
    more = len(nodes) - _NODES_SHOWN
    return ", ".join(nodes[:_NODES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
