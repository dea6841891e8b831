"""Settings of the auditor's processes: flags over environment over file over defaults, each complaint with its origin.

A setting `push_interval` is the flag `--push-interval`, the variable `RESOURCE_SLACK_AUDIT_PUSH_INTERVAL` and the key
`push-interval` of the file. These are plain dataclasses, checked here: the agent runs on every node, and pydantic alone
would be a third of its memory.
"""

import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from urllib.parse import urlsplit

from slack.process.logs import LogFormat, LogLevel

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ENVIRONMENT_PREFIX = "RESOURCE_SLACK_AUDIT_"
TOKEN_FILE = Path("/var/run/secrets/resource-slack-audit/token")
STATE_DIR = Path("/var/lib/resource-slack-audit")

_HOST = re.compile(r"[A-Za-z0-9._:%-]+")
_NODE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DURATION = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?")

Parse = Callable[[object], object]
"""Turns what was given (text, or a value of the file) into the setting's own type; ValueError says what is wrong."""


class BadAuditSettings(ValueError):
    """Settings that cannot be used; each problem names the flag, variable or key and what would be right."""

    source = "settings"

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


def duration(least_seconds: float) -> Parse:
    """Return a parser of texts such as 10s, 5m or 1h30m, or of seconds as a number."""

    def parse(value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = float(value)
        else:
            match = _DURATION.fullmatch(value) if isinstance(value, str) else None
            if not match or not any(match.groups()):
                raise ValueError(f"{value!r} is not a duration such as 30s, 10m or 1h30m")
            hours, minutes, rest = (int(part or 0) for part in match.groups())
            seconds = float(hours * 3600 + minutes * 60 + rest)
        if not least_seconds <= seconds <= 86400:  # NaN is not between either
            raise ValueError(f"must be at least {least_seconds:g}s and at most 24h, not {value!r}")
        return seconds

    return parse


def switch(value: object) -> bool:
    """Parse true or false."""
    if isinstance(value, bool):
        return value
    words = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    if isinstance(value, str) and value.strip().lower() in words:
        return words[value.strip().lower()]
    raise ValueError(f"should be true or false, not {value!r}")


def text(value: object) -> str:
    """Parse a text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"should be a text, not {value!r}")
    return value.strip()


def path(value: object) -> Path:
    """Parse a path."""
    if isinstance(value, Path):
        return value
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f"should be a path, not {value!r}")
    return Path(value)


def choice(kind: type[StrEnum]) -> Parse:
    """Return a parser of one of an enumeration's words."""

    def parse(value: object) -> StrEnum:
        try:
            return kind(str(value))
        except ValueError:
            words = [repr(one.value) for one in kind]
            raise ValueError(f"should be {', '.join(words[:-1])} or {words[-1]}, not {value!r}") from None

    return parse


def address(value: object) -> str:
    """Parse HOST:PORT; IPv6 needs its brackets."""
    host, colon, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    whole = _HOST.fullmatch(bare) and (bare != host) == (":" in bare)
    if not colon or not whole or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise ValueError(f"{value!r} is no address such as 127.0.0.1:8080 or 0.0.0.0:8080")
    return str(value)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def host_port(value: str) -> tuple[str, int]:
    """Give an address in parts."""
    host, _, port = value.rpartition(":")
    return host.strip("[]"), int(port)


def _controller(value: object) -> str:
    try:
        parts = urlsplit(value if isinstance(value, str) else "")
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise ValueError(f"{value!r} is no URL such as https://resource-slack-audit.resource-slack.svc:8443")
    if parts.username or parts.query or parts.fragment:
        raise ValueError("should be a scheme, a host and a port, without a user, '?' or '#'")
    if parts.scheme == "http" and not is_loopback(str(parts.hostname)):
        raise ValueError(f"{value!r} would send the agent's token in the clear; use https (http is for loopback only)")
    return str(value).rstrip("/")


def _node(value: object) -> str:
    if not isinstance(value, str) or not _NODE.fullmatch(value):
        raise ValueError(f"{value!r} is no name of a node (lower case letters, digits, '-' and '.', at most 253)")
    return value


def _name(value: object) -> str:
    if not isinstance(value, str) or not _LABEL.fullmatch(value):
        raise ValueError(f"{value!r} is no Kubernetes name (lower case letters, digits and '-', at most 63)")
    return value


def _of(parse: Parse, meaning: str) -> dict[str, Any]:
    return {"parse": parse, "meaning": meaning}


@dataclass(frozen=True)
class AgentSettings:
    """Everything `resource-slack audit agent` can be told. Each field's metadata has its parser and its meaning."""

    environment: ClassVar[Mapping[str, str]] = {"node": "NODE_NAME"}
    """Variables that pod templates fill from the downward API, used where nothing else says it."""

    node: str = field(default="", metadata=_of(_node, "Name of the node; NODE_NAME or the host's name when absent."))
    root: Path = field(
        default=Path("/"), metadata=_of(path, "The node's root directory: / or where a DaemonSet mounts it.")
    )
    interval: float = field(default=10.0, metadata=_of(duration(1), "How often all cgroups are sampled."))
    push_interval: float = field(
        default=60.0, metadata=_of(duration(5), "How often the controller is told; spread by a tenth.")
    )
    controller: str = field(
        default="", metadata=_of(_controller, "URL of the controller, https or on loopback http; none: only metrics.")
    )
    ca_file: Path | None = field(
        default=None, metadata=_of(path, "Certificates that sign the controller's; the system's when absent.")
    )
    token_file: Path = field(
        default=TOKEN_FILE,
        metadata=_of(path, "Service account token with audience resource-slack-audit; read anew for each report."),
    )
    listen: str = field(
        default="127.0.0.1:8080", metadata=_of(address, "Where /healthz, /readyz and /metrics are served.")
    )
    write_burst: bool = field(
        default=False, metadata=_of(switch, "Write the CPU bursts of containers that the controller orders.")
    )
    state_dir: Path = field(
        default=STATE_DIR, metadata=_of(path, "Where the bursts that were there before are remembered; on the node.")
    )
    log_format: LogFormat = field(default=LogFormat.CONSOLE, metadata=_of(choice(LogFormat), "console or json."))
    log_level: LogLevel = field(default=LogLevel.INFO, metadata=_of(choice(LogLevel), "debug, info, warning or error."))

    @property
    def listen_host_port(self) -> tuple[str, int]:
        """The listen address in parts."""
        return host_port(self.listen)

    @property
    def node_name(self) -> str:
        """The node's name, or the host's."""
        return self.node or socket.gethostname().lower()


@dataclass(frozen=True)
class ControllerSettings:
    """Everything `resource-slack audit controller` can be told; each field has its parser and its meaning."""

    environment: ClassVar[Mapping[str, str]] = {"namespace": "POD_NAMESPACE"}

    namespace: str = field(
        default="resource-slack", metadata=_of(_name, "Namespace of the lease, and of the agents' service account.")
    )
    lease_name: str = field(default="resource-slack-audit", metadata=_of(_name, "Name of the lease."))
    leader_elect: bool = field(default=True, metadata=_of(switch, "Act only while holding the lease."))
    agent_service_account: str = field(
        default="resource-slack-audit-agent", metadata=_of(_name, "Service account of the agents: who may report.")
    )
    interval: float = field(default=10.0, metadata=_of(duration(1), "How often reports are judged."))
    reports_listen: str = field(
        default="127.0.0.1:8443", metadata=_of(address, "Where agents' reports are taken; https but on loopback.")
    )
    tls_cert_file: Path | None = field(
        default=None, metadata=_of(path, "Certificate that agents check; read anew when it changes.")
    )
    tls_key_file: Path | None = field(default=None, metadata=_of(path, "Key of the certificate."))
    listen: str = field(
        default="127.0.0.1:8080", metadata=_of(address, "Where /healthz, /readyz and /metrics are served.")
    )
    log_format: LogFormat = field(default=LogFormat.CONSOLE, metadata=_of(choice(LogFormat), "console or json."))
    log_level: LogLevel = field(default=LogLevel.INFO, metadata=_of(choice(LogLevel), "debug, info, warning or error."))
    kubeconfig: Path | None = field(
        default=None, metadata=_of(path, "KUBECONFIG, the service account or ~/.kube/config when absent.")
    )
    context: str | None = field(default=None, metadata=_of(text, "Context in the kubeconfig."))

    def __post_init__(self) -> None:
        """Check what two settings are only together.

        Raises:
            BadAuditSettings: naming the flag.
        """
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            missing = "tls_key_file" if self.tls_key_file is None else "tls_cert_file"
            raise BadAuditSettings((f"{flag(missing)}: needed: certificate and key go together",))
        host = host_port(self.reports_listen)[0]
        if self.tls_cert_file is None and not is_loopback(host):
            raise BadAuditSettings(
                (
                    f"--tls-cert-file: needed, as --reports-listen {self.reports_listen} is no loopback address: "
                    "agents would send their tokens in the clear",
                )
            )

    @property
    def listen_host_port(self) -> tuple[str, int]:
        """The address of /metrics in parts."""
        return host_port(self.listen)

    @property
    def reports_host_port(self) -> tuple[str, int]:
        """The reports' address in parts."""
        return host_port(self.reports_listen)


Settings = TypeVar("Settings", bound="DataclassInstance")


def flag(name: str) -> str:
    """Give the flag of a setting: `push_interval` is `--push-interval`."""
    return "--" + name.replace("_", "-")


def load(
    kind: type[Settings], flags: Mapping[str, object], environ: Mapping[str, str], *, file: Path | None = None
) -> Settings:
    """Gather the settings of one of the processes.

    Args:
        kind: a dataclass whose fields have `parse` in their metadata, such as `AgentSettings`.
        flags: by setting name; None for a flag that was not given.
        environ: the process's environment.
        file: YAML with flag names as keys; `RESOURCE_SLACK_AUDIT_CONFIG` names it when this is None.

    Raises:
        BadAuditSettings: with every problem found.
    """
    parsers: dict[str, Parse] = {one.name: one.metadata["parse"] for one in fields(kind)}
    configured = environ.get(f"{ENVIRONMENT_PREFIX}CONFIG")
    file = file or (Path(configured) if configured else None)
    values: dict[str, object] = {}
    problems: list[str] = []
    given: dict[str, tuple[object, str]] = {}
    for key, value in _read(file).items() if file else ():
        name = key.replace("-", "_")
        if name in parsers:
            given[name] = value, f"{key} in {file}"
        else:
            known = ", ".join(flag(one)[2:] for one in parsers)
            problems.append(f"{key} in {file}: unknown setting; known are {known}")
    for name in parsers:
        variable = ENVIRONMENT_PREFIX + name.upper()
        if environ.get(variable):
            given[name] = environ[variable], variable
        if flags.get(name) is not None:
            given[name] = flags[name], flag(name)
    for name, variable in getattr(kind, "environment", {}).items():
        if name not in given and environ.get(variable):
            given[name] = environ[variable], variable
    for name, (value, where) in given.items():
        try:
            values[name] = parsers[name](value)
        except ValueError as error:
            origin = "" if where == flag(name) else f" (from {where})"
            problems.append(f"{flag(name)}{origin}: {error}")
    if problems:
        raise BadAuditSettings(tuple(problems))
    return kind(**values)


def _read(file: Path) -> dict[str, object]:
    import yaml  # only where there is a file: the agent needs none

    try:
        document = yaml.safe_load(file.read_text())
    except OSError as error:
        raise BadAuditSettings((f"settings file {file}: cannot be read: {error.strerror}",)) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise BadAuditSettings((f"settings file {file}: is no YAML",)) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        kind = type(document).__name__
        raise BadAuditSettings((f"settings file {file}: expected keys such as push-interval, found {kind}",))
    return {str(key): value for key, value in document.items()}
