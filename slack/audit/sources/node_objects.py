"""Nodes as the API server has them, as far as an audit reads them."""

import msgspec

from slack.audit.sources.pod_objects import AuditedMetadata
from slack.cluster.quantity import QuantityError, thousandths


class _NodeInfo(msgspec.Struct, rename="camel", gc=False):
    kernel_version: str = ""
    operating_system: str = ""


class _Status(msgspec.Struct, rename="camel", gc=False):
    capacity: dict[str, str] | None = None
    node_info: _NodeInfo | None = None


class AuditedNode(msgspec.Struct, gc=False):
    """v1 Node."""

    metadata: AuditedMetadata
    status: _Status | None = None

    @property
    def is_linux(self) -> bool:
        """Whether its containers have CFS quotas at all; a node whose kubelet has not told yet counts as Linux."""
        info = self.status.node_info if self.status is not None else None
        return info is None or info.operating_system in ("", "linux")

    @property
    def kernel_release(self) -> str:
        """`uname -r`; '' where the kubelet has not told yet."""
        info = self.status.node_info if self.status is not None else None
        return info.kernel_version if info is not None else ""

    @property
    def cpus(self) -> int | None:
        """Whole CPUs of its capacity; None where it has none."""
        capacity = (self.status.capacity if self.status is not None else None) or {}
        try:
            return thousandths(capacity.get("cpu", "")) // 1000 or None
        except QuantityError:
            return None
