"""What `status` says to people: each policy with its slack, its problems with their remedies, and a verdict."""

import time
from datetime import datetime
from typing import TYPE_CHECKING

from slack.cli.terminal.counts import count_text

if TYPE_CHECKING:
    from rich.console import Console

    from slack.documents.slackpolicy_status import SlackPolicyStatus, StatusShape, StatusSurplus, StatusWorkloadStarts
    from slack.health.answer import Health, HealthFinding, PolicyHealth

_WORKLOADS_SHOWN = 3
_NODES_SHOWN = 4
_IDLE = (
    "There is no SlackPolicy, and the operator is not asked to keep its built-in one (--built-in-policy, the chart's",
    "operator.builtInPolicy): no slack is kept. A policy, ten percent of what pods request:",
)
_BUILT_IN = (
    "There is no SlackPolicy: the operator is asked to keep its built-in one (--built-in-policy, the chart's",
    "operator.builtInPolicy), which has no status. Its rate is the operator's own",
    "--extra-capacity-min-rate: 0.1, ten percent, unless it was started with another. What is kept with a rate:",
    "  kubectl slack plan --extra-capacity-min-rate 0.1",
    "A policy of the same rate that has a status:",
)
_FIRST_POLICY = (
    """  echo '{"apiVersion": "resource-slack.io/v1alpha1", "kind": "SlackPolicy", "metadata": {"name": "default"}, """
    """"spec": {}}' | kubectl apply -f -""",
)


def print_answer(shown: "Health", *, wide: bool, headers: bool = True) -> None:
    """Print it for people; `wide` adds nodes, what comes at once, and pods that no capacity is kept for."""
    from slack.cli.terminal.console import console

    out = console()
    for finding in shown.operator_findings:
        _finding(out, finding, indent="")
        out.print()
    for policy in shown.policies:
        _policy(out, policy, wide=wide, headers=headers)
        out.print()
    if shown.built_in or shown.idle:
        for line in (*(_BUILT_IN if shown.built_in else _IDLE), *_FIRST_POLICY):
            out.print(line, markup=False, soft_wrap=True)
        out.print()
    elif not shown.policies:
        out.print("There is no SlackPolicy.")
        out.print()
    for finding in shown.built_in_findings:
        _finding(out, finding, indent="")
        out.print()
    for name, text in shown.buffers:
        out.print(f"buffer    {name}  {text}", markup=False, soft_wrap=True)
    if shown.buffer_server:
        out.print(f"buffers   {shown.buffer_server}", markup=False, soft_wrap=True)
    if not shown.operator_findings:  # above, with what to do
        out.print(f"operator  {shown.operator}", markup=False, soft_wrap=True)
    for text in shown.unseen:
        out.print(f"not seen  {text}", style="dim", markup=False, soft_wrap=True)
    _verdict(out, shown)


def _verdict(out: "Console", shown: "Health") -> None:
    if shown.good:
        there = f"{count_text(shown.built_in_bound, 'placeholder')} on nodes, none waits; no more is known"
        if shown.built_in_unbound:
            there = f"{_unbound(shown.built_in_unbound)}; whether their capacity is there is in the operator's metrics"
        calm = _calm(shown)
        text = there if shown.built_in else "nothing asks for slack, and none is kept" if shown.idle else calm
        out.print(f"verdict   {text}", style="bold green")
        return
    absent = bool(shown.operator_findings)
    wrong = [policy.name for policy in shown.policies if not policy.good and not absent]
    parts = [f"something is wrong with {', '.join(wrong)}"] if wrong else []
    parts += ["the operator does not run"] if shown.operator_findings else []
    if shown.built_in_findings:
        left = "there are placeholders that no policy asks for"
        parts.append(left if shown.idle else "the built-in policy is not seen to do its work")
    out.print(f"verdict   {'; '.join(parts)}", style="bold red", markup=False, soft_wrap=True)


def _calm(shown: "Health") -> str:
    """Say how slack is of which nothing is wrong."""
    by_words: dict[str, list[str]] = {}
    for policy in shown.policies:
        if policy.state.name != "Reserved":
            by_words.setdefault(policy.state.words.partition(":")[0], []).append(policy.name)
    calm = "nothing is wrong" if by_words else "your slack is there"
    return "; ".join([calm, *(f"{words}: {', '.join(names)}" for words, names in by_words.items())])


def _policy(out: "Console", policy: "PolicyHealth", *, wide: bool, headers: bool) -> None:
    from rich.text import Text

    status = policy.status
    colour = "green" if policy.good else "red"
    out.print(Text.assemble((policy.name, "bold"), "  ", (policy.headline, colour)), soft_wrap=True)
    if not policy.known:
        _not_known(out, policy)
        return
    if status.conditions:
        _figures(out, policy, wide=wide)
    shapes = [shape for shape in status.shapes or () if shape.count or shape.replicas or shape.bound]
    if shapes:
        _shapes(out, shapes, policy, wide=wide, headers=headers)
    if wide and status.uncovered:
        out.print("  no capacity is kept for")
        for left in status.uncovered:
            out.print(f"    {left.pod}: {left.reason}", markup=False, soft_wrap=True)
    for finding in policy.findings:
        # a calm state is in the headline, and asks nothing of anybody
        if finding.reason == policy.state.name and policy.state.calm:
            out.print(f"  state     {finding.text.partition(': ')[2]}", markup=False, soft_wrap=True)
        else:
            _finding(out, finding, indent="  ")


def _figures(out: "Console", policy: "PolicyHealth", *, wide: bool) -> None:
    """Print what is held, what it costs, and why it is this much."""
    status = policy.status
    rate = status.summary.rate if status.summary is not None else None
    of_nodes = f"; {rate} on {count_text(status.nodes or 0, 'node')}" if rate else ""
    out.print(f"  slack     {_room(status)}{of_nodes}", markup=False, soft_wrap=True)
    if status.buffered:
        kept = "/".join(status.buffered.get(name, "0") for name in ("cpu", "memory"))
        out.print(f"  buffered  CapacityBuffers keep {kept} of the wanted", markup=False, soft_wrap=True)
    if status.surplus is not None:
        out.print(f"  surplus   {_surplus(status.surplus)}", markup=False, soft_wrap=True)
    out.print(f"  pods      {_placeholders(policy)}")
    if status.hold is not None and status.hold.form:
        since = f" since {status.hold.since}" if status.hold.since else ""
        out.print(f"  hold      {status.hold.form}{since}: {status.hold.message}", markup=False, soft_wrap=True)
    if status.limit and not any(status.limit in finding.text for finding in policy.findings):
        out.print(f"  limit     {status.limit}", markup=False, soft_wrap=True)
    _starts(out, status, wide=wide)
    if status.cost is not None:
        out.print(f"  costs     {status.cost.text}", markup=False, soft_wrap=True)
    if status.spared is not None and status.spared.pods:
        out.print(f"  spared    {status.spared.text}", markup=False, soft_wrap=True)
    if status.objective is not None:
        out.print(f"  why       {status.objective.why}", markup=False, soft_wrap=True)
    if status.displaced is not None and status.displaced.total:
        since = f" since {status.displaced.since}" if status.displaced.since else ""
        out.print(f"  displaced {count_text(status.displaced.total, 'placeholder')}{since}")
    if wide:
        out.print(
            f"  burst     {count_text(status.burst or 0, 'placeholder')} in one step, "
            f"{status.sustained or '?'} for long",
            markup=False,
        )


def _room(status: "SlackPolicyStatus") -> str:
    """Say how much of the wanted capacity is there, cpu/memory."""
    reserved, desired = (None, None) if status.summary is None else (status.summary.reserved, status.summary.desired)
    return f"{reserved or '?'} there of {desired or '?'} wanted (cpu/memory)"


def _starts(out: "Console", status: "SlackPolicyStatus", *, wide: bool) -> None:
    """Print how quickly pods had a node, and how quickly they were Ready."""
    started = f"{status.instant_start} of real pods were bound within 2 s" if status.instant_start else "none seen yet"
    out.print(f"  instant   {started}")
    if status.time_to_ready is None:
        return
    out.print(f"  to ready  {status.time_to_ready.text}", markup=False, soft_wrap=True)
    for slow in (status.time_to_ready.workloads or ()) if wide else ():
        out.print(f"            {_slow_workload(slow)}", markup=False, soft_wrap=True)


def _slow_workload(slow: "StatusWorkloadStarts") -> str:
    """Say how far the pods of a workload were when, on average."""
    stages = (("bound", slow.bound), ("image there", slow.image), ("started", slow.started), ("Ready", slow.ready))
    reached = ", ".join(f"{name} after {after}" for name, after in stages if after)
    pulled = f"; pulled {slow.pulled}" if slow.pulled else ""
    return f"{slow.workload}: {reached} (p99 {slow.p99}, {count_text(slow.pods or 0, 'pod')}){pulled}"


def _not_known(out: "Console", policy: "PolicyHealth") -> None:
    """Nobody looks after it: what its pods say is of now, and what its status says is of long ago."""
    if policy.now is not None:
        out.print(f"  now       {_now(policy, *policy.now)}, as the pods say")
    if policy.said_last is not None:
        said = f"{policy.said_last}; {_room(policy.status)}, {_placeholders(policy)}"
        out.print(f"  said last {said}", style="dim", markup=False, soft_wrap=True)
    for finding in policy.findings:
        out.print(f"  {finding.text}", style="dim", markup=False, soft_wrap=True)


def _placeholders(policy: "PolicyHealth") -> str:
    """Say how many have capacity; that the pods of unbound ones are Pending is no news."""
    if not policy.unbound:
        return _on_nodes(policy.bound, policy.pending)
    lacking = f", {policy.pending} without" if policy.pending else ""
    return f"{count_text(policy.bound, 'placeholder')} with capacity{lacking}; unbound ones are Pending on purpose"


def _surplus(surplus: "StatusSurplus") -> str:
    """Return what is held beyond the plan, with the time that is left until it is removed."""
    from slack.health.ages import duration

    text = surplus.text or ""
    if surplus.removal_time is None:
        return text
    left = datetime.fromisoformat(surplus.removal_time).timestamp() - time.time()
    return f"{text} (in {duration(left)})" if left > 0 else text


def _now(policy: "PolicyHealth", on_nodes: int, waiting: int) -> str:
    if not policy.unbound:
        return _on_nodes(on_nodes, waiting)
    bound = [_on_nodes(on_nodes, waiting)] if on_nodes or waiting else []
    return " and ".join([*bound, _unbound(policy.unbound)])


def _unbound(count: int) -> str:
    return f"{count_text(count, 'unbound placeholder')}, Pending on purpose"


def _on_nodes(bound: int, pending: int) -> str:
    return f"{count_text(bound, 'placeholder')} on nodes{f', {pending} waiting for one' if pending else ''}"


def _finding(out: "Console", finding: "HealthFinding", *, indent: str) -> None:
    from slack.health.ages import age_text
    from slack.process.reasons import Level

    lasts = age_text(finding.since, time.time()) if finding.since else None
    age = f" (for {lasts})" if lasts else ""
    style = "yellow" if finding.level is Level.NOTE else "red"
    mark = "note" if finding.level is Level.NOTE else "!"
    out.print(f"{indent}{mark} {finding.text}{age}", style=style, markup=False, soft_wrap=True)
    if finding.advice:
        out.print(f"{indent}  -> {finding.advice}", markup=False, soft_wrap=True)


def _shapes(out: "Console", shapes: "list[StatusShape]", policy: "PolicyHealth", *, wide: bool, headers: bool) -> None:
    from rich.table import Table

    from slack.cli.terminal.console import print_table

    table = Table(box=None, pad_edge=True, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("  SHAPE", no_wrap=True)
    table.add_column("ROLE", no_wrap=True)
    table.add_column("EACH", no_wrap=True)
    table.add_column("HELD" if policy.unbound else "ON NODES", justify="right", no_wrap=True)
    table.add_column("OF", justify="right", no_wrap=True)
    table.add_column("FOR")
    if wide:
        table.add_column("NODES")
    for shape in shapes:
        nodes = policy.nodes_of_shape.get(shape.name, {})
        row = [
            f"  {shape.name}",
            shape.role or "",
            ", ".join(f"{amount} {name}" for name, amount in (shape.requests or {}).items()),
            str(shape.bound or 0),
            str(shape.replicas or 0),
            _some(shape.for_ or [], _WORKLOADS_SHOWN),
        ]
        if wide:
            counted = [f"{name} x{count}" if count > 1 else name for name, count in sorted(nodes.items())]
            unseen = "free" if policy.unbound else "on the move"
            row.append(_some(counted, _NODES_SHOWN) or (unseen if policy.pods_seen and shape.bound else ""))
        table.add_row(*row)
    print_table(out, table, headers=headers)


def _some(names: list[str], most: int) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
