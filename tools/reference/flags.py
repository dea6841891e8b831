"""The reference of commands and flags, from the command line itself, and of the settings of processes."""

import inspect
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, get_args

import typer.main

from slack.cli.commands import app
from slack.cli.inputs.prometheus_server import QUERY_SECONDS
from slack.kube.deadline import FIRST_ANSWER_SECONDS, LEAST_BYTES, SILENT_SECONDS, WORD_SECONDS
from slack.process.settings import Settings, declared_settings
from slack_operator.auditor.agent.settings import AgentSettings
from slack_operator.auditor.controller.settings import ControllerSettings
from slack_operator.demand.controller_settings import DemandControllerSettings
from slack_operator.demand.proxy.settings import DemandProxySettings
from slack_operator.loadwatcher.settings import LoadWatcherSettings
from slack_operator.scorer.settings import ScorerSettings
from slack_operator.settings import OperatorSettings
from slack_operator.throttler.agent.settings import ThrottlerAgentSettings
from slack_operator.throttler.controller.settings import ThrottlerControllerSettings
from tools.reference.markdown import head, table

_ILL_SERVERS = (
    (
        "`record`",
        "ends when the first view of the cluster makes no progress; once it records, it keeps what it has, waits for "
        "the server to come back, and ends when `--duration` says so",
    ),
    ("`uninstall`", "tries a write for 10 s, then says what is left"),
    ("`status --watch`, `throttler status --watch`", "ends when the first look fails; later ones are tried again"),
    ("`audit` of this node", "goes on with uids for names, and says why"),
    (
        "`operator`, `audit controller`",
        "at the start: 1 when no API server answers, 2 when something else does; once they run, they ask for ever",
    ),
    ("`audit agent`", "runs on without its controller, and its log says why"),
    (
        "`throttler agent`",
        "at the start as the operator; once it runs, it asks for ever, and goes by what it knows",
    ),
    (
        "`load-watcher serve`",
        "at the start as the operator, unless `--no-match-nodes`; without its provider it runs on, tells what it has "
        "until that is older than `--max-age`, and its log says why",
    ),
)
"""What a command does when its server is none, or falls ill meanwhile."""


def _servers_table() -> str:
    return table(("command", "with a server that is none, or falls ill"), _ILL_SERVERS)


_TEXT = f"""
Every command and its flags, as `--help` has them. The program is installed as `resource-slack` and as `kubectl-slack`,
so that `kubectl slack COMMAND` is the same. Exit codes: 0 good, 1 a mistake of ours or output that cannot be written,
2 bad input, no cluster or no server that answers as it should, 3 an answer that is bad news (`plan`, `tune`, `status`,
`throttler status`, `audit --fail-on`), 130 Ctrl-C.

A server gets {FIRST_ANSWER_SECONDS:g} s for its first answer, all requests together: an API server is asked for
`/version`, a Prometheus for `vector(1)`. After {WORD_SECONDS:g} s a line on stderr says for whom is waited. Later
answers may take as long as they make progress: {LEAST_BYTES >> 10} KiB in {SILENT_SECONDS:g} s, or a query of
Prometheus {QUERY_SECONDS:g} s. A redirect to another host is not followed. Whatever else comes of it (refused, silent,
a login page, half a JSON, `null`, 401, 403, 500) is exit code 2 with the server's address. Beyond that:

{_servers_table()}
`-o json` and `-o yaml` print the same fields. `resource-slack schema COMMAND` prints their JSON schema, which is in
[schemas](schemas) too; names end with their unit (`cpu_millis`, `memory_bytes`, `p99_seconds`). What `audit` prints has
a format of its own, with its own versions ([audit](audit.md)).

A file is read up to 4 GiB; policies, manifests and scenarios in YAML up to 8 MiB, settings up to 1 MiB. Aliases that
stand for more than 100,000 values, more than 200 levels and numbers of more than 64 digits are refused with line and
field.

`NO_COLOR=1` and `TERM=dumb` turn colours off; pipes and files never get any.
"""
_SETTINGS = """
Each setting of the operator is a flag, an environment variable and a key of the YAML file that `--config` (or
`RESOURCE_SLACK_CONFIG`) names. Flags win over the environment, the environment over the file, the file over the
default; a key without a value counts as absent. Without any, the namespace is the pod's own. The log's first lines warn
of what has no effect: a variable whose name is nearly that of a setting, and flags of the page without `--web`.
"""
_MARKUP = re.compile(r"\[/?(bold|dim|italic)\]")


def page() -> str:
    """Return the whole page."""
    sections = list(_sections("resource-slack", typer.main.get_command(app)))
    sections += _setting_sections()
    contents = "".join(f"- [{title}](#{_anchor(title)})\n" for title, _ in sections)
    parts = [head("Commands and flags", "slack/cli", _TEXT), "\n", contents]
    return "".join([*parts, *(f"\n## {title}\n\n{text}" for title, text in sections)])


_AUDIT = """
As the operator's: a flag, an environment variable and a key of the YAML file that `--config` (or
`RESOURCE_SLACK_AUDIT_CONFIG`) names, in this order.
"""

_LOAD_WATCHER = """
As the operator's: a flag, an environment variable and a key of the YAML file that `--config` (or
`RESOURCE_SLACK_LOAD_WATCHER_CONFIG`) names, in this order. In the file `headers` may be a mapping.
"""


_PROCESS = """
As the operator's: a flag, an environment variable and a key of the YAML file that `--config` (or
`{prefix}CONFIG`) names, in this order.
"""


def _anchor(title: str) -> str:
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _sections(name: str, command: Any) -> Iterator[tuple[str, str]]:
    """Yield (title, text) of each command; a group's own commands stand for it, and it for what it does by itself."""
    below = getattr(command, "commands", None)
    if below is None:
        yield name, _text(name, command)
        return
    if command.invoke_without_command:
        yield name, _text(name, command)
    for key, child in below.items():
        if not child.hidden:
            yield from _sections(f"{name} {key}", child)


def _text(name: str, command: Any) -> str:
    words = inspect.cleandoc(_MARKUP.sub("**", command.help or ""))
    body, _, examples = words.partition("**Example")
    shown = [line.strip() for line in examples.splitlines()[1:] if line.strip()]
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [
        parameter for parameter in command.params if parameter.param_type_name == "option" and parameter.name != "help"
    ]
    types = {key: parameter.annotation for key, parameter in inspect.signature(command.callback).parameters.items()}
    options_word = ["[OPTIONS]"] if options else []
    usage = " ".join([name, *(_value_name(parameter, types) for parameter in arguments), *options_word])
    parts = [f"{body.strip()}\n", f"\n```\n{usage}\n```\n"]
    rows = [
        (_names(parameter, types), _default(parameter), _meaning(parameter, types))
        for parameter in (*arguments, *options)
    ]
    if rows:
        parts.append("\n" + table(("flag", "default", "meaning"), rows))
    if shown:
        parts.append("\nFor example:\n\n```\n" + "\n".join(shown) + "\n```\n")
    return "".join(parts)


def _names(parameter: Any, types: Mapping[str, Any]) -> str:
    if parameter.param_type_name == "argument":
        return f"`{_value_name(parameter, types)}`"
    value = "" if parameter.is_flag else f" {_value_name(parameter, types)}"
    names = (*parameter.opts, *parameter.secondary_opts)
    return ", ".join(f"`{name}{value if name.startswith('--') else ''}`" for name in names)


def _value_name(parameter: Any, types: Mapping[str, Any]) -> str:
    """Say what to write: the name that the command gives it, else its kind."""
    if parameter.param_type_name == "argument":
        value = str(parameter.metavar or parameter.name.upper())
        return value if parameter.required else f"[{value}]"
    if parameter.metavar:
        return str(parameter.metavar)
    return "NUMBER" if {int, float} & set(_parts(types.get(parameter.name))) else "VALUE"


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield the types that an annotation is made of."""
    inner = get_args(annotation)
    if not inner:
        yield annotation
    for part in inner:
        yield from _parts(part)


def _meaning(parameter: Any, types: Mapping[str, Any]) -> str:
    values = [
        f"`{value.value}`"
        for kind in _parts(types.get(parameter.name))
        if isinstance(kind, type) and issubclass(kind, Enum)
        for value in kind
    ]
    return " ".join(
        [*([parameter.help] if parameter.help else []), *([f"One of {', '.join(values)}."] if values else [])]
    )


def _default(parameter: Any) -> str:
    value = getattr(parameter.default, "value", parameter.default)
    if parameter.required:
        return "**required**"
    if value is None or value == () or callable(value) or (value is False and not parameter.secondary_opts):
        return ""
    return f"`{value}`"


def _setting_sections() -> Iterator[tuple[str, str]]:
    """Yield (title, text) of each process's settings."""
    yield "Settings of the operator", f"{_SETTINGS.strip()}\n\n{_setting_table(OperatorSettings)}"
    for title, kind in (("audit agent", AgentSettings), ("audit controller", ControllerSettings)):
        yield f"Settings of the {title}", f"{_AUDIT.strip()}\n\n{_setting_table(kind)}"
    yield "Settings of the load watcher", f"{_LOAD_WATCHER.strip()}\n\n{_setting_table(LoadWatcherSettings)}"
    for title, process in (
        ("scorer", ScorerSettings),
        ("throttler's agent", ThrottlerAgentSettings),
        ("throttler's controller", ThrottlerControllerSettings),
        ("demand proxy", DemandProxySettings),
        ("demand's controller", DemandControllerSettings),
    ):
        text = _PROCESS.format(prefix=process.prefix).strip()
        yield f"Settings of the {title}", f"{text}\n\n{_setting_table(process)}"


def _setting_table(kind: type[Settings]) -> str:
    rows = [
        (
            *(f"`{name}`" for name in (found.flag, f"{kind.prefix}{found.name.upper()}", found.key)),
            "" if found.default_text is None else f"`{found.default_text}`",
            f"`{found.chart}`" if isinstance(found.chart, str) else "",
            found.meaning,
        )
        for found in declared_settings(kind)
    ]
    return table(("flag", "variable", "key", "default", "chart's value", "meaning"), rows)
