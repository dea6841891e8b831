"""Settings of the operator: flags over environment over file over defaults, each complaint naming where it came from.

A setting `lease_name` is the flag `--lease-name`, the variable `RESOURCE_SLACK_LEASE_NAME` and the key `lease-name` of
the file. Nothing is read at import time; `load` gets its surroundings as arguments.
"""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo

from slack.planner.policy import DEFAULT_RATE, parse_duration
from slack.process.logs import LogFormat, LogLevel

ENVIRONMENT_PREFIX = "RESOURCE_SLACK_"
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
DEFAULT_NAMESPACE = "resource-slack"

_HOST = re.compile(r"[A-Za-z0-9._:%-]+")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class BadSettings(ValueError):
    """Settings that cannot be used; each problem names the flag, variable or key and what would be right."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


def _rate(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("is no number; write a rate such as 0.1")
    if isinstance(value, str):
        percent = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", value)
        if percent:
            raise ValueError(f"{value!r} is a percentage; write {float(percent[1]) / 100:g}")
        try:
            return float(value)
        except ValueError:
            raise ValueError(f"{value!r} is no number; write a rate such as 0.1") from None
    return value


def _duration(value: object) -> object:
    return timedelta(seconds=value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _at_least_a_second(value: timedelta) -> timedelta:
    if value < timedelta(seconds=1):
        raise ValueError("must be at least 1s")
    return value


def _dns_label(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(f"{value!r} is no Kubernetes name (lower case letters, digits and '-', at most 63)")
    return value


def _address(value: str) -> str:
    host, colon, port = value.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    whole = _HOST.fullmatch(bare) and (bare != host) == (":" in bare)  # IPv6 needs its brackets, nothing else has any
    if not colon or not whole or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise ValueError(f"{value!r} is no address such as 127.0.0.1:8080 or 0.0.0.0:8080")
    return value


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _guarded(value: Path | None, info: ValidationInfo) -> Path | None:
    listen = info.data.get("web_listen")  # absent when it is bad itself
    if value is None and listen and info.data.get("web") and not is_loopback(str(listen).rpartition(":")[0]):
        raise ValueError(
            f"needed, as --web-listen {listen} is no loopback address: name a file with the token that the page is to "
            f"ask for, or listen on 127.0.0.1 and use kubectl port-forward"
        )
    return value


class OperatorSettings(BaseModel):
    """Everything `resource-slack operator` can be told."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    extra_capacity_min_rate: Annotated[float, BeforeValidator(_rate), Field(ge=0, le=10, allow_inf_nan=False)] = (
        DEFAULT_RATE
    )
    """Extra capacity as a share of the requests of real pods, for policies that name no rate."""
    namespace: Annotated[str, AfterValidator(_dns_label)] = DEFAULT_NAMESPACE
    """Namespace of the placeholders and of the lease."""
    image: Annotated[str, Field(min_length=1)] = "registry.k8s.io/pause:3.10"
    """Image of the placeholders; it only has to wait."""
    interval: Annotated[
        timedelta,
        BeforeValidator(lambda value: parse_duration(_duration(value))),
        AfterValidator(_at_least_a_second),
    ] = timedelta(seconds=10)
    """How often the cluster is planned for even when nothing is seen to change."""
    leader_elect: bool = True
    """Act only while holding the lease; needed with more than one replica."""
    lease_name: Annotated[str, AfterValidator(_dns_label)] = "resource-slack"
    """Name of the lease."""
    listen: Annotated[str, AfterValidator(_address)] = "127.0.0.1:8080"
    """Where /healthz, /readyz and /metrics are served."""
    web: bool = False
    """Serve the web page: read-only, what the operator sees and plans."""
    web_listen: Annotated[str, AfterValidator(_address)] = "127.0.0.1:8081"
    """Where the page is served; `kubectl port-forward` reaches a loopback address too."""
    web_token_file: Annotated[Path | None, AfterValidator(_guarded), Field(validate_default=True)] = None
    """File with the token that the page asks for; needed when --web-listen is no loopback address."""
    rescue_stuck_preemptors: bool = True
    """Free real pods that the scheduler leaves hanging after preemption, by clearing status.nominatedNodeName."""
    log_format: LogFormat = LogFormat.CONSOLE
    """console or json."""
    log_level: LogLevel = LogLevel.INFO
    """debug, info, warning or error."""
    kubeconfig: Path | None = None
    """Kubeconfig file; KUBECONFIG, the service account or ~/.kube/config when absent."""
    context: str | None = None
    """Context in the kubeconfig."""

    @property
    def interval_seconds(self) -> float:
        """The interval as a number."""
        return self.interval.total_seconds()

    @property
    def listen_host_port(self) -> tuple[str, int]:
        """The listen address in parts."""
        return _host_port(self.listen)

    @property
    def web_host_port(self) -> tuple[str, int]:
        """The page's address in parts."""
        return _host_port(self.web_listen)


def _host_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def flag(name: str) -> str:
    """Give the flag of a setting: `lease_name` is `--lease-name`."""
    return "--" + name.replace("_", "-")


def load(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    *,
    file: Path | None = None,
    namespace_file: Path = NAMESPACE_FILE,
) -> OperatorSettings:
    """Gather the settings.

    Args:
        flags: by setting name; None for a flag that was not given.
        environ: the process's environment.
        file: YAML with flag names as keys; `RESOURCE_SLACK_CONFIG` names it when this is None.
        namespace_file: where a pod finds its namespace.

    Raises:
        BadSettings: with every problem found.
    """
    names = OperatorSettings.model_fields
    values: dict[str, object] = {}
    origin: dict[str, str] = {}

    def take(name: str, value: object, where: str) -> None:
        values[name], origin[name] = value, where

    file = file or (
        Path(environ[f"{ENVIRONMENT_PREFIX}CONFIG"]) if environ.get(f"{ENVIRONMENT_PREFIX}CONFIG") else None
    )
    unknown = []
    for key, value in _read(file).items() if file else ():
        name = key.replace("-", "_")
        if name in names:
            take(name, value, f"{key} in {file}")
        else:
            unknown.append(f"{key} in {file}: unknown setting; known are {', '.join(flag(n)[2:] for n in names)}")
    for name in names:
        variable = ENVIRONMENT_PREFIX + name.upper()
        if environ.get(variable):
            take(name, environ[variable], variable)
        if flags.get(name) is not None:
            take(name, flags[name], flag(name))
    if "namespace" not in values:
        if environ.get("POD_NAMESPACE"):
            take("namespace", environ["POD_NAMESPACE"], "POD_NAMESPACE")
        elif namespace_file.is_file():
            take("namespace", namespace_file.read_text().strip(), str(namespace_file))
    problems = list(unknown)
    try:
        settings = OperatorSettings.model_validate(values)
    except ValidationError as error:
        problems += [_problem(dict(one), origin.get) for one in error.errors()]
        raise BadSettings(tuple(problems)) from None
    if problems:
        raise BadSettings(tuple(problems))
    return settings


_PLAINER = {
    "bool_parsing": "should be true or false",
    "bool_type": "should be true or false",
    "path_type": "should be a path",
    "string_type": "should be a text",
    "string_too_short": "must not be empty",
}
"""What pydantic says in Python's words."""


def _problem(error: Mapping[str, Any], origin: Callable[[str], str | None]) -> str:
    name = str(error["loc"][0]) if error["loc"] else ""
    message = _PLAINER.get(str(error["type"])) or str(error["msg"]).removeprefix("Value error, ")
    if error["type"] != "value_error":
        message = f"{message[0].lower()}{message[1:]}, not {error.get('input')!r}"
    where = origin(name) or flag(name)
    return f"{flag(name)}: {message}" if where == flag(name) else f"{flag(name)} (from {where}): {message}"


def _read(file: Path) -> dict[str, object]:
    try:
        document = yaml.safe_load(file.read_text())
    except OSError as error:
        raise BadSettings((f"settings file {file}: cannot be read: {error.strerror}",)) from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise BadSettings((f"settings file {file}: is no YAML",)) from None
    except RecursionError:
        raise BadSettings(
            (f"settings file {file}: it is nested too deeply; expected keys such as lease-name",)
        ) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise BadSettings((f"settings file {file}: expected keys such as lease-name, found {type(document).__name__}",))
    return {str(key): value for key, value in document.items()}
