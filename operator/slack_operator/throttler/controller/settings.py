"""What `resource-slack throttler controller` can be told."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from slack.cluster.quantity import QuantityError, thousandths
from slack.process.settings import NoValue, flag, setting
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
from slack.process.values import address, choice, dns_label, duration, path, switch, text

RESOURCES = ("cpu", "memory", "ephemeral-storage")
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_TLS = NoValue("the Secret of throttler.tls.secretName, or the chart's own, where it is mounted")
_AGENTS = NoValue("the release's own agents")


class PermitBackend(StrEnum):
    """Where permits are, in the words of the throttler's core."""

    FILE = "file"
    CONFIGMAP = "configmap"


class PullPolicy(StrEnum):
    """When the gate's image is pulled."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


def dns_name(value: object) -> str:
    """Parse a name that a certificate is for."""
    if not isinstance(value, str) or not _DNS_NAME.fullmatch(value):
        raise ValueError(f"{value!r} is no DNS name (lower case letters, digits, '-' and '.', at most 253)")
    return value


def port(value: object) -> int:
    """Parse a port."""
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else value
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 65_536:
        raise ValueError(f"should be a port, 1 to 65535, not {value!r}")
    return number


def amounts(value: object) -> dict[str, str] | None:
    """Parse amounts of resources such as cpu=10m,memory=32Mi, or a mapping of them; None for nothing."""
    if isinstance(value, dict):
        pairs = [(str(name), str(amount)) for name, amount in value.items()]
    else:
        parts = [part.strip() for part in str(value).split(",") if part.strip()]
        pairs = [(name.strip(), amount.strip()) for name, _, amount in (part.partition("=") for part in parts)]
    for name, amount in pairs:
        if name not in RESOURCES:
            raise ValueError(
                f"{name!r} is not one of {', '.join(RESOURCES)}; write amounts such as cpu=10m,memory=32Mi"
            )
        try:
            thousandths_of_it = thousandths(amount)
        except QuantityError as error:
            raise ValueError(f"{name}: {error}") from None
        if thousandths_of_it <= 0:
            raise ValueError(f"{name}: must be above 0, not {amount!r}")
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"{value!r} names a resource twice")
    return dict(pairs) or None


@dataclass(frozen=True, kw_only=True)
class ThrottlerControllerSettings(LeadingSettings, TlsSettings):
    """Everything `resource-slack throttler controller` can be told."""

    prefix: ClassVar[str] = "RESOURCE_SLACK_THROTTLER_"
    section: ClassVar[str | NoValue] = "throttler"
    example: ClassVar[str] = "webhook-listen"

    namespace: str = namespace_setting("Namespace of the lease; its own pods are never gated.")
    lease_name: str = lease_name_setting("resource-slack-throttler")
    leader_elect: bool = leader_elect_setting("Write only while holding the lease; the webhook is served in any case.")
    interval: float = setting(
        5.0,
        duration(1, DAY_SECONDS),
        "How often certificates and policies are looked at.",
        metavar="DURATION",
        chart=NoValue("one that suits every cluster"),
    )
    backend: PermitBackend = setting(
        PermitBackend.FILE,
        choice(PermitBackend),
        "Place of permits: file (in the pod; Kubernetes 1.35 and newer) or configmap.",
        metavar="BACKEND",
        chart="throttler.backend",
    )
    gate_image: str | None = setting(
        None,
        text,
        "Image of the gates; needed with backend file.",
        metavar="IMAGE",
        chart=NoValue("the release's image"),
    )
    gate_image_pull_policy: PullPolicy = setting(
        PullPolicy.IF_NOT_PRESENT,
        choice(PullPolicy),
        "Always, IfNotPresent or Never.",
        metavar="POLICY",
        chart="image.pullPolicy",
    )
    gate_requests: Mapping[str, str] | None = setting(
        None,
        amounts,
        "What each gate requests, such as cpu=10m,memory=32Mi; by default what its pod calls for.",
        metavar="AMOUNTS",
        chart="throttler.gate.resources.requests",
    )
    gate_limits: Mapping[str, str] | None = setting(
        None,
        amounts,
        "Limits of each gate, such as cpu=100m,memory=64Mi.",
        metavar="AMOUNTS",
        chart="throttler.gate.resources.limits",
    )
    fail_open_after: float = setting(
        60.0,
        duration(1, DAY_SECONDS - 1),
        "How long a gate waits without an agent before it lets its containers start; the node's policy can change it.",
        metavar="DURATION",
        chart="throttler.failOpenAfter",
    )
    evict_late_pods: bool = setting(
        False,
        switch,
        "Evict pods whose containers are not ready in time, where a policy says `startTimeout.then: Delete`.",
        chart="throttler.agent.deleteLatePods",
    )
    agent_port: int = setting(
        7472, port, "Port of the agents, on their nodes.", metavar="PORT", chart="throttler.agent.port"
    )
    agent_name: str = setting(
        "resource-slack-throttler-agent", dns_name, "What the agents' certificate is for.", chart=_AGENTS
    )
    agent_ca_file: Path | None = setting(
        None,
        path,
        "Certificates that sign the agents'; needed with backend file. Read again when it changes.",
        metavar="FILE",
        chart=_AGENTS,
    )
    webhook_listen: str = setting(
        "127.0.0.1:8443",
        address,
        "Address of the webhook; https, except on loopback.",
        metavar="HOST:PORT",
        chart=NoValue("the Service knows the port"),
    )
    reports_listen: str = setting(
        "127.0.0.1:7473",
        address,
        "Address for agents' reports and for viewers; https, except on loopback.",
        metavar="HOST:PORT",
        chart=NoValue("the Service knows the port"),
    )
    agent_service_account: str = setting(
        "resource-slack-throttler-agent", dns_label, "Service account of the agents: who may report.", chart=_AGENTS
    )
    viewer_service_account: str = setting(
        "resource-slack-throttler-viewer",
        dns_label,
        "Service account by whose tokens `throttler status` and `throttler explain` look at reports.",
        chart=NoValue("the release's own"),
    )
    webhook_client_ca_file: Path | None = setting(
        None,
        path,
        "Certificates that sign the API server's own, where it shows one to webhooks; others are not answered then.",
        metavar="FILE",
        chart=NoValue("few API servers show one; throttler.controller.extraArgs and extraVolumes where yours does"),
    )
    tls_cert_file: Path | None = tls_cert_setting(
        "Certificate that the API server checks; read again when it changes.", _TLS
    )
    tls_key_file: Path | None = tls_key_setting(_TLS)

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the certificate, and what gates need."""
        yield from super().problems()
        yield from self.clear_text_problems("webhook_listen", "API servers ask webhooks over https only")
        yield from self.clear_text_problems("reports_listen", "agents would send their tokens in the clear")
        if self.tls_cert_file is None and self.webhook_client_ca_file is not None:
            yield "--webhook-client-ca-file: needs --tls-cert-file: without TLS nobody shows a certificate"
        requests, limits = self.gate_requests or {}, self.gate_limits or {}
        for kind, amount in requests.items():
            if kind in limits and thousandths(amount) > thousandths(limits[kind]):
                more = f"--gate-requests: {kind}={amount} is more than --gate-limits {kind}={limits[kind]}"
                yield f"{more}: no pod would be made"
        for name in ("gate_image", "agent_ca_file"):
            if self.backend is PermitBackend.FILE and getattr(self, name) is None:
                yield f"{flag(name)}: needed: it goes into every gate"
