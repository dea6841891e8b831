"""What `resource-slack scorer serve` can be told."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from slack.process.settings import NoValue, flag, setting
from slack.process.shared_settings import (
    ApiServerSettings,
    LoggingSettings,
    TlsSettings,
    namespace_setting,
    tls_cert_setting,
    tls_key_setting,
)
from slack.process.values import Parse, address, duration, host_port, is_loopback, load_watcher_url, path

HOUR_SECONDS = 3600.0
_EXAMPLE = "TargetLoadPacking=2,LoadVariationRiskBalancing"
_NAME = re.compile(r"(?P<name>[A-Za-z]+)(=(?P<weight>[0-9.]+))?")
_TLS = NoValue("the chart's scheduler asks over loopback; extraArgs and extraVolumes where another one is to")
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class AlgorithmArguments(tuple[Mapping[str, Any], ...]):
    """One mapping an algorithm: `name`, perhaps `weight`, and `args` under upstream's names."""

    __slots__ = ()

    def __str__(self) -> str:
        return ",".join(f"{item['name']}={item['weight']}" if "weight" in item else item["name"] for item in self)


def _algorithms(value: object) -> AlgorithmArguments:
    """Parse names with weights, or JSON, or what a settings file has: a list of names and mappings."""
    if isinstance(value, str) and not value.lstrip().startswith(("[", "{")):
        value = [word for word in value.split(",") if word.strip()]
    elif isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise ValueError(f"is no JSON: {error}") from None
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise ValueError(f"should be names such as {_EXAMPLE} or a list of mappings with a name")
    return AlgorithmArguments(_algorithm(item, index) for index, item in enumerate(value))


def _algorithm(item: object, index: int) -> Mapping[str, Any]:
    if isinstance(item, str):
        match = _NAME.fullmatch(item.strip())
        if match is None:
            raise ValueError(f"[{index}]: {item!r} is no name such as TargetLoadPacking or TargetLoadPacking=2")
        return {"name": match["name"]} | ({"weight": float(match["weight"])} if match["weight"] else {})
    if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
        raise ValueError(f"[{index}]: should be a mapping with a name, such as name: TargetLoadPacking")
    return {str(key): found for key, found in item.items()}


def _ceiling(value: object) -> float | None:
    """Parse a percentage; 0 is none, as the chart has it."""
    return _number(1, 1000)(value) if str(value).strip() not in ("0", "0.0") else None  # type: ignore[return-value]


def _number(least: float, most: float) -> Parse:
    def parse(value: object) -> float:
        try:
            number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
        except ValueError:
            number = None
        if number is None or not least <= number <= most:  # NaN is not between either
            raise ValueError(f"should be a number from {least:g} to {most:g}, not {value!r}")
        return number

    return parse


def _scale(value: object) -> int:
    digits = str(value)
    if isinstance(value, bool) or not (digits.isascii() and digits.isdecimal()) or not 1 <= int(digits) <= 100:
        raise ValueError(f"should be a whole number from 1 to 100, not {value!r}")
    return int(digits)


def _share(value: object) -> float:
    """Parse a share: 0.5, or 50%."""
    words = str(value).strip()
    try:
        if isinstance(value, bool):
            raise ValueError
        share = float(words[:-1]) / 100 if words.endswith("%") else float(words)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:  # NaN is not between either
        raise ValueError(f"should be a share of the nodes such as 0.5 or 50%, not {value!r}")
    return share


def _one_of(*words: str) -> Parse:
    def parse(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"should be {', '.join(words[:-1])} or {words[-1]}, not {value!r}")
        return value

    return parse


@dataclass(frozen=True, kw_only=True)
class ScorerSettings(TlsSettings, LoggingSettings, ApiServerSettings):
    """Everything `resource-slack scorer serve` can be told."""

    prefix: ClassVar[str] = "RESOURCE_SLACK_SCORER_"
    section: ClassVar[str | NoValue] = "scorer"
    example: ClassVar[str] = "load-watcher"
    environment: ClassVar[Mapping[str, str]] = {"namespace": "POD_NAMESPACE"}
    files: ClassVar[Mapping[str, Path]] = {"namespace": _NAMESPACE_FILE}

    load_watcher: str = setting(
        "http://127.0.0.1:2020",
        load_watcher_url,
        "The load watcher: ours, or upstream's; both formats are read.",
        metavar="URL",
        chart="scorer.loadWatcher",
    )
    load_watcher_ca_file: Path | None = setting(
        None,
        path,
        "Certificates that sign the load watcher's; the system's when absent.",
        metavar="FILE",
        chart=NoValue("the chart's own watcher is asked within the cluster; extraArgs where it is another"),
    )
    refresh: float = setting(
        15.0,
        duration(1, 300),
        "How often the load watcher is asked for its windows.",
        metavar="DURATION",
        chart="scorer.refresh",
    )
    algorithms: AlgorithmArguments = setting(
        AlgorithmArguments(({"name": "TargetLoadPacking"},)),
        _algorithms,
        f"Algorithms with weights, such as {_EXAMPLE}; as JSON or in the settings file a list of mappings with name, "
        "weight and args. Peaks needs args.",
        metavar="LIST",
        chart="scorer.algorithms",
    )
    scale: int = setting(
        10,
        _scale,
        "The best score that is sent, 1 to 100. kube-scheduler multiplies it by ten: 10 counts as much as one "
        "scheduler plugin, 100 as ten.",
        metavar="NUMBER",
        chart="scorer.scale",
    )
    filter_above: float | None = setting(
        None,
        _ceiling,
        "Serve /filter and /preempt, and refuse nodes that the pod would bring above this CPU use. Pods of DaemonSets "
        "and system-critical pods are exempt.",
        metavar="PERCENT",
        chart="scorer.filterAbove",
    )
    filter_memory_above: float | None = setting(
        None,
        _ceiling,
        "The same for memory use.",
        metavar="PERCENT",
        chart="scorer.filterMemoryAbove",
    )
    when_all_above: str = setting(
        "Refuse",
        _one_of("Refuse", "Admit"),
        "If every node that the scheduler asks about is above the ceiling: Refuse (the pod stays Pending until the "
        "load falls) or Admit (it may go to any of them).",
        metavar="WORD",
        chart="scorer.whenAllAbove",
    )
    window: float = setting(
        300.0,
        duration(60, HOUR_SECONDS),
        "Which window of the load watcher is used: 5m, 10m or 15m. If it is missing or too old, shorter ones are "
        "used, then longer ones.",
        metavar="DURATION",
        chart="scorer.window",
    )
    max_age: float = setting(
        300.0,
        duration(10, HOUR_SECONDS),
        "A window that ended longer ago is ignored.",
        metavar="DURATION",
        chart="scorer.maxAge",
    )
    max_ahead: float = setting(
        60.0,
        duration(0, HOUR_SECONDS),
        "A window that ends later than this from now is ignored: one of the clocks is wrong.",
        metavar="DURATION",
        chart="scorer.maxAhead",
    )
    recent: float = setting(
        300.0,
        duration(0, HOUR_SECONDS),
        "For how long the use of a pod that was just bound is predicted.",
        metavar="DURATION",
        chart="scorer.recent",
    )
    reporting: float = setting(
        60.0,
        duration(0, HOUR_SECONDS),
        "How long the use of a pod takes to reach the metrics; until then all that is predicted of it counts.",
        metavar="DURATION",
        chart="scorer.reporting",
    )
    new_node: float = setting(
        900.0,
        duration(0, 24 * HOUR_SECONDS),
        "For how long a node that was just made may have no metrics, while no older pods run there, and count as idle.",
        metavar="DURATION",
        chart="scorer.newNode",
    )
    min_measured_nodes: float = setting(
        0.5,
        _share,
        "If the CPU load of a smaller share of the nodes is known, all nodes score the same.",
        metavar="SHARE",
        chart="scorer.minMeasuredNodes",
    )
    without_load: str = setting(
        "Spread",
        _one_of("Spread", "Neutral", "Pack"),
        "If the load of no node is known: Spread (by requests, the emptiest node first), Pack (by requests, the "
        "fullest first) or Neutral (all nodes score the same).",
        metavar="WORD",
        chart="scorer.withoutLoad",
    )
    pod_use: str = setting(
        "RequestsTimesMultiplier",
        _one_of("RequestsTimesMultiplier", "Requests", "Limits"),
        "What a pod is predicted to use, before it is bound and after: RequestsTimesMultiplier, Requests or Limits.",
        metavar="WORD",
        chart="scorer.podUse",
    )
    request_multiplier: float = setting(
        1.5,
        _number(0, 100),
        "With RequestsTimesMultiplier a pod is predicted to use its request, so many times.",
        metavar="NUMBER",
        chart="scorer.requestMultiplier",
    )
    best_effort_millis: float = setting(
        1.0,
        _number(0, 1_000_000),
        "What a container without a CPU request is predicted to use, in millicores.",
        metavar="NUMBER",
        chart="scorer.bestEffortMillis",
    )
    namespace: str = namespace_setting(
        "Namespace of the placeholders, which are no load; the pod's own where it runs in one."
    )
    extender_listen: str = setting(
        "127.0.0.1:8888",
        address,
        "Address of /prioritize and /explain. Off loopback only with TLS and certificates of clients.",
        metavar="HOST:PORT",
        chart=NoValue("the scheduler in the same pod knows the port"),
    )
    tls_cert_file: Path | None = tls_cert_setting(
        "Certificate for --extender-listen; read again when it changes.", _TLS
    )
    tls_key_file: Path | None = tls_key_setting(_TLS)
    client_ca_file: Path | None = setting(
        None, path, "Certificates that sign those of schedulers; others are not answered.", metavar="FILE", chart=_TLS
    )
    record: Path | None = setting(
        None,
        path,
        "Append each decision to this file, a line each, for `scorer score --lines`; pods and nodes are named in it.",
        metavar="FILE",
        chart=NoValue("for a look by hand; extraArgs"),
    )

    def problems(self) -> Iterator[str]:
        """Yield which of certificate, key and the clients' authority are needed."""
        files = {name: getattr(self, name) for name in ("tls_cert_file", "tls_key_file", "client_ca_file")}
        missing = [name for name, file in files.items() if file is None]
        if 0 < len(missing) < len(files):
            for name in missing:
                yield f"{flag(name)}: needed: certificate, key and the clients' authority go together"
        elif not is_loopback(host_port(self.extender_listen)[0]):
            for name in missing:
                yield (
                    f"{flag(name)}: needed, as --extender-listen {self.extender_listen} is no loopback address: scores "
                    "decide where pods run"
                )
