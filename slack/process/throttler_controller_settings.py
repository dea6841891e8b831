"""What `resource-slack throttler controller` can be told."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from slack.cluster.quantity import thousandths
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
    amounts,
    choice,
    dns_label,
    dns_name,
    duration,
    host_port,
    is_loopback,
    path,
    port,
    switch,
    text,
)

DAY_SECONDS = 86_400.0
_TLS = NoValue("the Secret of throttler.tls.secretName, or the chart's own, where it is mounted")
_AGENTS = NoValue("the release's own agents")


class Backend(StrEnum):
    """Where permits are, in the words of the throttler's core."""

    FILE = "file"
    CONFIGMAP = "configmap"


class PullPolicy(StrEnum):
    """When the gate's image is pulled."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


@dataclass(frozen=True, kw_only=True)
class ThrottlerControllerSettings(Settings):
    """Everything `resource-slack throttler controller` can be told."""

    prefix: ClassVar[str] = "RESOURCE_SLACK_THROTTLER_"
    example: ClassVar[str] = "webhook-listen"
    environment: ClassVar[Mapping[str, str]] = {"namespace": "POD_NAMESPACE"}

    namespace: str = setting(
        "resource-slack",
        dns_label,
        "Namespace of the lease; its own pods are never gated.",
        chart=NoValue("the release's namespace, by POD_NAMESPACE"),
    )
    lease_name: str = setting(
        "resource-slack-throttler",
        dns_label,
        "Name of the lease.",
        chart=NoValue("resource-slack-throttler: one lease for all releases of a namespace"),
    )
    leader_elect: bool = setting(
        True,
        switch,
        "Write only while holding the lease; the webhook is served in any case.",
        chart=NoValue("always on: a new controller starts before the old one has ended"),
    )
    interval: float = setting(
        5.0,
        duration(1, DAY_SECONDS),
        "How often certificates and policies are looked at.",
        metavar="DURATION",
        chart=NoValue("one that suits every cluster"),
    )
    backend: Backend = setting(
        Backend.FILE,
        choice(Backend),
        "Where permits are: file (in the pod; Kubernetes 1.35 and newer) or configmap.",
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
        "After how long without an agent a gate lets its containers start; the node's policy says it anew.",
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
        "Certificates that sign the agents'; needed with backend file. Read anew when it changes.",
        metavar="FILE",
        chart=_AGENTS,
    )
    webhook_listen: str = setting(
        "127.0.0.1:8443",
        address,
        "Where the API server asks about pods; https but on loopback.",
        metavar="HOST:PORT",
        chart=NoValue("the Service knows the port"),
    )
    reports_listen: str = setting(
        "127.0.0.1:7473",
        address,
        "Where agents' reports are taken, and shown to viewers; https but on loopback.",
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
    tls_cert_file: Path | None = setting(
        None, path, "Certificate that the API server checks; read anew when it changes.", metavar="FILE", chart=_TLS
    )
    tls_key_file: Path | None = setting(None, path, "Key of the certificate.", metavar="FILE", chart=_TLS)
    log_format: LogFormat = log_format_setting("throttler.logFormat")
    log_level: LogLevel = log_level_setting("throttler.logLevel")
    kubeconfig: Path | None = kubeconfig_setting()
    context: str | None = context_setting()

    def __post_init__(self) -> None:
        """Check what settings are only together.

        Raises:
            InvalidSettings: naming the flags.
        """
        problems = []
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            missing = "tls_key_file" if self.tls_key_file is None else "tls_cert_file"
            problems.append(f"{flag(missing)}: needed: certificate and key go together")
        elif self.tls_cert_file is None and not is_loopback(host_port(self.webhook_listen)[0]):
            problems.append(
                f"--tls-cert-file: needed, as --webhook-listen {self.webhook_listen} is no loopback address: "
                "API servers ask webhooks over https only"
            )
        if self.tls_cert_file is None and not is_loopback(host_port(self.reports_listen)[0]):
            problems.append(
                f"--tls-cert-file: needed, as --reports-listen {self.reports_listen} is no loopback address: "
                "agents would send their tokens in the clear"
            )
        if self.tls_cert_file is None and self.webhook_client_ca_file is not None:
            problems.append("--webhook-client-ca-file: needs --tls-cert-file: without TLS nobody shows a certificate")
        requests, limits = self.gate_requests or {}, self.gate_limits or {}
        problems += [
            f"--gate-requests: {kind}={amount} is more than --gate-limits {kind}={limits[kind]}: no pod would be made"
            for kind, amount in requests.items()
            if kind in limits and thousandths(amount) > thousandths(limits[kind])
        ]
        problems += [
            f"{flag(name)}: needed: it goes into every gate"
            for name in ("gate_image", "agent_ca_file")
            if self.backend is Backend.FILE and getattr(self, name) is None
        ]
        if problems:
            raise InvalidSettings(tuple(problems))
