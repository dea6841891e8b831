"""What the auditor's processes can be told: `resource-slack audit agent` and `audit controller`."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from slack.process.logs import LogFormat, LogLevel
from slack.process.settings import (
    InvalidSettings,
    NoValue,
    Settings,
    context_setting,
    flag,
    kubeconfig_setting,
    log_format_setting,
    log_level_setting,
    setting,
)
from slack.process.values import (
    address,
    controller_url,
    dns_label,
    duration,
    host_port,
    is_loopback,
    node_name,
    path,
    switch,
)

PREFIX = "RESOURCE_SLACK_AUDIT_"
DAY_SECONDS = 86_400.0
_TLS = NoValue("the Secret of audit.tls.secretName, or the chart's own, where it is mounted")


@dataclass(frozen=True, kw_only=True)
class AgentSettings(Settings):
    """Everything `resource-slack audit agent` can be told."""

    prefix: ClassVar[str] = PREFIX
    example: ClassVar[str] = "push-interval"
    environment: ClassVar[Mapping[str, str]] = {"node": "NODE_NAME"}

    node: str | None = setting(
        None,
        node_name,
        "Name of the node; NODE_NAME or the host's name when absent.",
        chart=NoValue("the pod's node, by NODE_NAME"),
    )
    root: Path = setting(
        Path("/"),
        path,
        "The node's root directory: / or where a DaemonSet mounts it.",
        metavar="DIR",
        chart=NoValue("where the DaemonSet mounts it"),
    )
    interval: float = setting(
        10.0,
        duration(1, DAY_SECONDS),
        "How often all cgroups are sampled.",
        metavar="DURATION",
        chart="audit.agent.interval",
    )
    push_interval: float = setting(
        60.0,
        duration(5, DAY_SECONDS),
        "How often the controller is told; spread by a tenth.",
        metavar="DURATION",
        chart="audit.agent.pushInterval",
    )
    controller: str | None = setting(
        None,
        controller_url("https://resource-slack-audit.resource-slack.svc:8443"),
        "URL of the controller, https or on loopback http; none: only metrics.",
        metavar="URL",
        chart=NoValue("the release's own controller"),
    )
    ca_file: Path | None = setting(
        None,
        path,
        "Certificates that sign the controller's; the system's when absent.",
        metavar="FILE",
        chart=_TLS,
    )
    token_file: Path = setting(
        Path("/var/run/secrets/resource-slack-audit/token"),
        path,
        "Service account token with audience resource-slack-audit; read anew for each report.",
        metavar="FILE",
        chart=NoValue("where the DaemonSet mounts it"),
    )
    write_burst: bool = setting(
        False, switch, "Write the CPU bursts of containers that the controller orders.", chart="audit.agent.writeBurst"
    )
    state_dir: Path = setting(
        Path("/var/lib/resource-slack-audit"),
        path,
        "Where the bursts that were there before are remembered; on the node.",
        metavar="DIR",
        chart=NoValue("the default is a directory of the node, mounted there"),
    )
    log_format: LogFormat = log_format_setting("audit.logFormat")
    log_level: LogLevel = log_level_setting("audit.logLevel")

    @property
    def node_name(self) -> str:
        """The node's name, or the host's."""
        return self.node or socket.gethostname().lower()


@dataclass(frozen=True, kw_only=True)
class ControllerSettings(Settings):
    """Everything `resource-slack audit controller` can be told."""

    prefix: ClassVar[str] = PREFIX
    environment: ClassVar[Mapping[str, str]] = {"namespace": "POD_NAMESPACE"}

    namespace: str = setting(
        "resource-slack",
        dns_label,
        "Namespace of the lease, and of the agents' service account.",
        chart=NoValue("the release's namespace, by POD_NAMESPACE"),
    )
    lease_name: str = setting(
        "resource-slack-audit",
        dns_label,
        "Name of the lease.",
        chart=NoValue("resource-slack-audit: one lease for all releases of a namespace"),
    )
    leader_elect: bool = setting(
        True,
        switch,
        "Act only while holding the lease.",
        chart=NoValue("always on: a new controller starts before the old one has ended"),
    )
    agent_service_account: str = setting(
        "resource-slack-audit-agent",
        dns_label,
        "Service account of the agents: who may report.",
        chart=NoValue("the release's own agents"),
    )
    interval: float = setting(
        10.0,
        duration(1, DAY_SECONDS),
        "How often reports are judged.",
        metavar="DURATION",
        chart=NoValue("one that suits every cluster"),
    )
    reports_listen: str = setting(
        "127.0.0.1:8443",
        address,
        "Where agents' reports are taken; https but on loopback.",
        metavar="HOST:PORT",
        chart=NoValue("the Service knows the port"),
    )
    tls_cert_file: Path | None = setting(
        None, path, "Certificate that agents check; read anew when it changes.", metavar="FILE", chart=_TLS
    )
    tls_key_file: Path | None = setting(None, path, "Key of the certificate.", metavar="FILE", chart=_TLS)
    log_format: LogFormat = log_format_setting("audit.logFormat")
    log_level: LogLevel = log_level_setting("audit.logLevel")
    kubeconfig: Path | None = kubeconfig_setting()
    context: str | None = context_setting()

    def __post_init__(self) -> None:
        """Check what two settings are only together.

        Raises:
            InvalidSettings: naming the flag.
        """
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            missing = "tls_key_file" if self.tls_key_file is None else "tls_cert_file"
            raise InvalidSettings((f"{flag(missing)}: needed: certificate and key go together",))
        if self.tls_cert_file is None and not is_loopback(host_port(self.reports_listen)[0]):
            problem = (
                f"--tls-cert-file: needed, as --reports-listen {self.reports_listen} is no loopback address: "
                "agents would send their tokens in the clear"
            )
            raise InvalidSettings((problem,))
