"""Settings of every process, each declared once: flags over environment over file over defaults.

A field `lease_name` is the flag `--lease-name`, the variable `PREFIX_LEASE_NAME` and the key `lease-name` of the file;
its declaration has the parser, the help, and the chart's value that sets it. The command line, the reference page and
the tests of the chart are made from it. Plain dataclasses: the agent runs on every node, and pydantic alone would be a
third of its memory. Nothing is read at import time; `load` gets its surroundings as arguments.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from slack.errors import InvalidInput
from slack.process.values import Parse, address, switch


class InvalidSettings(InvalidInput):
    """Settings that cannot be used; each problem names the flag, variable or key and what would be right."""


_MOST_FILE_BYTES = 1 << 20
_LAST = ("log_format", "log_level", "kubeconfig", "context", "listen")
"""Settings that are named after all others."""


class NoValue(NamedTuple):
    """Says why no value of the chart sets a setting."""

    why: str


class Declared(NamedTuple):
    """One setting: everything that is said of it anywhere."""

    name: str
    default: Any
    parse: Parse
    meaning: str
    metavar: str
    chart: str | NoValue
    """The chart's value that sets it, such as `operator.interval`."""

    @property
    def flag(self) -> str:
        """The flag: `push_interval` is `--push-interval`."""
        return flag(self.name)

    @property
    def key(self) -> str:
        """The key of the file."""
        return self.flag.removeprefix("--")

    @property
    def is_switch(self) -> bool:
        """Whether the flag takes no value."""
        return self.parse is switch

    @property
    def default_text(self) -> str | None:
        """The default as one would write it; None where there is none."""
        if self.default is None:
            return None
        if isinstance(self.default, bool):
            return str(self.default).lower()
        if isinstance(self.default, tuple) and all(isinstance(one, str) for one in self.default):
            return ",".join(self.default)
        if self.metavar == "DURATION":
            return f"{self.default * 1000:g}ms" if 0 < self.default < 1 else f"{self.default:g}s"
        return f"{self.default}"


def setting(default: Any, parse: Parse, meaning: str, *, metavar: str = "NAME", chart: str | NoValue) -> Any:
    """Declare one setting, as a dataclass's field.

    Args:
        default: where nobody says anything.
        parse: reads what was given.
        meaning: for help and reference.
        metavar: stands for the value there.
        chart: the chart's value that sets it; `.logFormat` is in the process's own part of the values.
    """
    return field(default=default, metadata={"parse": parse, "meaning": meaning, "metavar": metavar, "chart": chart})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the settings of every process are made of."""

    prefix: ClassVar[str] = "RESOURCE_SLACK_"
    example: ClassVar[str] = "lease-name"
    """The key that is named where a file has none."""
    environment: ClassVar[Mapping[str, str]] = {}
    """Variables that pod templates fill from the downward API, used where nothing else says it."""
    files: ClassVar[Mapping[str, Path]] = {}
    """Files that Kubernetes puts into pods, used after that."""
    section: ClassVar[str | NoValue] = NoValue("no part of the chart's values is its own")
    """The process's own part of the chart's values, such as `operator`."""

    listen: str = setting(
        "127.0.0.1:8080",
        address,
        "Address of /healthz, /readyz and /metrics.",
        metavar="HOST:PORT",
        chart=NoValue("probes and Services know the port"),
    )
    given: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """Names of the settings that are not defaults."""

    def __post_init__(self) -> None:
        """Check what settings are only together.

        Raises:
            InvalidSettings: with every problem found.
        """
        problems = tuple(self.problems())
        if problems:
            raise InvalidSettings(problems)

    def problems(self) -> Iterator[str]:
        """Yield what settings cannot be together, each problem with the flag to change."""
        yield from ()


Kind = TypeVar("Kind", bound=Settings)


def flag(name: str) -> str:
    """Give the flag of a setting: `lease_name` is `--lease-name`."""
    return "--" + name.replace("_", "-")


def declared_settings(kind: type[Settings]) -> tuple[Declared, ...]:
    """Return all settings of a process.

    Their order, in help and reference:
    1. what is inherited as it is,
    2. what the process declares itself, in that order,
    3. logs, API server and probes, which nearly all processes have.
    """
    own = list(kind.__annotations__)

    def place(name: str) -> tuple[int, int]:
        return _LAST.index(name) if name in _LAST else -1, own.index(name) if name in own else -1

    found = sorted(fields(kind), key=lambda one: place(one.name))
    return tuple(_in_section(Declared(one.name, one.default, **one.metadata), kind) for one in found if one.metadata)


def _in_section(found: Declared, kind: type[Settings]) -> Declared:
    if isinstance(found.chart, NoValue) or not found.chart.startswith("."):
        return found
    chart = kind.section if isinstance(kind.section, NoValue) else kind.section + found.chart
    return found._replace(chart=chart)


def load(
    kind: type[Kind],
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    *,
    file: Path | None = None,
    files: Mapping[str, Path] | None = None,
) -> Kind:
    """Gather the settings of a process.

    Args:
        kind: the process's settings.
        flags: by setting name; None for a flag that was not given.
        environ: the process's environment.
        file: YAML with flag names as keys, null as if absent; `PREFIX_CONFIG` names it when this is None.
        files: instead of the kind's own `files`.

    Raises:
        InvalidSettings: with every problem found.
    """
    parsers = {found.name: found.parse for found in declared_settings(kind)}
    configured = environ.get(f"{kind.prefix}CONFIG")
    file = file or (Path(configured) if configured else None)
    problems: list[str] = []
    given: dict[str, tuple[object, str]] = {}
    for key, value in _read(file, kind.example).items() if file else ():
        name = key.replace("-", "_")
        if name in parsers and value is None:
            continue  # `kubeconfig:` is written for a default
        if name in parsers:
            given[name] = value, f"{key} in {file}"
        else:
            known = ", ".join(flag(name)[2:] for name in parsers)
            problems.append(f"{key} in {file}: unknown setting; known are {known}")
    for name in parsers:
        variable = kind.prefix + name.upper()
        if environ.get(variable):
            given[name] = environ[variable], variable
        if flags.get(name) is not None:
            given[name] = flags[name], flag(name)
    for name, variable in kind.environment.items():
        if environ.get(variable):
            given.setdefault(name, (environ[variable], variable))
    for name, place in (kind.files if files is None else files).items():
        if name not in given and place.is_file():
            given[name] = place.read_text().strip(), str(place)
    values: dict[str, Any] = {}
    for name, (value, where) in given.items():
        try:
            values[name] = parsers[name](value)
        except ValueError as error:
            origin = "" if where == flag(name) else f" (from {where})"
            problems.append(f"{flag(name)}{origin}: {error}")
    if problems:
        raise InvalidSettings(tuple(problems))
    return kind(**values, given=frozenset(values))


def _read(file: Path, example: str) -> dict[str, object]:
    import yaml  # only where there is a file: the agent needs none

    from slack.cluster.yaml_bounds import UnboundedYaml, check_bounds

    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST_FILE_BYTES + 1)
        if len(data) > _MOST_FILE_BYTES:
            raise InvalidSettings((f"settings file {file}: is longer than {_MOST_FILE_BYTES >> 10} KiB",))
        check_bounds(data)
        document = yaml.safe_load(data)
    except OSError as error:
        raise InvalidSettings((f"settings file {file}: cannot be read: {error.strerror}",)) from None
    except InvalidSettings:
        raise
    except UnboundedYaml as error:
        raise InvalidSettings((f"settings file {file}: {error}; expected keys such as {example}",)) from None
    except (yaml.YAMLError, ValueError):
        raise InvalidSettings((f"settings file {file}: is no YAML",)) from None
    except RecursionError:
        problem = f"settings file {file}: it is nested too deeply; expected keys such as {example}"
        raise InvalidSettings((problem,)) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        kind = type(document).__name__
        raise InvalidSettings((f"settings file {file}: expected keys such as {example}, found {kind}",))
    return {str(key): value for key, value in document.items()}
