"""What `resource-slack demand controller` can be told."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from slack.demand.broker_kind import KIND_OF_SCHEME
from slack.process.settings import NoValue, setting
from slack.process.shared_settings import (
    LeadingSettings,
    TlsSettings,
    leader_elect_setting,
    lease_name_setting,
    namespace_setting,
    tls_cert_setting,
    tls_key_setting,
)
from slack.process.values import address, dns_label, dns_labels, millis_duration, path, split_url, text

_GUARDS = re.compile(r"all|none|G[1-5](,G[1-5])*")
_TLS = NoValue("demand.controller.extraArgs and extraVolumes, where callers show tokens")


def broker_url(value: object) -> str:
    """Parse the address of a broker: a scheme and its servers, with commas, each with a port if not the usual."""
    scheme, _, rest = str(value).partition("://")
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    servers = [split_url(f"{scheme}://{server}", tuple(KIND_OF_SCHEME)) for server in authority.split(",")]
    if None in servers or not str(value).isprintable():
        raise ValueError(
            f"should be the address of a broker such as nats://nats.media:4222: {', '.join(KIND_OF_SCHEME)}"
        )
    if "@" in authority:
        raise ValueError("must have no user and password in it; --broker-credentials-file has them")
    return str(value).rstrip("/")


def guards(value: object) -> str:
    """Parse which guards hold."""
    if not isinstance(value, str) or not _GUARDS.fullmatch(value):
        raise ValueError(f"should be all, none, or some of G1,G2,G3,G4,G5, not {value!r}")
    return value


def account(value: object) -> str:
    """Parse a service account."""
    namespace, slash, name = str(value).partition("/")
    if not slash:
        raise ValueError(f"should be NAMESPACE/NAME, not {value!r}")
    return f"{dns_label(namespace)}/{dns_label(name)}"


@dataclass(frozen=True, kw_only=True)
class DemandControllerSettings(LeadingSettings, TlsSettings):
    """Everything `resource-slack demand controller` can be told."""

    prefix: ClassVar[str] = "RESOURCE_SLACK_DEMAND_"
    example: ClassVar[str] = "broker-url"
    section: ClassVar[str | NoValue] = "demand"

    broker_url: str | None = setting(
        None,
        broker_url,
        "Address of the broker: nats://, redis:// or kafka://, with tls+nats:// and rediss:// over TLS; needed.",
        metavar="URL",
        chart="demand.broker.url",
    )
    broker_credentials_file: Path | None = setting(
        None,
        path,
        "Its credentials: user:password, a token or password alone, or a .creds file.",
        metavar="FILE",
        chart=NoValue("demand.broker.existingSecret, where it is mounted"),
    )
    namespaces: tuple[str, ...] = setting(
        (),
        dns_labels,
        "Namespaces of the pools, with commas; all where it is empty.",
        metavar="NAMES",
        chart="demand.namespaces",
    )
    tick: float = setting(
        0.3,
        millis_duration(0.1, 10),
        "How often queues are read and decided about; 100ms to 10s.",
        metavar="DURATION",
        chart="demand.controller.tick",
    )
    guards: str = setting(
        "all",
        guards,
        "Which guards stand above the table of decisions: all, none, or some of G1,G2,G3,G4,G5.",
        metavar="GUARDS",
        chart="demand.controller.guards",
    )
    proxy_image: str | None = setting(
        None,
        text,
        "Image of the proxy in every container of a pool; needed.",
        metavar="IMAGE",
        chart=NoValue("demand.proxy.image, or the release's image"),
    )
    throttle_listen: str | None = setting(
        None,
        address,
        "Address of the throttle endpoint, GET /v1/throttle/NAMESPACE/ACTION and POST "
        "/v1/activations/NAMESPACE/ACTION; off if absent.",
        metavar="HOST:PORT",
        chart=NoValue("demand.throttle.enabled; the Service knows the port"),
    )
    throttle_account: str | None = setting(
        None,
        account,
        "Service account whose tokens callers of it must show, NAMESPACE/NAME; who reaches it may call when absent.",
        metavar="ACCOUNT",
        chart=NoValue("demand.networkPolicy says who reaches it; demand.controller.extraArgs for tokens"),
    )
    tls_cert_file: Path | None = tls_cert_setting(
        "Certificate of the throttle endpoint; read again when it changes.", _TLS
    )
    tls_key_file: Path | None = tls_key_setting(_TLS)
    record: Path | None = setting(
        None,
        path,
        "Record every tick there, as JSON lines, for `demand replay`.",
        metavar="FILE",
        chart=NoValue("demand.controller.extraArgs and extraVolumes"),
    )
    namespace: str = namespace_setting("Namespace of the lease.")
    lease_name: str = lease_name_setting("resource-slack-demand")
    leader_elect: bool = leader_elect_setting(
        "Decide only while holding the lease; the throttle endpoint is served in any case."
    )
    interval: float = setting(
        1.0,
        millis_duration(0.1, 3600),
        "How often the pools' status is written, at the most.",
        metavar="DURATION",
        chart=NoValue("one that suits every cluster"),
    )

    def problems(self) -> Iterator[str]:
        """Yield what is needed, and what is only together with something else."""
        if self.broker_url is None:
            yield "--broker-url: needed: where the queues are, such as nats://nats.media:4222"
        if self.proxy_image is None:
            yield "--proxy-image: needed: it goes into every container of a pool"
        yield from super().problems()
        if self.throttle_account is None:
            return
        if self.throttle_listen is None:
            yield "--throttle-listen: needed, as --throttle-account says who may call there"
        else:
            yield from self.clear_text_problems("throttle_listen", "callers would send their tokens in the clear")
