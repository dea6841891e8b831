"""The brokers that are known, one line each: the only list of them.

Read by the model and the CRD of ActivationPool, by the settings, and by what reads a broker's URL. The module of
`slack_operator.demand.brokers` that is named like the kind opens it. Pure; no library of a broker is known here.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Self

_NATS_QUERY: Final = ("ca", "prefix", "replicas")
_LAG_ONLY: Final = "messages can neither be taken nor published"
_ONE_SERVER: Final = "a URL names one server"


class BrokerKind(StrEnum):
    """What the queue is kept by."""

    def __new__(
        cls,
        name: str,
        port: int,
        schemes: Mapping[str, tuple[str, ...]],
        *flags: str,
    ) -> Self:
        """Declare a broker.

        Args:
            name: value of `spec.queue.broker`, name of the module that opens it, and of the extra with its library.
            port: the usual one.
            schemes: of its URLs, each with the names that the URL's query may have.
            flags: `_LAG_ONLY`, `_ONE_SERVER`.
        """
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.port, kind.schemes = port, schemes
        kind.is_lag_only, kind.has_one_server = _LAG_ONLY in flags, _ONE_SERVER in flags
        return kind

    port: int
    schemes: Mapping[str, tuple[str, ...]]
    is_lag_only: bool
    has_one_server: bool

    NATS = "nats", 4222, {"nats": _NATS_QUERY, "tls+nats": _NATS_QUERY, "tls": _NATS_QUERY}
    REDIS = "redis", 6379, {"redis": ("db",), "rediss": ("ca", "db")}, _ONE_SERVER
    KAFKA = "kafka", 9092, {"kafka": ("group",)}, _LAG_ONLY


KIND_OF_SCHEME: Final = {scheme: kind for kind in BrokerKind for scheme in kind.schemes}
LAG_ONLY_KINDS: Final = tuple(kind for kind in BrokerKind if kind.is_lag_only)
MESSAGE_KINDS: Final = tuple(kind for kind in BrokerKind if not kind.is_lag_only)
