"""`audit`: who is throttled by a CPU limit, why, and what to do; and the processes that watch that in a cluster.

Only flags and help texts are here; each command loads what it needs when it runs.
"""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slack.cli.audit.options import (
    AllNodes,
    FailOn,
    HistoryWindow,
    Interval,
    KubeletPods,
    LevelName,
    Names,
    Nodes,
    Prometheus,
    PrometheusCluster,
    Root,
    SourceOptions,
    source_options,
)
from slack.cli.audit.processes import agent, controller
from slack.cli.inputs.cluster_names import namespace_names
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.terminal.formats import TABLE, ListedRows, Output
from slack.cli.terminal.pictures import PictureFile
from slack.cli.terminal.problems import Command, CommandGroup, UserError
from slack.kube.access import ClusterAccess

if TYPE_CHECKING:
    from slack.audit.results.audit_result import FindingFilter

app = typer.Typer(
    cls=CommandGroup,
    invoke_without_command=True,
    rich_markup_mode=None,
)


class KernelFailOn(StrEnum):
    """Which kernels make the exit code 3."""

    NONE = "none"
    AFFECTED = "affected"


_WATCH = "Again after each interval, until Ctrl-C; of the last minute, or of one interval if that is longer."
_Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help="Only this namespace. Default: every namespace.",
        metavar="NAME",
        show_default=False,
        autocompletion=namespace_names,
    ),
]
_ExplainedNamespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help="Namespace of what is explained.",
        metavar="NAME",
        show_default=False,
        autocompletion=namespace_names,
    ),
]


_Watch = Annotated[bool, typer.Option("--watch", "-w", help=_WATCH)]
_Output = Annotated[Output, ListedRows("findings", name="", markdown=True)]
_Pod = Annotated[
    str | None,
    typer.Option("--pod", help="Only this pod: its name or how its uid begins.", metavar="NAME|UID"),
]
_Level = Annotated[LevelName | None, typer.Option("--level", help="Only this level.", metavar="LEVEL")]
_Everything = Annotated[
    bool, typer.Option("--all", help="Every cgroup: fine ones, those without a limit or with too few periods too.")
]
_Limit = Annotated[
    int | None, typer.Option("--limit", help="At most so many lines.", min=1, metavar="LINES", show_default=False)
]
_FailOn = Annotated[FailOn, typer.Option("--fail-on", help="Exit with 3 when something is so bad.")]
_Patches = Annotated[
    Path | None,
    typer.Option(
        "--patches", help="Write a strategic-merge patch a workload into this folder, for GitOps.", metavar="DIR"
    ),
]


@app.callback()
@with_kubectl_flags
def audit(
    ctx: typer.Context,
    root: Root = None,
    interval: Interval = None,
    watch: _Watch = False,
    output: _Output = TABLE,
    all_nodes: AllNodes = False,
    prometheus: Prometheus = None,
    window: HistoryWindow = None,
    prometheus_cluster: PrometheusCluster = None,
    namespace: _Namespace = None,
    pod: _Pod = None,
    level: _Level = None,
    node: Nodes = None,
    everything: _Everything = False,
    limit: _Limit = None,
    fail_on: _FailOn = FailOn.NONE,
    patches: _Patches = None,
    kubelet_pods: KubeletPods = None,
    names: Names = True,
    access: ClusterAccess = ClusterAccess(),
) -> None:
    """Show which containers a CPU limit throttles, why, and what to do.

    Reads the counters of this node's cgroups twice, v1, v2 or hybrid, those of every node (--all-nodes), or a history
    (--prometheus). Two numbers for each: in how many of its periods it was THROTTLED, and the TIME LOST by that. The
    worst comes first. Only reads; needs no cluster: without one, uids stand for names.

    Exit code 0: success; 3: something is as bad as --fail-on says; 2: bad input, nothing to read, or nothing fits -n,
    --pod, --level and --node.

    [bold]Examples[/bold]

        resource-slack audit

        resource-slack audit --root /host --interval 30s --fail-on high

        resource-slack audit --all-nodes -n shop -o markdown

        resource-slack audit --prometheus http://localhost:9090 --window 7d --patches patches/
    """
    if ctx.invoked_subcommand is not None:
        _nothing_before(ctx)
        return
    options = source_options(
        root=root,
        interval=interval,
        all_nodes=all_nodes,
        prometheus=prometheus,
        window=window,
        prometheus_cluster=prometheus_cluster,
        nodes=node,
        kubelet_pods=kubelet_pods,
        names=names,
        access=access,
    )
    filters = _filters(namespace, pod, level, options.nodes, limit, everything=everything)
    _report(ctx, options, filters, output, fail_on, watch=watch, patches=patches)


def _report(
    ctx: typer.Context,
    options: SourceOptions,
    filters: "FindingFilter",
    output: Output,
    fail_on: FailOn,
    *,
    watch: bool,
    patches: Path | None,
) -> None:
    """Audit, print what was found, and end with its exit code."""
    from slack.cli.audit.run import run

    if patches is not None and watch:
        raise UserError("--patches: are written once; leave --watch out")
    failed = run(options, filters, output, fail_on, watch=watch, patches=patches, program=_program(ctx))
    if failed:
        raise typer.Exit(3)


def _filters(
    namespace: str | None,
    pod: str | None,
    level: LevelName | None,
    nodes: tuple[str, ...],
    limit: int | None,
    *,
    everything: bool,
) -> "FindingFilter":
    """Return the filter of findings that the flags describe."""
    from slack.audit.findings.sample import CgroupLevel
    from slack.audit.results.audit_result import FindingFilter

    return FindingFilter(
        namespace=namespace,
        pod=pod,
        level=None if level is None else CgroupLevel(level),
        nodes=nodes,
        everything=everything,
        rows=limit,
    )


def _nothing_before(ctx: typer.Context) -> None:
    """Refuse flags between `audit` and the command below it, which would have no effect."""
    for parameter in ctx.command.params:
        given = ctx.get_parameter_source(str(parameter.name))
        if given is not None and given.name == "COMMANDLINE":
            flag = parameter.opts[0]
            raise UserError(f"{flag}: write it after {ctx.invoked_subcommand}: audit {ctx.invoked_subcommand} {flag}")


def _program(ctx: typer.Context) -> str:
    return ctx.find_root().info_name or "resource-slack"


@app.command(cls=Command)
@with_kubectl_flags
def explain(
    ctx: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            help="pod/api, pod/api/main, deploy/api, deploy/api/main, a pod's uid, a container's id, a cgroup's path.",
            metavar="TARGET",
        ),
    ],
    namespace: _ExplainedNamespace = None,
    root: Root = None,
    interval: Interval = None,
    output: Output = TABLE,
    picture: PictureFile = None,
    all_nodes: AllNodes = False,
    prometheus: Prometheus = None,
    window: HistoryWindow = None,
    prometheus_cluster: PrometheusCluster = None,
    node: Nodes = None,
    kubelet_pods: KubeletPods = None,
    names: Names = True,
    access: ClusterAccess = ClusterAccess(),
) -> None:
    """Draw what a CPU limit does to a container: when in each period it stops, for how long, and whose quota it is.

    Shows one enforcement period with its busy CPUs, the chain of quotas from kubepods down to the container, the limit
    that would end it, and all advice with its patches.

    [bold]Examples[/bold]

        resource-slack audit explain -n shop pod/api-7d9f-x2x4z

        resource-slack audit explain -n shop deploy/api/main --all-nodes --picture api.svg

        resource-slack audit explain /kubepods/burstable/pod4c1f0a2b-1c2d-4e5f-8a9b-0c1d2e3f4a5b
    """
    options = source_options(
        root=root,
        interval=interval,
        all_nodes=all_nodes,
        prometheus=prometheus,
        window=window,
        prometheus_cluster=prometheus_cluster,
        nodes=node,
        kubelet_pods=kubelet_pods,
        names=names,
        access=access,
    )
    from slack.cli.audit.explain import run

    run(options, target, namespace or "", output=output, picture=picture, program=_program(ctx))


@app.command(cls=Command)
@with_kubectl_flags
def kernel(
    release: Annotated[
        str | None, typer.Option("--release", help="Of this `uname -r` instead of this machine's.", metavar="RELEASE")
    ] = None,
    version_text: Annotated[
        str | None,
        typer.Option("--version-text", help="With --release: its `uname -v`, or /proc/version.", metavar="TEXT"),
    ] = None,
    all_nodes: Annotated[
        bool, typer.Option("--all-nodes", help="Of every node, as the API server knows them.")
    ] = False,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe", help="Try it on this machine: root, 5 s. It can show the bug, never that it is absent."
        ),
    ] = False,
    output: Output = TABLE,
    fail_on: Annotated[
        KernelFailOn, typer.Option("--fail-on", help="Exit with 3 when a kernel is affected.")
    ] = KernelFailOn.NONE,
    access: ClusterAccess = ClusterAccess(),
) -> None:
    """Show whether a kernel has one of the bugs that throttle containers below their limit.

    By tables of distributions and of kernel.org; `unknown` is an answer and says what to ask for.

    [bold]Examples[/bold]

        resource-slack audit kernel

        resource-slack audit kernel --all-nodes --fail-on affected

        resource-slack audit kernel --release 4.19.0-6-amd64 --version-text '#1 SMP Debian 4.19.67-2+deb10u2'
    """
    from slack.cli.audit.kernel import run

    remote = all_nodes or access.is_chosen
    if remote and (release is not None or probe):
        raise UserError("--all-nodes: leave out --release and --probe; nodes are asked through the API")
    if release is not None and probe:
        raise UserError("--probe: tries this machine's kernel; leave out --release")
    if version_text is not None and release is None:
        raise UserError("--version-text: give --release, the output of `uname -r`, with it")
    bad = run(
        release,
        version_text or "",
        remote=remote,
        probe=probe,
        output=output,
        access=access,
    )
    if bad and fail_on is KernelFailOn.AFFECTED:
        raise typer.Exit(3)


for _process in (agent, controller):
    app.command(cls=Command, rich_help_panel="In the cluster")(_process)
