"""What `resource-slack audit agent` can be told."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from slack.process.settings import NoValue, setting
from slack.process.shared_settings import DAY_SECONDS, LoggingSettings, NodeSettings
from slack.process.values import controller_url, duration, path, switch

_TLS = NoValue("the Secret of audit.tls.secretName, or the chart's own, where it is mounted")


@dataclass(frozen=True, kw_only=True)
class AgentSettings(NodeSettings, LoggingSettings):
    """Everything `resource-slack audit agent` can be told."""

    prefix: ClassVar[str] = "RESOURCE_SLACK_AUDIT_"
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
        "How often reports are sent; spread by a tenth.",
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
        "Service account token with audience resource-slack-audit; read again for each report.",
        metavar="FILE",
        chart=NoValue("where the DaemonSet mounts it"),
    )
    write_burst: bool = setting(
        False, switch, "Write the CPU bursts of containers that the controller orders.", chart="audit.agent.writeBurst"
    )
    state_dir: Path = setting(
        Path("/var/lib/resource-slack-audit"),
        path,
        "Directory of the former bursts; on the node.",
        metavar="DIR",
        chart=NoValue("the default is a directory of the node, mounted there"),
    )
