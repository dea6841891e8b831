"""What `resource-slack audit controller` can be told."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from slack.process.settings import NoValue, setting
from slack.process.shared_settings import (
    DAY_SECONDS,
    LeadingSettings,
    TlsSettings,
    leader_elect_setting,
    lease_name_setting,
    namespace_setting,
    tls_cert_setting,
    tls_key_setting,
)
from slack.process.values import address, dns_label, duration

_TLS = NoValue("the Secret of audit.tls.secretName, or the chart's own, where it is mounted")


@dataclass(frozen=True, kw_only=True)
class ControllerSettings(LeadingSettings, TlsSettings):
    """Everything `resource-slack audit controller` can be told."""

    prefix: ClassVar[str] = "RESOURCE_SLACK_AUDIT_"
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
        "Address for agents' reports; https, except on loopback.",
        metavar="HOST:PORT",
        chart=NoValue("the Service knows the port"),
    )
    tls_cert_file: Path | None = tls_cert_setting("Certificate that agents check; read again when it changes.", _TLS)
    tls_key_file: Path | None = tls_key_setting(_TLS)

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the certificate, or that it is needed."""
        yield from super().problems()
        yield from self.clear_text_problems("reports_listen", "agents would send their tokens in the clear")
