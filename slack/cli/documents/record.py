"""What all documents are made of.

One vocabulary: names are in snake_case and end with their unit where they have one (`cpu_millis`, `memory_bytes`,
`p99_seconds`, `node_hours`), apart from `apiVersion` and `kind`, which are Kubernetes' own, and from objects of
Kubernetes that a document carries as they are. Fields are only ever added.
"""

from typing import Any, Literal, get_args

import msgspec

Amounts = dict[str, int]
"""`cpu_millis` and `memory_bytes`, and further resources by their Kubernetes names, in base units."""
Interval = tuple[float, float] | None
"""Of 95 %; null of a single run."""
ApiVersion = Literal["resource-slack.io/v1alpha1"]
API_VERSION: ApiVersion = get_args(ApiVersion)[0]


class Record(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is not declared is not printed."""

    def document(self) -> dict[str, Any]:
        """Return it as it is printed."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built
