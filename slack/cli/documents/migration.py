"""What `migrate` prints: objects as `kubectl apply` takes them."""

from typing import Any, Literal

import msgspec

from slack.cli.documents.record import ApiVersion, Record


class NamedOnly(Record):
    """The metadata of an object that no server has seen."""

    name: str


class MigratedPolicy(Record):
    """A SlackPolicy as `kubectl apply` takes it; its spec is held to the CRD."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["SlackPolicy"]
    metadata: NamedOnly
    spec: dict[str, Any]


class MigratedList(Record):
    """Several of them, as `kubectl get -o json` prints several."""

    api_version: Literal["v1"] = msgspec.field(name="apiVersion")
    kind: Literal["List"]
    items: list[MigratedPolicy]
