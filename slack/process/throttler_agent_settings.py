"""What `resource-slack throttler agent` can be told."""

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
from slack.process.values import address, controller_url, node_name, path

_TLS = NoValue("the Secret of throttler.tls.secretName, or the chart's own, where it is mounted")
_MOUNTED = NoValue("where the DaemonSet mounts it")


@dataclass(frozen=True, kw_only=True)
class ThrottlerAgentSettings(Settings):
    """Everything `resource-slack throttler agent` can be told."""

    prefix: ClassVar[str] = "RESOURCE_SLACK_THROTTLER_"
    example: ClassVar[str] = "gates-listen"
    environment: ClassVar[Mapping[str, str]] = {"node": "NODE_NAME"}

    node: str | None = setting(
        None,
        node_name,
        "Name of the node; NODE_NAME or the host's name when absent.",
        chart=NoValue("the pod's node, by NODE_NAME"),
    )
    proc: Path = setting(
        Path("/proc"),
        path,
        "The node's /proc, of which load, CPU time and pressure are read, and nothing is written.",
        metavar="DIR",
        chart=_MOUNTED,
    )
    state_dir: Path = setting(
        Path("/run/resource-slack-throttler"),
        path,
        "Where grants are kept for an agent that begins anew; a directory of the node that a boot empties.",
        metavar="DIR",
        chart=NoValue("the default is a directory of the node, mounted there"),
    )
    gates_listen: str = setting(
        "127.0.0.1:7472",
        address,
        "Where the gates of the node's pods are served, over TLS.",
        metavar="HOST:PORT",
        chart=NoValue("gates know the port"),
    )
    tls_cert_file: Path | None = setting(
        None, path, "Certificate that gates check; needed. Read anew when it changes.", metavar="FILE", chart=_TLS
    )
    tls_key_file: Path | None = setting(None, path, "Key of the certificate; needed.", metavar="FILE", chart=_TLS)
    ca_file: Path | None = setting(
        None,
        path,
        "Certificates that sign the agents': gates that are connected are told of new ones, and trust them from then "
        "on. None: they trust what their pod was made with.",
        metavar="FILE",
        chart=_TLS,
    )
    controller: str | None = setting(
        None,
        controller_url("https://resource-slack-throttler.resource-slack.svc:7473"),
        "URL of the controller, https or on loopback http; none: policies have no status.",
        metavar="URL",
        chart=NoValue("the release's own controller"),
    )
    controller_ca_file: Path | None = setting(
        None,
        path,
        "Certificates that sign the controller's; none: the system's. Read anew for each report.",
        metavar="FILE",
        chart=NoValue("the certificate's own"),
    )
    token_file: Path = setting(
        Path("/var/run/secrets/resource-slack-throttler/token"),
        path,
        "Service account token with audience throttler, for the controller; read anew for each report.",
        metavar="FILE",
        chart=_MOUNTED,
    )
    log_format: LogFormat = log_format_setting("throttler.logFormat")
    log_level: LogLevel = log_level_setting("throttler.logLevel")
    kubeconfig: Path | None = kubeconfig_setting()
    context: str | None = context_setting()

    def __post_init__(self) -> None:
        """Check that gates can be served.

        Raises:
            InvalidSettings: naming the flags.
        """
        missing = [name for name in ("tls_cert_file", "tls_key_file") if getattr(self, name) is None]
        if missing:
            raise InvalidSettings(tuple(f"{flag(name)}: needed: gates send their pods' tokens" for name in missing))

    @property
    def node_name(self) -> str:
        """The node's name, or the host's."""
        return self.node or socket.gethostname().lower()
