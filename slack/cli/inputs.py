"""Where a dry run takes its input from: policy files, a snapshot file, stdin, or a live cluster, read once.

Only reads. Every complaint names the file (`-` is called stdin) and the field.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.problems import UserError

if TYPE_CHECKING:
    from slack.cluster.snapshot import Snapshot
    from slack.planner.outcome import ExistingShape, Plan
    from slack.planner.policy import Policy

STDIN = Path("-")
_FIRST_YEAR, _LAST_YEAR = 1970, 9998
BUILT_IN = "default"
"""Name of the policy that holds where there is none."""

PolicyFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--filename", "-f", help="SlackPolicy file, YAML or JSON; - is stdin. May be repeated.", metavar="FILE"
    ),
]
SnapshotFile = Annotated[
    Path | None,
    typer.Option(
        "--snapshot",
        help="Output of: kubectl get nodes,pods -A -o json. - is stdin. No cluster is asked.",
        metavar="FILE",
    ),
]
Kubeconfig = Annotated[Path | None, typer.Option("--kubeconfig", help="Which kubeconfig to use.", metavar="FILE")]
Context = Annotated[str | None, typer.Option("--context", help="Which context of the kubeconfig.", metavar="NAME")]
MinRate = Annotated[
    str,
    typer.Option(
        "--extra-capacity-min-rate", help="Rate of policies that name none: 0.1 is ten percent.", metavar="RATE"
    ),
]
At = Annotated[
    str | None,
    typer.Option("--at", help="Plan for this instant (RFC 3339) instead of now, for schedules.", metavar="TIME"),
]


PlaceholderNamespace = Annotated[
    str,
    typer.Option(
        "--placeholder-namespace", help="Namespace of the operator's placeholders, if it runs.", metavar="NAME"
    ),
]


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that a plan needs."""

    snapshot: "Snapshot"
    policies: "tuple[Policy, ...]"
    existing: "tuple[ExistingShape, ...]"
    priorities: dict[str, int]
    now: float
    built_in: bool
    """There was no policy; the built-in one is used."""

    def plan(self, default_rate: float) -> "Plan":
        """Return the plan for these inputs."""
        from slack.planner.plan import plan

        return plan(
            self.snapshot,
            self.policies,
            now=self.now,
            existing=self.existing,
            default_rate=default_rate,
            priorities=dict(self.priorities),
        )


def gather(
    files: Sequence[Path],
    snapshot: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    at: str | None,
    placeholder_namespace: str,
) -> Inputs:
    """Read everything that the flags name.

    Raises:
        UserError, BadPolicy, BadSnapshot, KubeError: for what cannot be read, with its name.
    """
    import time

    now = time.time() if at is None else instant(at)
    if snapshot is not None and (kubeconfig or context):
        raise UserError("--snapshot: give either a snapshot file or a cluster (--kubeconfig, --context), not both")
    if [*files, snapshot].count(STDIN) > 1:
        raise UserError("-: stdin can be read once only; put one of the two into a file")
    given = list(_policies(files))  # first: a mistake in them is found before a large cluster is read
    from slack.cli import cluster

    seen = (
        cluster.from_file(
            read_bytes(snapshot), source=name_of(snapshot), now=now, placeholder_namespace=placeholder_namespace
        )
        if snapshot is not None
        else cluster.from_api(kubeconfig, context, now=now, placeholder_namespace=placeholder_namespace)
    )
    from slack.planner.policy import Policy

    found = given if files else list(_parsed(seen.policies))
    _distinct(found)
    policies = tuple(found) or (Policy(name=BUILT_IN),)
    return Inputs(
        snapshot=seen.snapshot(policies, now),
        policies=policies,
        existing=seen.existing,
        priorities=seen.priorities,
        now=now,
        built_in=not found,
    )


def rate(text: str) -> float:
    """Return --extra-capacity-min-rate, checked as the operator checks it.

    Raises:
        BadSettings: for anything but a number from 0 to 10.
    """
    from slack.process.settings import load

    return load({"extra_capacity_min_rate": text}, {}).extra_capacity_min_rate


def instant(text: str) -> float:
    """Return Unix seconds of an RFC 3339 time with an offset."""
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        value = None
    if value is None or value.tzinfo is None:
        raise UserError(f"--at: {text!r} is not a time with an offset, such as 2026-11-27T06:00:00Z")
    # Schedules look hours and days around it, and Python's calendar ends with the years 1 and 9999.
    if not _FIRST_YEAR <= value.year <= _LAST_YEAR:
        raise UserError(f"--at: {text!r} is too far away; write a year from {_FIRST_YEAR} to {_LAST_YEAR}")
    return value.timestamp()


def name_of(path: Path) -> str:
    """Return what a file is called in complaints."""
    return "stdin" if path == STDIN else str(path)


def read_bytes(path: Path) -> bytes:
    """Return a file's content, or stdin's for `-`."""
    try:
        return sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None


def _documents(path: Path) -> Iterator[tuple[str, Any]]:
    from slack.cli import files

    name = name_of(path)
    example = "a SlackPolicy, as in examples/slackpolicy.yaml"
    documents = list(files.documents(read_bytes(path), source=name, example=example))
    if not documents:
        raise UserError(f"{name}: there is no SlackPolicy in it")
    for number, document in enumerate(documents, 1):
        where = f"{name} (document {number})" if len(documents) > 1 else name
        if isinstance(document, dict) and document.get("kind") in ("List", "SlackPolicyList"):
            items = document.get("items")
            for index, item in enumerate(items if isinstance(items, list) else []):
                yield f"{where} items[{index}]", item
        else:
            yield where, document


def _policies(files: Iterable[Path]) -> "Iterator[Policy]":
    for path in files:
        yield from _parsed(_documents(path))


def _parsed(documents: Iterable[tuple[str, Any]]) -> "Iterator[Policy]":
    from slack.planner.policy import parse_policy

    for source, document in documents:
        yield parse_policy(document, source=source)


def _distinct(policies: "Sequence[Policy]") -> None:
    seen: set[str] = set()
    for policy in policies:
        if policy.name in seen:
            raise UserError(f"metadata.name: two policies are named {policy.name!r}; give each its own name")
        seen.add(policy.name)
