"""What the auditor's processes can be told: `resource-slack audit agent` and `audit controller`."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from slack.process.settings import NoValue, setting
from slack.process.shared_settings import (
    DAY_SECONDS,
    LeadingSettings,
    LoggingSettings,
    NodeSettings,
    TlsSettings,
    leader_elect_setting,
    lease_name_setting,
    namespace_setting,
    tls_cert_setting,
    tls_key_setting,
)
from slack.process.values import address, controller_url, dns_label, duration, path, switch

PREFIX = "RESOURCE_SLACK_AUDIT_"
_TLS = NoValue("the Secret of audit.tls.secretName, or the chart's own, where it is mounted")


@dataclass(frozen=True, kw_only=True)
class AgentSettings(NodeSettings, LoggingSettings):
    """Everything `resource-slack audit agent` can be told."""

    prefix: ClassVar[str] = PREFIX
    section: ClassVar[str | NoValue] = "audit"
    example: ClassVar[str] = "push-interval"

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


@dataclass(frozen=True, kw_only=True)
class ControllerSettings(LeadingSettings, TlsSettings):
    """Everything `resource-slack audit controller` can be told."""

    prefix: ClassVar[str] = PREFIX
    section: ClassVar[str | NoValue] = "audit"

    namespace: str = namespace_setting("Namespace of the lease, and of the agents' service account.")
    lease_name: str = lease_name_setting("resource-slack-audit")
    leader_elect: bool = leader_elect_setting("Act only while holding the lease.")
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
    tls_cert_file: Path | None = tls_cert_setting("Certificate that agents check; read anew when it changes.", _TLS)
    tls_key_file: Path | None = tls_key_setting(_TLS)

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the certificate, or that it is needed."""
        yield from super().problems()
        yield from self.clear_text_problems("reports_listen", "agents would send their tokens in the clear")
