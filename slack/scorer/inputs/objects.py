"""What is read of Nodes, beside what the cluster's columns read: capacity, and the names that metrics may go by."""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from slack.cluster.labels import HOSTNAME
from slack.cluster.wire import Quantities

_NAMING = ("InternalIP", "Hostname", "InternalDNS", "ExternalIP", "ExternalDNS")


class NodeMetadata(msgspec.Struct, rename="camel", gc=False):
    """ObjectMeta of a node."""

    name: str
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: datetime | None = None
    labels: dict[str, str] | None = None


class Address(msgspec.Struct, gc=False):
    """status.addresses[]."""

    type: str = ""
    address: str = ""


class NodeObjectStatus(msgspec.Struct, gc=False):
    """status of a node."""

    capacity: Quantities | None = None
    allocatable: Quantities | None = None
    addresses: list[Address] | None = None


class NodeObject(msgspec.Struct, gc=False):
    """v1 Node."""

    metadata: NodeMetadata
    status: NodeObjectStatus | None = None

    def aliases(self) -> Iterator[str]:
        """Yield the other names of the node, which metrics may go by."""
        hostname = (self.metadata.labels or {}).get(HOSTNAME)
        if hostname:
            yield hostname
        for address in (self.status.addresses if self.status else None) or ():
            if address.type in _NAMING and address.address:
                yield address.address


def without_port(name: str) -> str:
    """Take the port off a name as metrics have it: `10.0.0.2:9100`, `[fd00::2]:9100`."""
    if name.startswith("["):
        host, bracket, _ = name[1:].partition("]")
        return host if bracket else name
    host, colon, port = name.rpartition(":")
    return host if colon and port.isdecimal() and ":" not in host else name
