"""The flags that commands share with kubectl, declared once: which cluster, as whom, and how an answer is printed.

A command takes them as values, `access: ClusterAccess` and `output: Output`; `with_kubectl_flags` gives it the flags
that these are made of.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from slack.cli.terminal.formats import ListedRows, Output, OutputKind, formats_text, formats_that_begin, parse_output
from slack.cli.terminal.problems import UserError
from slack.kube.access import REQUESTS_SHOWN, ClusterAccess

CONNECTION = "Connection"
"""Heading of these flags in a help text."""


def _flag(type_: Any, *names: str, text: str, metavar: str) -> Any:
    option = typer.Option(*names, help=text, metavar=metavar, show_default=False, rich_help_panel=CONNECTION)
    return Annotated[type_ | None, option]


_CONNECTION_FLAGS: Mapping[str, Any] = {
    "kubeconfig": _flag(Path, "--kubeconfig", text="Kubeconfig file to use.", metavar="FILE"),
    "context": _flag(str, "--context", text="Context of the kubeconfig to use.", metavar="NAME"),
    "cluster": _flag(str, "--cluster", text="Cluster of the kubeconfig to use.", metavar="NAME"),
    "user": _flag(str, "--user", text="User of the kubeconfig to use.", metavar="NAME"),
    "token": _flag(str, "--token", text="Bearer token for the API server.", metavar="TOKEN"),
    "as_user": _flag(str, "--as", text="User to impersonate.", metavar="USER"),
    "as_group": _flag(list[str], "--as-group", text="Group to impersonate. May be repeated.", metavar="GROUP"),
    "request_timeout": _flag(
        str,
        "--request-timeout",
        text="How long to wait for an answer to one request, such as 30s or 2m. 0 means no limit.",
        metavar="DURATION",
    ),
    "verbosity": _flag(
        int, "-v", "--v", text=f"Log level. From {REQUESTS_SHOWN} on, log each request to stderr.", metavar="LEVEL"
    ),
}


def _access(given: Mapping[str, Any]) -> ClusterAccess:
    timeout = given["request_timeout"]
    return ClusterAccess(
        kubeconfig=given["kubeconfig"],
        context=given["context"],
        cluster=given["cluster"],
        user=given["user"],
        token=given["token"],
        as_user=given["as_user"],
        as_groups=tuple(given["as_group"] or ()),
        request_timeout_seconds=None if timeout is None else _timeout_seconds(timeout),
        verbosity=given["verbosity"] or 0,
    )


def _timeout_seconds(text: str) -> float:
    if text.strip() in ("0", "0s"):
        return 0.0
    if text.isascii() and text.isdigit():  # as kubectl takes it
        return float(text)
    from slack.cluster.duration import parse_fine_duration

    try:
        return parse_fine_duration(text).total_seconds()
    except ValueError as error:
        raise UserError(f"--request-timeout: {error}") from None


def _output_flags(listing: ListedRows, default: Output) -> dict[str, tuple[Any, Any]]:
    kinds = listing.kinds
    option = typer.Option(
        "--output",
        "-o",
        help=" ".join(filter(None, ("Output format.", listing.text))),
        parser=partial(parse_output, kinds),
        autocompletion=_completion(kinds),
        metavar=formats_text(kinds),
    )
    found: dict[str, tuple[Any, Any]] = {"output": (Annotated[Output, option], str(default.kind))}
    if listing.rows:
        switch = typer.Option("--no-headers", help="Print tables without headings.")
        found["no_headers"] = (Annotated[bool, switch], False)
    return found


def _completion(kinds: Sequence[OutputKind]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return formats_that_begin(kinds, incomplete)

    return complete


def with_kubectl_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags that its `access` and its `output` are made of."""
    before = inspect.signature(command).parameters
    listing = _listing(before["output"].annotation) if "output" in before else None
    flags: dict[str, tuple[Any, Any]] = {}
    for name, parameter in before.items():
        if name == "output" and listing is not None:
            flags |= _output_flags(listing, parameter.default)
        elif name != "access":
            flags[name] = (parameter.annotation, parameter.default)
    if "access" in before:  # last in every help text
        flags |= {name: (kind, None) for name, kind in _CONNECTION_FLAGS.items()}

    @wraps(command)
    def run(**given: Any) -> None:
        if "access" in before:
            given["access"] = _access({name: given.pop(name) for name in _CONNECTION_FLAGS})
        if listing is not None:
            output: Output = given["output"]
            given["output"] = replace(output, headers=not given.pop("no_headers", False), listing=listing)
        command(**given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(name, keyword, default=default, annotation=kind) for name, (kind, default) in flags.items()
    ]
    run.__annotations__ = {name: kind for name, (kind, _) in flags.items()}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    return run


def _listing(annotation: Any) -> ListedRows | None:
    """Return what a command lists, by the annotation of its `output`; None for an output of its own."""
    if annotation is Output:
        return ListedRows()
    if get_origin(annotation) is Annotated and get_args(annotation)[0] is Output:
        return next(part for part in get_args(annotation) if isinstance(part, ListedRows))
    return None
