"""What `uninstall` and `version` print."""

from typing import Literal

import msgspec

from slack.cli.documents.record import ApiVersion, Record


class Uninstalled(Record):
    """What became of an object; in another run without --yes it says what would."""

    kind: str
    namespace: str | None
    name: str
    outcome: Literal[
        "Deleted", "WasGone", "WouldBeDeleted", "ScaledToZero", "WouldBeScaledToZero", "Unlabelled",
        "WouldBeUnlabelled", "Kept", "Left",
    ]  # fmt: skip
    reason: str | None


class UninstallList(Record):
    """`uninstall`; `pods_left` are placeholders that were still on their way out when it stopped to wait."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["UninstallList"]
    namespace: str
    yes: bool
    pods_left: int
    items: list[Uninstalled]


class Version(Record):
    """`version`."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["Version"]
    version: str
    python: str
