"""What `resource-slack throttler agent` can be told."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from slack.process.settings import NoValue, flag, setting
from slack.process.shared_settings import (
    ApiServerSettings,
    LoggingSettings,
    NodeSettings,
    TlsSettings,
    tls_cert_setting,
    tls_key_setting,
)
from slack.process.values import address, controller_url, path

_TLS = NoValue("the Secret of throttler.tls.secretName, or the chart's own, where it is mounted")
_MOUNTED = NoValue("where the DaemonSet mounts it")


@dataclass(frozen=True, kw_only=True)
class ThrottlerAgentSettings(NodeSettings, TlsSettings, LoggingSettings, ApiServerSettings):
    """Everything `resource-slack throttler agent` can be told."""

    prefix: ClassVar[str] = "RESOURCE_SLACK_THROTTLER_"
    section: ClassVar[str | NoValue] = "throttler"
    example: ClassVar[str] = "gates-listen"

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
        "Directory of the grants, for an agent that restarts; on the node, and emptied by a boot.",
        metavar="DIR",
        chart=NoValue("the default is a directory of the node, mounted there"),
    )
    gates_listen: str = setting(
        "127.0.0.1:7472",
        address,
        "Address for the gates of the node's pods, over TLS.",
        metavar="HOST:PORT",
        chart=NoValue("gates know the port"),
    )
    tls_cert_file: Path | None = tls_cert_setting(
        "Certificate that gates check; needed. Read again when it changes.", _TLS
    )
    tls_key_file: Path | None = tls_key_setting(_TLS, "Key of the certificate; needed.")
    ca_file: Path | None = setting(
        None,
        path,
        "CA certificates of the agents; connected gates receive new ones, and trust them from then on. None: they "
        "trust what their pod was made with.",
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
        "Certificates that sign the controller's; none: the system's. Read again for each report.",
        metavar="FILE",
        chart=NoValue("the certificate's own"),
    )
    token_file: Path = setting(
        Path("/var/run/secrets/resource-slack-throttler/token"),
        path,
        "Service account token with audience throttler, for the controller; read again for each report.",
        metavar="FILE",
        chart=_MOUNTED,
    )

    def problems(self) -> Iterator[str]:
        """Yield what is needed to serve gates."""
        for name in ("tls_cert_file", "tls_key_file"):
            if getattr(self, name) is None:
                yield f"{flag(name)}: needed: gates send their pods' tokens"
