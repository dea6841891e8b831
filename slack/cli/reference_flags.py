"""The reference of commands and flags, from the command line itself, and of the settings of processes."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from enum import Enum
from typing import TYPE_CHECKING, Any, get_args

from slack.cli.reference_text import head, table

if TYPE_CHECKING:
    from slack.process.audit_settings import AgentSettings, ControllerSettings

_TEXT = """
Every command and its flags, as `--help` has them. The program is installed as `resource-slack` and as `kubectl-slack`,
so that `kubectl slack COMMAND` is the same. Exit codes: 0 good, 1 a mistake of ours or output that cannot be written,
2 bad input or no cluster, 3 an answer that is bad news (`plan`, `tune`, `status`, `audit --fail-on`), 130 Ctrl-C.

`NO_COLOR=1` and `TERM=dumb` turn colours off; pipes and files never get any.
"""
_SETTINGS = """
Each setting of the operator is a flag, an environment variable and a key of the YAML file that `--config` (or
`RESOURCE_SLACK_CONFIG`) names. Flags win over the environment, the environment over the file, the file over the
default. Without any, the namespace is the pod's own. The log's first lines warn of what has no effect: a variable whose
name is nearly that of a setting, and flags of the page without `--web`.
"""
_MARKUP = re.compile(r"\[/?(bold|dim|italic)\]")


def page() -> str:
    """Return the whole page."""
    import typer.main

    from slack.cli.commands import app

    sections = list(_sections("resource-slack", typer.main.get_command(app)))
    sections.append((_OWN, f"{_SETTINGS.strip()}\n\n{_settings()}"))
    sections += _audit_settings()
    contents = "".join(f"- [{title}](#{_anchor(title)})\n" for title, _ in sections)
    parts = [head("Commands and flags", "slack/cli", _TEXT), "\n", contents]
    return "".join([*parts, *(f"\n## {title}\n\n{text}" for title, text in sections)])


_OWN = "Settings of the operator"
_AUDIT = """
As the operator's: a flag, an environment variable and a key of the YAML file that `--config` (or
`RESOURCE_SLACK_AUDIT_CONFIG`) names, in this order.
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
    for key, one in below.items():
        if not one.hidden:
            yield from _sections(f"{name} {key}", one)


def _text(name: str, command: Any) -> str:
    words = inspect.cleandoc(_MARKUP.sub("**", command.help or ""))
    body, _, examples = words.partition("**Example")
    shown = [line.strip() for line in examples.splitlines()[1:] if line.strip()]
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and one.name != "help"]
    types = {key: one.annotation for key, one in inspect.signature(command.callback).parameters.items()}
    options_word = ["[OPTIONS]"] if options else []
    usage = " ".join([name, *(_value_name(one, types) for one in arguments), *options_word])
    parts = [f"{body.strip()}\n", f"\n```\n{usage}\n```\n"]
    rows = [(_names(one, types), _default(one), _meaning(one, types)) for one in (*arguments, *options)]
    if rows:
        parts.append("\n" + table(("flag", "default", "meaning"), rows))
    if shown:
        parts.append("\nFor example:\n\n```\n" + "\n".join(shown) + "\n```\n")
    return "".join(parts)


def _names(one: Any, types: Mapping[str, Any]) -> str:
    if one.param_type_name == "argument":
        return f"`{_value_name(one, types)}`"
    value = "" if one.is_flag else f" {_value_name(one, types)}"
    names = (*one.opts, *one.secondary_opts)
    return ", ".join(f"`{name}{value if name.startswith('--') else ''}`" for name in names)


def _value_name(one: Any, types: Mapping[str, Any]) -> str:
    """Say what to write: the name that the command gives it, else its kind."""
    if one.param_type_name == "argument":
        value = str(one.metavar or one.name.upper())
        return value if one.required else f"[{value}]"
    if one.metavar:
        return str(one.metavar)
    return "NUMBER" if {int, float} & set(_parts(types.get(one.name))) else "VALUE"


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield the types that an annotation is made of."""
    inner = get_args(annotation)
    if not inner:
        yield annotation
    for one in inner:
        yield from _parts(one)


def _meaning(one: Any, types: Mapping[str, Any]) -> str:
    values = [
        f"`{value.value}`"
        for kind in _parts(types.get(one.name))
        if isinstance(kind, type) and issubclass(kind, Enum)
        for value in kind
    ]
    return " ".join([*([one.help] if one.help else []), *([f"One of {', '.join(values)}."] if values else [])])


def _default(one: Any) -> str:
    value = getattr(one.default, "value", one.default)
    if one.required:
        return "**required**"
    if value is None or value == () or callable(value) or (value is False and not one.secondary_opts):
        return ""
    return f"`{value}`"


def _settings() -> str:
    from slack.process.settings import ENVIRONMENT_PREFIX, OperatorSettings, flag

    rows = []
    for name, info in OperatorSettings.model_fields.items():
        rows.append(
            (
                f"`{flag(name)}`",
                f"`{ENVIRONMENT_PREFIX}{name.upper()}`",
                f"`{flag(name)[2:]}`",
                _value(info.default),
                info.description or "",
            )
        )
    return table(("flag", "variable", "key", "default", "meaning"), rows)


def _audit_settings() -> Iterator[tuple[str, str]]:
    """Yield (title, text) of the auditor's two processes."""
    from slack.process.audit_settings import AgentSettings, ControllerSettings

    for title, kind in (("audit agent", AgentSettings), ("audit controller", ControllerSettings)):
        yield f"Settings of the {title}", f"{_AUDIT.strip()}\n\n{_setting_table(kind)}"


def _setting_table(kind: "type[AgentSettings] | type[ControllerSettings]") -> str:
    from slack.process.audit_settings import ENVIRONMENT_PREFIX, flag

    rows = []
    for one in fields(kind):
        default = f"`{one.default:g}s`" if isinstance(one.default, float) else _value(one.default)
        row = (flag(one.name), f"{ENVIRONMENT_PREFIX}{one.name.upper()}", flag(one.name)[2:])
        rows.append((*(f"`{name}`" for name in row), default, one.metadata["meaning"]))
    return table(("flag", "variable", "key", "default", "meaning"), rows)


def _value(value: Any) -> str:
    from datetime import timedelta

    if value in (None, ""):
        return ""
    if isinstance(value, timedelta):
        return f"`{int(value.total_seconds())}s`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value.value if isinstance(value, Enum) else value}`"
