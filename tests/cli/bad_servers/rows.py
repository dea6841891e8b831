"""Every command that talks to a server, by the command table: each of its ways to one has a row, or a test fails.

A way is a flag that names a server (`SERVERS`), on a command that has it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import typer

from slack.cli.commands import app

SERVERS = ("--kubeconfig", "--prometheus", "--kubelet-pods", "--controller")
"""Flags with which a command gets a server. A file of `--kubelet-pods` is none, but the flag takes an address too."""


class Ending(StrEnum):
    """How a command is to end that meets a bad server."""

    REFUSES = "exit code 2, and the server's address on stderr"
    PROCESS = "exit code 1 or 2 before it serves anybody, and the server's address on stderr"
    RUNS_ON = "it runs on, for ever, and says so on stderr with the server's address"
    DOES_WITHOUT = "exit code 0: the server is asked for names only, and a line on stderr says that there are none"
    SAYS_NOTHING = "exit code 0 and no word: shell completion"


@dataclass(frozen=True, slots=True)
class Row:
    """One call. In its words {config} is a kubeconfig of the server, {url} its address, {folder} one to write to."""

    command: str
    server: str
    words: str
    ending: Ending = Ending.REFUSES
    late: bool = True
    """Whether it asks for more than who the server is."""
    execs: bool = False
    """Whether the command becomes another program, so that no test may call it in its own process."""

    @property
    def name(self) -> str:
        """The call without what every call has."""
        return self.words.replace(" --kubeconfig {config}", "").replace("{folder}/", "")


_API, _PROMETHEUS, _PODS, _CONTROLLER = SERVERS
ROWS = (
    Row("status", _API, "status --kubeconfig {config}"),
    Row("status", _API, "status web --kubeconfig {config}"),
    Row("status", _API, "status --watch -o json --kubeconfig {config}"),
    Row("plan", _API, "plan --kubeconfig {config}"),
    Row("explain", _API, "explain -n shop deploy/api --kubeconfig {config}"),
    Row("tune", _API, "tune --from-cluster --kubeconfig {config}"),
    Row("record", _API, "record --out {folder}/t.parquet --duration 10s --kubeconfig {config}"),
    Row("record", _PROMETHEUS, "record --out {folder}/t.parquet --duration 2h --prometheus {url}"),
    Row("load", _API, "load --pods 2 --yes --kubeconfig {config}"),
    Row("migrate", _API, "migrate --kubeconfig {config}"),
    Row("migrate", _API, "migrate -n a deploy/b --kubeconfig {config}"),
    Row("uninstall", _API, "uninstall --kubeconfig {config}"),
    Row("upgrade-crds", _API, "upgrade-crds --kubeconfig {config}"),
    Row("uninstall", _API, "uninstall --yes --kubeconfig {config}"),
    Row("uninstall", _API, "uninstall --yes --stop-deployment a --kubeconfig {config}"),
    Row("operator", _API, "operator --listen 127.0.0.1:0 --kubeconfig {config}", Ending.PROCESS, late=False),
    Row("audit", _API, "audit --all-nodes --interval 30s --kubeconfig {config}"),
    Row("audit", _API, "audit --root {tree} --interval 1s --kubeconfig {config}", Ending.DOES_WITHOUT),
    Row("audit", _PROMETHEUS, "audit --no-names --prometheus {url}"),
    Row("audit", _PODS, "audit --root {tree} --interval 1s --kubelet-pods {url}/pods", late=False),
    Row("audit explain", _API, "audit explain --all-nodes pod/a --kubeconfig {config}"),
    Row("audit explain", _PROMETHEUS, "audit explain --no-names --prometheus {url} pod/a"),
    Row("audit explain", _PODS, "audit explain --root {tree} --kubelet-pods {url}/pods pod/a", late=False),
    Row("audit kernel", _API, "audit kernel --all-nodes --kubeconfig {config}"),
    Row(
        "audit controller",
        _API,
        "audit controller --listen 127.0.0.1:0 --kubeconfig {config}",
        Ending.PROCESS,
        late=False,
    ),
    Row(
        "scorer serve",
        _API,
        "scorer serve --listen 127.0.0.1:0 --extender-listen 127.0.0.1:0 --kubeconfig {config}",
        Ending.PROCESS,
        late=False,
    ),
    Row(
        "load-watcher serve",
        _API,
        "load-watcher serve --listen 127.0.0.1:0 --api-listen 127.0.0.1:0 --kubeconfig {config}",
        Ending.PROCESS,
        late=False,
    ),
    Row("throttler status", _API, "throttler status --kubeconfig {config}"),
    Row("throttler status", _CONTROLLER, "throttler status --controller {url} --token-file {token}", late=False),
    Row("throttler release", _API, "throttler release --kubeconfig {config}"),
    Row("throttler release", _API, "throttler release --yes --kubeconfig {config}"),
    Row("throttler explain", _API, "throttler explain -n shop pod/api-0 --kubeconfig {config}"),
    Row(
        "throttler explain",
        _CONTROLLER,
        "throttler explain -n shop pod/api-0 --controller {url} --token-file {token}",
        late=False,
    ),
    Row(
        "throttler agent",
        _API,
        "throttler agent --node a --listen 127.0.0.1:0 --gates-listen 127.0.0.1:0 --state-dir {folder}/state "
        "--tls-cert-file {certificate} --tls-key-file {key} --kubeconfig {config}",
        Ending.PROCESS,
        late=False,
        execs=True,
    ),
    # It reports when it knows its pods, of the same bad server; what then comes is the sender's own test.
    Row(
        "throttler agent",
        _CONTROLLER,
        "throttler agent --node a --listen 127.0.0.1:0 --gates-listen 127.0.0.1:0 --state-dir {folder}/state "
        "--tls-cert-file {certificate} --tls-key-file {key} --kubeconfig {config} --controller {url} "
        "--token-file {token}",
        Ending.PROCESS,
        late=False,
        execs=True,
    ),
    Row(
        "throttler controller",
        _API,
        "throttler controller --listen 127.0.0.1:0 --webhook-listen 127.0.0.1:0 --reports-listen 127.0.0.1:0 "
        "--gate-image slack --agent-ca-file {certificate} --kubeconfig {config}",
        Ending.PROCESS,
        late=False,
    ),
    Row("demand top", _API, "demand top --kubeconfig {config}"),
    Row("demand explain", _API, "demand explain -n shop pool/thumb --kubeconfig {config}"),
    Row(
        "demand controller",
        _API,
        "demand controller --broker-url nats://127.0.0.1:9 --proxy-image slack --listen 127.0.0.1:0 "
        "--throttle-listen 127.0.0.1:0 --kubeconfig {config}",
        Ending.PROCESS,
        late=False,
    ),
    Row(
        "audit agent",
        _CONTROLLER,
        "audit agent --root {tree} --listen 127.0.0.1:0 --node a --interval 1s --push-interval 5s "
        "--token-file {token} --controller {url}",
        Ending.RUNS_ON,
        late=False,
    ),
)
COMPLETION = Row("completion", _API, "__complete status --kubeconfig {config} ", Ending.SAYS_NOTHING)
"""A hidden command, so the table of commands does not have it."""


def ways() -> Iterator[tuple[str, str]]:
    """Yield each command of the program that can reach a server, with the flag by which it does."""
    yield from _ways(typer.main.get_command(app), "")


def _ways(command: Any, name: str) -> Iterator[tuple[str, str]]:
    options = {option for parameter in command.params for option in parameter.opts}
    yield from ((name, flag) for flag in SERVERS if flag in options)
    for below in sorted(getattr(command, "commands", {})):
        yield from _ways(command.commands[below], f"{name} {below}".strip())
