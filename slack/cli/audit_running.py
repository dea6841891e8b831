"""Running `audit`: looks once or again and again, prints in the form that was asked for, writes patches."""

import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

import typer

from slack.cfs.finding import Finding, Severity
from slack.cli.audit_look import Look, Wanted
from slack.cli.audit_options import FailOn, Kind, Output, Where
from slack.cli.audit_taking import look, looks
from slack.cli.audit_words import counted, shown, span
from slack.cli.problems import UserError

_FAILING = {FailOn.NONE: None, FailOn.WARN: Severity.WARN, FailOn.HIGH: Severity.HIGH}
_FEW = 3


def run(
    where: Where,
    wanted: Wanted,
    output: Output,
    fail_on: FailOn,
    *,
    watch: bool,
    patches: Path | None,
    program: str,
) -> bool:
    """Do what `audit` was asked for; return whether it found something as bad as --fail-on says.

    Raises:
        UserError, KubeError: when nothing can be read, nothing fits what was asked for, or the patches cannot be
            written.
    """
    if patches is not None:
        _folder(patches)
    if watch:
        last = _watched(where, wanted, output, program)
    else:
        last = look(where)
        if not wanted.asked(last):
            _refuse_empty(last, wanted, where)
        _print(last, wanted, output, where, program)
    asked = wanted.asked(last)
    if patches is not None:
        from slack.cli.audit_output import write_patches

        for line in write_patches(patches, last, asked):
            typer.echo(line, err=True)
    least = _FAILING[fail_on]
    return least is not None and any(one.severity >= least for one in asked)


def _folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--patches: {path}: {(error.strerror or str(error)).lower()}") from None


def _refuse_empty(found: Look, wanted: Wanted, where: Where) -> None:
    """Refuse filters that nothing fits: a slip in a name must not look like a cluster in which all is well."""
    given = {
        "-n": wanted.namespace,
        "--pod": wanted.pod,
        "--level": str(wanted.level or ""),
        "--node": "" if found.kind is Kind.CGROUPS else ",".join(wanted.nodes),
    }
    flags = " ".join(f"{flag} {shown(value)}" for flag, value in given.items() if value)
    if not flags:
        return
    targets = [one.window.target for one in found.findings]
    hint = ""
    if (wanted.namespace or wanted.pod) and not any(one.pod for one in targets):
        instead = "" if where.names or where.kubelet_pods else "leave out --no-names, or "
        hint = f"; no pod's name is known: {instead}choose one by its uid (--pod UID)"
    elif wanted.namespace and all(one.namespace != wanted.namespace for one in targets):
        hint = f"; namespaces here are {_few({one.namespace for one in targets})}"
    elif wanted.pod:
        inside = {one.pod for one in targets if not wanted.namespace or one.namespace == wanted.namespace}
        near = get_close_matches(wanted.pod, sorted(inside - {""}), _FEW, 0.4)
        hint = f"; near it are {_few(near)}" if near else ""
    unread = ", ".join(f"{number:,} {trouble}" for trouble, number in found.windows.troubles.items() if number)
    unread = f"; not read: {unread}" if unread else ""
    raise UserError(f"{flags}: none of the {counted(len(targets), 'cgroup')} here fits{hint}{unread}")


def _few(names: Iterable[str]) -> str:
    known = sorted(filter(None, names))
    more = len(known) - _FEW
    return ", ".join(map(shown, known[:_FEW])) + (f" and {more:,} more" if more > 0 else "")


def _print(found: Look, wanted: Wanted, output: Output, where: Where, program: str) -> None:
    asked = wanted.asked(found)
    lines = wanted.shown(asked)
    if output is Output.JSON:
        import json

        from slack.cli.audit_output import document

        typer.echo(json.dumps(document(found, asked, lines), indent=2, ensure_ascii=False))
    elif output is Output.MARKDOWN:
        from slack.cli.audit_output import markdown

        typer.echo(markdown(found, asked, lines), nl=False)
    else:
        from slack.cli.audit_tables import print_look

        print_look(found, asked, lines, where=where, program=program)


def _watched(where: Where, wanted: Wanted, output: Output, program: str) -> Look:
    if output is Output.TABLE and sys.stdout.isatty():
        return _live(where, wanted, program)
    last: Look | None = None
    for found in looks(where):
        if output is Output.JSON:
            _print_line(found, wanted)
        else:
            if last is not None:
                typer.echo("")
            typer.echo(f"{found.at:%Y-%m-%dT%H:%M:%SZ}, the last {span(found.windows.seconds)}")
            _print(found, wanted, output, where, program)
        sys.stdout.flush()
        last = found
    return _there(last)


def _there(last: Look | None) -> Look:
    if last is None:
        raise AssertionError("there is at least one look")
    return last


def _print_line(found: Look, wanted: Wanted) -> None:
    import json

    from slack.cli.audit_output import document

    asked: tuple[Finding, ...] = wanted.asked(found)
    typer.echo(json.dumps(document(found, asked, wanted.shown(asked)), ensure_ascii=False))


def _live(where: Where, wanted: Wanted, program: str) -> Look:
    """Redraw on a terminal. As many findings as fit are shown; the last picture stays when it ends."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from slack.cli.audit_tables import fitting, render
    from slack.cli.tables import console

    out = console()
    last: Look | None = None
    with Live(console=out, auto_refresh=False, vertical_overflow="ellipsis") as live:
        for found in looks(where):
            asked = wanted.asked(found)
            lines = fitting(found, wanted.shown(asked), width=out.width, height=out.height)
            told = f"{found.at:%H:%M:%S}Z, the last {span(found.windows.seconds)}"
            head = Text(f"{told}, again each {where.pause_seconds:g} s; Ctrl-C ends it", style="dim")
            below = render(found, asked, lines, where=where, width=out.width, program=program, redrawn=True)
            live.update(Group(head, below), refresh=True)
            last = found
    return _there(last)
