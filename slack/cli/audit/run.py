"""Running `audit`: looks once or again and again, prints in the form that was asked for, writes patches."""

import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path

import typer

from slack.audit.findings.finding import Severity
from slack.audit.results.audit_result import AuditResult, FindingFilter
from slack.audit.results.source_kind import SourceKind
from slack.cli.audit.formats import shown, span
from slack.cli.audit.options import FailOn, SourceOptions
from slack.cli.audit.sampling import audit_once, audit_repeatedly
from slack.cli.terminal.counts import count_text
from slack.cli.terminal.formats import Output, OutputKind, print_document, wide_columns
from slack.cli.terminal.problems import UserError

_FAILING = {FailOn.NONE: None, FailOn.WARN: Severity.WARN, FailOn.HIGH: Severity.HIGH}
_FEW = 3


def run(
    options: SourceOptions,
    filters: FindingFilter,
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
        last = _watched(options, filters, output, program)
    else:
        last = audit_once(options, refuse=_refusal(filters, options))
        if not filters.asked(last):
            _refuse_empty(last, filters, options)
        _print(last, filters, output, options, program)
    asked = filters.asked(last)
    if patches is not None:
        from slack.cli.audit.export import write_patches

        for line in write_patches(patches, last, asked):
            typer.echo(line, err=True)
    least = _FAILING[fail_on]
    return least is not None and any(finding.severity >= least for finding in asked)


def _folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--patches: {path}: {(error.strerror or str(error)).lower()}") from None


def _refusal(filters: FindingFilter, options: SourceOptions) -> Callable[[AuditResult], None] | None:
    """Return what refuses names of what is not there once the first sample knows; None where none is given."""
    if not (filters.namespace or filters.pod or filters.level):
        return None

    def refuse(seen: AuditResult) -> None:
        if not filters.asked(seen):
            _refuse_empty(seen, filters, options)

    return refuse


def _refuse_empty(found: AuditResult, filters: FindingFilter, options: SourceOptions) -> None:
    """Refuse filters that nothing fits: a slip in a name must not look like a cluster in which all is well."""
    given = {
        "-n": filters.namespace,
        "--pod": filters.pod,
        "--level": str(filters.level or ""),
        "--node": "" if found.kind is SourceKind.CGROUPS else ",".join(filters.nodes),
    }
    flags = " ".join(f"{flag} {shown(value)}" for flag, value in given.items() if value)
    if not flags:
        return
    targets = [finding.window.target for finding in found.findings]
    hint = ""
    if (filters.namespace or filters.pod) and not any(target.pod for target in targets):
        instead = "" if options.names or options.kubelet_pods else "leave out --no-names, or "
        hint = f"; no pod's name is known: {instead}choose one by its uid (--pod UID)"
    elif filters.namespace and all(target.namespace != filters.namespace for target in targets):
        hint = f"; namespaces here are {_few({target.namespace for target in targets})}"
    elif filters.pod:
        inside = {target.pod for target in targets if not filters.namespace or target.namespace == filters.namespace}
        near = get_close_matches(filters.pod, sorted(inside - {""}), _FEW, 0.4)
        hint = f"; near it are {_few(near)}" if near else ""
    unread = ", ".join(f"{number:,} {trouble}" for trouble, number in found.windows.troubles.items() if number)
    unread = f"; not read: {unread}" if unread else ""
    raise UserError(f"{flags}: none of the {count_text(len(targets), 'cgroup')} here fits{hint}{unread}")


def _few(names: Iterable[str]) -> str:
    known = sorted(filter(None, names))
    more = len(known) - _FEW
    return ", ".join(map(shown, known[:_FEW])) + (f" and {more:,} more" if more > 0 else "")


def _print(
    found: AuditResult,
    filters: FindingFilter,
    output: Output,
    options: SourceOptions,
    program: str,
    *,
    indent: int | None = 2,
) -> None:
    asked = filters.asked(found)
    lines = filters.shown(asked)
    if output.kind is OutputKind.JSON:
        import json

        from slack.cli.audit.export import document

        typer.echo(json.dumps(document(found, asked, lines), indent=indent, ensure_ascii=False))
    elif output.for_machines:
        from slack.cli.audit.export import document

        print_document(document(found, asked, lines), output)
    elif output.kind is OutputKind.MARKDOWN:
        from slack.cli.audit.export import markdown

        typer.echo(markdown(found, asked, lines), nl=False)
    else:
        from slack.cli.audit.tables import print_result

        with wide_columns(output):
            print_result(found, asked, lines, options=options, program=program, headers=output.headers)


def _watched(options: SourceOptions, filters: FindingFilter, output: Output, program: str) -> AuditResult:
    if output.kind is OutputKind.TABLE and sys.stdout.isatty():
        return _live(options, filters, program)
    last: AuditResult | None = None
    for found in audit_repeatedly(options):
        if output.kind is OutputKind.YAML and last is not None:
            typer.echo("---")
        elif not output.for_machines:
            if last is not None:
                typer.echo("")
            typer.echo(f"{found.at:%Y-%m-%dT%H:%M:%SZ}, the last {span(found.windows.seconds)}")
        _print(found, filters, output, options, program, indent=None)
        sys.stdout.flush()
        last = found
    return _there(last)


def _there(last: AuditResult | None) -> AuditResult:
    if last is None:
        raise AssertionError("there is at least one look")
    return last


def _live(options: SourceOptions, filters: FindingFilter, program: str) -> AuditResult:
    """Redraw on a terminal. As many findings as fit are shown; the last picture stays when it ends."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from slack.cli.audit.tables import fitting, render
    from slack.cli.terminal.console import console

    out = console()
    last: AuditResult | None = None
    with Live(console=out, auto_refresh=False, vertical_overflow="ellipsis") as live:
        for found in audit_repeatedly(options):
            asked = filters.asked(found)
            lines = fitting(found, filters.shown(asked), width=out.width, height=out.height)
            told = f"{found.at:%H:%M:%S}Z, the last {span(found.windows.seconds)}"
            head = Text(f"{told}, again each {options.pause_seconds:g} s; Ctrl-C ends it", style="dim")
            below = render(found, asked, lines, options=options, width=out.width, program=program, redrawn=True)
            live.update(Group(head, below), refresh=True)
            last = found
    return _there(last)
