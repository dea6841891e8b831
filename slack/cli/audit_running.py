"""Running `audit`: looks once or again and again, prints in the form that was asked for, writes patches."""

import sys
from pathlib import Path

import typer

from slack.cfs.finding import Finding, Severity
from slack.cli.audit_look import Look, Wanted
from slack.cli.audit_options import FailOn, Output, Where
from slack.cli.audit_taking import look, looks
from slack.cli.problems import UserError

_FAILING = {FailOn.NONE: None, FailOn.WARN: Severity.WARN, FailOn.HIGH: Severity.HIGH}


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
        UserError, KubeError: when nothing can be read, or the patches cannot be written.
    """
    if patches is not None:
        _folder(patches)
    if watch:
        last = _watched(where, wanted, output, program)
    else:
        last = look(where)
        _print(last, wanted, output, program)
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


def _print(found: Look, wanted: Wanted, output: Output, program: str) -> None:
    asked = wanted.asked(found)
    shown = wanted.shown(asked)
    if output is Output.JSON:
        import json

        from slack.cli.audit_output import document

        typer.echo(json.dumps(document(found, asked, shown), indent=2, ensure_ascii=False))
    elif output is Output.MARKDOWN:
        from slack.cli.audit_output import markdown

        typer.echo(markdown(found, asked, shown), nl=False)
    else:
        from slack.cli.audit_tables import print_look

        print_look(found, asked, shown, program=program)


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
            typer.echo(f"{found.at:%Y-%m-%dT%H:%M:%SZ}")
            _print(found, wanted, output, program)
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
            shown = fitting(found, wanted.shown(asked), width=out.width, height=out.height)
            head = Text(f"{found.at:%H:%M:%S}Z, each {where.seconds:g} s; Ctrl-C ends it", style="dim")
            live.update(Group(head, render(found, asked, shown, width=out.width, program=program)), refresh=True)
            last = found
    return _there(last)
