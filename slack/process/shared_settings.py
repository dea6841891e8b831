"""Settings that several processes have: mixins of their dataclasses, from which a process is made up.

What means the same everywhere is inherited. What means something else in a process (its namespace, its certificate) is
declared again there, with the function that stands before the mixin here.
"""

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from slack.process.logs import LogFormat, LogLevel
from slack.process.settings import NoValue, Settings, flag, setting
from slack.process.values import choice, dns_label, duration, host_port, is_loopback, node_name, path, switch, text

DAY_SECONDS = 86_400.0
_MOUNTED = NoValue("a Secret, where it is mounted")


@dataclass(frozen=True, kw_only=True)
class LoggingSettings(Settings):
    """How a process logs."""

    log_format: LogFormat = setting(
        LogFormat.CONSOLE, choice(LogFormat), "console or json.", metavar="FORMAT", chart=".logFormat"
    )
    log_level: LogLevel = setting(
        LogLevel.INFO, choice(LogLevel), "debug, info, warning or error.", metavar="LEVEL", chart=".logLevel"
    )


@dataclass(frozen=True, kw_only=True)
class ApiServerSettings(Settings):
    """Where the API server is."""

    kubeconfig: Path | None = setting(
        None,
        path,
        "Kubeconfig file; KUBECONFIG, the service account or ~/.kube/config when absent.",
        metavar="FILE",
        chart=NoValue("in a cluster the service account is used"),
    )
    context: str | None = setting(
        None, text, "Context in the kubeconfig.", chart=NoValue("in a cluster there is no kubeconfig")
    )


def namespace_setting(meaning: str) -> Any:
    """Declare the namespace that a process is in."""
    chart = NoValue("the release's namespace, by POD_NAMESPACE")
    return setting("resource-slack", dns_label, meaning, chart=chart)


def lease_name_setting(default: str) -> Any:
    """Declare the lease of a process."""
    chart = NoValue(f"{default}: one lease for all releases of a namespace")
    return setting(default, dns_label, "Name of the lease.", chart=chart)


def leader_elect_setting(meaning: str) -> Any:
    """Declare whether a process waits for its lease."""
    chart = NoValue("always on: replicas may be raised, and a new one starts before the old one has ended")
    return setting(True, switch, meaning, chart=chart)


@dataclass(frozen=True, kw_only=True)
class LeadingSettings(LoggingSettings, ApiServerSettings):
    """How a process leads, and how often it looks at its cluster."""

    environment: ClassVar[Mapping[str, str]] = {"namespace": "POD_NAMESPACE"}

    namespace: str = namespace_setting("Namespace of the lease.")
    lease_name: str = lease_name_setting("resource-slack")
    leader_elect: bool = leader_elect_setting("Act only while holding the lease.")
    interval: float = setting(
        10.0,
        duration(1, DAY_SECONDS),
        "How often the cluster is looked at.",
        metavar="DURATION",
        chart=NoValue("one that suits every cluster"),
    )


def tls_cert_setting(meaning: str, chart: NoValue) -> Any:
    """Declare the certificate of a server."""
    return setting(None, path, meaning, metavar="FILE", chart=chart)


def tls_key_setting(chart: NoValue, meaning: str = "Key of the certificate.") -> Any:
    """Declare the key of that certificate."""
    return setting(None, path, meaning, metavar="FILE", chart=chart)


@dataclass(frozen=True, kw_only=True)
class TlsSettings(Settings):
    """The certificate of a process that serves more than probes and metrics."""

    tls_cert_file: Path | None = tls_cert_setting("Certificate; read again when it changes.", _MOUNTED)
    tls_key_file: Path | None = tls_key_setting(_MOUNTED)

    def problems(self) -> Iterator[str]:
        """Yield that a certificate lacks its key, or a key its certificate."""
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            missing = "tls_key_file" if self.tls_key_file is None else "tls_cert_file"
            yield f"{flag(missing)}: needed: certificate and key go together"

    def clear_text_problems(self, name: str, why: str) -> Iterator[str]:
        """Yield that an address which other machines reach needs a certificate.

        Args:
            name: of the setting that has the address.
            why: what would be in the clear.
        """
        address = getattr(self, name)
        if self.tls_cert_file is None and not is_loopback(host_port(address)[0]):
            yield f"--tls-cert-file: needed, as {flag(name)} {address} is no loopback address: {why}"


@dataclass(frozen=True, kw_only=True)
class NodeSettings(Settings):
    """The node of a process that runs on each."""

    environment: ClassVar[Mapping[str, str]] = {"node": "NODE_NAME"}

    node: str | None = setting(
        None,
        node_name,
        "Name of the node; NODE_NAME or the host's name when absent.",
        chart=NoValue("the pod's node, by NODE_NAME"),
    )

    @property
    def node_name(self) -> str:
        """The node's name, or the host's."""
        return self.node or socket.gethostname().lower()
