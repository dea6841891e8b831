"""The question before a load, and what came of it, in words."""

import typer

from slack.cli.load.live import printable
from slack.cli.load.run import NODES, PLACEHOLDERS_SEEN, Finished, LoadRequest
from slack.cli.terminal.counts import count_text
from slack.cli.terminal.formats import Output, print_document
from slack.loadtest.chart import chart
from slack.loadtest.report import INSTANT_SECONDS, LoadTestReport, document

_WIDE_COLUMNS, _COLUMNS = 120, 76


def question(asked: LoadRequest, address: str) -> str:
    """Return what is about to be done, and where."""
    from slack.cluster.quantity import amount, format_quantity

    total = ", ".join(
        f"{format_quantity(name, asked.pods * amount(name, text))} {name}" for name, text in asked.requests.items()
    )
    each = ", ".join(f"{text} {name}" for name, text in asked.requests.items())
    return (
        f"{count_text(asked.pods, 'pod')} of {each} ({total} in all) as deployment {asked.namespace}/{asked.name} at "
        f"{address}; an autoscaler may start nodes for them, and other pods of a lower priority may have to make room."
    )


def print_report(finished: Finished, output: Output) -> None:
    """Print what came of it."""
    if output.for_machines:
        print_document(document(finished.report, notes(finished)), output)
        return
    for line in lines(finished, _WIDE_COLUMNS if output.is_wide else _COLUMNS):
        typer.echo(printable(line))


def lines(finished: Finished, columns: int) -> list[str]:
    """Return the answer as people read it."""
    report = finished.report
    if not report.pods:
        return ["no pod came", *(f"note      {note}" for note in notes(finished))]
    p50, p99 = report.percentile_seconds(50) or 0.0, report.percentile_seconds(99) or 0.0
    bound = f"{report.pods - report.unbound} of {count_text(report.pods, 'pod')} got a node"
    found = [
        f"pods      {bound}",
        f"instant   {report.instant} of {report.pods} within {INSTANT_SECONDS:g} s "
        f"({report.instant / report.pods * 100:.1f} %)",
        f"to bind   p50 {p50:.2f} s, p99 {p99:.2f} s, at most {report.waits_seconds[-1]:.2f} s",
    ]
    if report.ready_seconds:
        ready50, ready99 = (report.ready_percentile_seconds(percent) or 0.0 for percent in (50, 99))
        found.append(
            f"to Ready  p50 {ready50:.2f} s, p99 {ready99:.2f} s, at most {report.ready_seconds[-1]:.2f} s "
            f"({len(report.ready_seconds)} of {count_text(report.pods, 'pod')})"
        )
    if PLACEHOLDERS_SEEN not in finished.unseen:
        found.append(f"displaced {count_text(report.displaced, 'placeholder')} left a node meanwhile")
    if NODES not in finished.unseen:
        found += [f"nodes     {_nodes(report)}", "", *chart(report.moments, columns, report.ended_seconds)]
    return [*found, *(f"note      {note}" for note in notes(finished))]


def _nodes(report: LoadTestReport) -> str:
    before, most = report.nodes_before, report.nodes_most
    text = f"{before} before, {most} at most"
    if most <= before:
        return f"{text}: none had to come"
    gone = report.nodes_gone_seconds
    if gone is not None:
        return f"{text}, {report.nodes_now} again {gone:.0f} s after the load"
    return f"{text}, {report.nodes_now} when it was last looked: they have not gone yet"


def notes(finished: Finished) -> list[str]:
    """Return what is to be known besides."""
    found = []
    if finished.refusal:
        count = f"not created: {count_text(finished.missing, 'pod')}: " if finished.missing else "pods were refused: "
        found.append(count + finished.refusal)
    if finished.report.unbound:
        why = f", in the scheduler's words: {finished.report.waits_for}" if finished.report.waits_for else ""
        found.append(f"{count_text(finished.report.unbound, 'pod')} got no node{why}")
    late = finished.report.pods - finished.report.unbound - len(finished.report.ready_seconds)
    if late > 0:
        found.append(f"{count_text(late, 'pod')} with a node: not Ready when the load ended")
    if finished.ended_by:
        found.append(f"it ended early: {finished.ended_by}")
    found += [f"{what} may not be seen with these rights" for what in finished.unseen]
    if finished.left:
        found.append(finished.left)
    return found
