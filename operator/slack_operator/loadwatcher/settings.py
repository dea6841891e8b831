"""What `resource-slack load-watcher serve` can be told."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from slack.process.settings import NoValue, setting
from slack.process.shared_settings import (
    ApiServerSettings,
    LoggingSettings,
    TlsSettings,
    tls_cert_setting,
    tls_key_setting,
)
from slack.process.values import HTTP_SCHEMES, choice, duration, path, split_url, switch, text
from slack.process.values import address as listen_address

HOUR_SECONDS = 3600.0
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_TLS = NoValue("loadWatcher.tls, where the Secret is mounted")


class Provider(StrEnum):
    """Who has the figures."""

    METRICS_SERVER = "metrics-server"
    PROMETHEUS = "prometheus"
    INFLUXDB = "influxdb"


class QuerySet(StrEnum):
    """Which PromQL is used where no query is given."""

    NODE_EXPORTER = "node-exporter"
    """From node_exporter's own counters, named by node_uname_info: needs no recording rule."""
    UPSTREAM = "upstream"
    """The recording rules that upstream's load-watcher asks for, named by `instance`."""


class WireFormat(StrEnum):
    """How replies are written."""

    PROPOSAL = "proposal"
    UPSTREAM = "upstream"


def _provider_url(value: object) -> str:
    """Parse the provider's address."""
    parts = split_url(value, HTTP_SCHEMES)
    if parts is None:
        raise ValueError(f"{_without_password(value)} is no http or https address such as http://127.0.0.1:9090")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("should have no user, '?' or '#'; a name and a password go into --username and --token-file")
    return str(value).rstrip("/")


def _without_password(value: object) -> str:
    """Show an address without what may be a password in it."""
    return repr("***@" + value.rpartition("@")[2] if isinstance(value, str) and "@" in value else value)


def _headers(value: object) -> Mapping[str, str]:
    """Parse headers: a mapping of the settings file, or lines `Name: value`."""
    if isinstance(value, Mapping):
        pairs = [(str(name), str(word)) for name, word in value.items()]
    elif isinstance(value, str):
        lines = [line for line in value.splitlines() if line.strip()]
        if any(":" not in line for line in lines):
            raise ValueError("should be lines such as 'X-Scope-OrgID: team-a'")
        pairs = [(name.strip(), word.strip()) for name, _, word in (line.partition(":") for line in lines)]
    else:
        raise ValueError("should be lines such as 'X-Scope-OrgID: team-a', or a mapping")
    for name, word in pairs:
        if not _HEADER.fullmatch(name) or not word.isascii() or not word.isprintable():
            raise ValueError(f"{name!r} is no header that can be sent")
    return dict(pairs)


def _metric_label(value: object) -> str:
    """Parse the name of a label, or of an InfluxDB tag."""
    if not isinstance(value, str) or not _LABEL.fullmatch(value):
        raise ValueError(f"{value!r} is no name of a label such as nodename")
    return value


_QUERIES = "loadWatcher.queries"


@dataclass(frozen=True, kw_only=True)
class LoadWatcherSettings(TlsSettings, LoggingSettings, ApiServerSettings):
    """Everything `resource-slack load-watcher serve` can be told."""

    prefix: ClassVar[str] = "RESOURCE_SLACK_LOAD_WATCHER_"
    section: ClassVar[str | NoValue] = "loadWatcher"
    example: ClassVar[str] = "provider"

    provider: Provider = setting(
        Provider.METRICS_SERVER,
        choice(Provider),
        "Who has the figures: metrics-server, prometheus or influxdb.",
        metavar="PROVIDER",
        chart="loadWatcher.provider",
    )
    address: str | None = setting(
        None,
        _provider_url,
        "The provider's address, such as http://127.0.0.1:9090; metrics-server is asked through the API server.",
        metavar="URL",
        chart="loadWatcher.address",
    )
    username: str | None = setting(
        None,
        text,
        "User for HTTP's basic authentication; the password is the content of --token-file. None: a bearer token.",
        chart="loadWatcher.username",
    )
    token_file: Path | None = setting(
        None,
        path,
        "File with the token, or the password, for the provider; read again for each fetch.",
        metavar="FILE",
        chart="loadWatcher.tokenSecret",
    )
    ca_file: Path | None = setting(
        None,
        path,
        "Certificates that sign the provider's; the system's when absent.",
        metavar="FILE",
        chart="loadWatcher.caSecret",
    )
    headers: Mapping[str, str] | None = setting(
        None,
        _headers,
        "More headers for the provider, a line each, such as 'X-Scope-OrgID: team-a'.",
        metavar="LINES",
        chart="loadWatcher.headers",
    )
    queries: QuerySet = setting(
        QuerySet.NODE_EXPORTER,
        choice(QuerySet),
        "Which PromQL: node-exporter (its own counters, without recording rules) or upstream (kube-prometheus' rules).",
        metavar="SET",
        chart=f"{_QUERIES}.set",
    )
    cpu_query: str | None = setting(
        None,
        text,
        "Instead of the set's: an expression that gives each node's share of CPU in use, 0 to 1. InfluxDB: a SELECT "
        "of it as `value`.",
        metavar="QUERY",
        chart=f"{_QUERIES}.cpu",
    )
    memory_query: str | None = setting(None, text, "The same for memory.", metavar="QUERY", chart=f"{_QUERIES}.memory")
    network_query: str | None = setting(
        None, text, "The same for the network; none: it is not asked for.", metavar="QUERY", chart=f"{_QUERIES}.network"
    )
    disk_query: str | None = setting(
        None, text, "The same for disks; none: they are not asked for.", metavar="QUERY", chart=f"{_QUERIES}.disk"
    )
    node_label: str | None = setting(
        None,
        _metric_label,
        "Label (InfluxDB: tag) that names the node; the set's own when absent: nodename, instance or host.",
        metavar="LABEL",
        chart=f"{_QUERIES}.nodeLabel",
    )
    step: float = setting(
        30.0,
        duration(1, 300),
        "Step of PromQL subqueries: how far apart the samples are of which average and deviation are made.",
        metavar="DURATION",
        chart=f"{_QUERIES}.step",
    )
    database: str = setting("telegraf", text, "InfluxDB's database.", chart="loadWatcher.database")
    match_nodes: bool = setting(
        True,
        switch,
        "Match names of series to the cluster's nodes, also by address and host name; no: they are taken as they are, "
        "and no API server is asked.",
        chart=NoValue("in a cluster they are matched"),
    )
    interval: float = setting(
        60.0,
        duration(1, HOUR_SECONDS),
        "How often all windows are fetched.",
        metavar="DURATION",
        chart="loadWatcher.interval",
    )
    sample_interval: float = setting(
        15.0,
        duration(1, 300),
        "How often metrics-server is sampled: it has no history, averages and deviations are made of our samples.",
        metavar="DURATION",
        chart="loadWatcher.sampleInterval",
    )
    max_age: float = setting(
        300.0,
        duration(10, HOUR_SECONDS),
        "Figures whose newest sample is older are left out.",
        metavar="DURATION",
        chart="loadWatcher.maxAge",
    )
    state_file: Path | None = setting(
        None,
        path,
        "SQLite file in which windows and samples outlive a restart; one process a file. None: they do not.",
        metavar="FILE",
        chart="loadWatcher.persistence",
    )
    format: WireFormat = setting(
        WireFormat.PROPOSAL,
        choice(WireFormat),
        "proposal (the Trimaran proposal's JSON) or upstream (that of paypal/load-watcher, which stock plugins read).",
        metavar="FORMAT",
        chart="loadWatcher.format",
    )
    api_listen: str = setting(
        "127.0.0.1:2020",
        listen_address,
        "Address of /watcher and /openapi.json.",
        metavar="HOST:PORT",
        chart=NoValue("the Service knows the port"),
    )
    tls_cert_file: Path | None = tls_cert_setting(
        "Certificate for --api-listen; read again when it changes. None: plain HTTP.", _TLS
    )
    tls_key_file: Path | None = tls_key_setting(_TLS)

    def problems(self) -> Iterator[str]:
        """Yield what has no meaning with the provider, and what is needed with something else."""
        if self.provider is Provider.METRICS_SERVER:
            if self.address is not None:
                yield "--address: has no meaning with --provider metrics-server: the API server is asked"
            if not self.match_nodes:
                yield "--match-nodes: must be on with --provider metrics-server: shares need nodes' capacity"
            if self.sample_interval > self.interval:
                yield f"--sample-interval: must not be longer than --interval {self.interval:g}s"
        elif self.address is None:
            yield f"--address: needed with --provider {self.provider}, such as http://127.0.0.1:9090"
        if self.max_age < 2 * self.interval:
            yield f"--max-age: must be at least twice --interval {self.interval:g}s"
        yield from super().problems()
        if self.username is not None and self.token_file is None:
            yield "--token-file: needed, as --username is given: it holds the password"
