"""What agents tell the controller, and what the controller tells who asks it: JSON, a message a body.

An agent posts a `NodeReport` and gets an `ReportAnswer`; who may look gets a `View`. Every field is bounded; unknown
fields are skipped, missing ones have defaults, for both sides may be of different versions while a DaemonSet rolls.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from slack.throttler.fsm import StartState
from slack.throttler.protocol import VERSION, Count, Message, Name, Seconds, Text, Uid, decoded

REPORTS_PATH: Final = "/v1/starts"
MAX_REPORT_BYTES: Final = 4 << 20
"""One report, unpacked: 5,000 containers are less than 2 MiB."""
MAX_ANSWER_BYTES: Final = 64 << 10
MAX_VIEW_BYTES: Final = 64 << 20
MAX_CONTAINERS: Final = 5000
"""In one report; those that are ready are left out first."""
MAX_LATE: Final = 100
"""Late pods in one report; the others come once these are gone."""
VIEWER_HEADER: Final = "Resource-Slack-Token"
"""Has the token of who looks at a `View`: the API server's proxy takes `Authorization` for itself."""


class ContainerRow(Message, frozen=True):
    """A container as the agent of its node has it."""

    namespace: Name
    pod: Name
    uid: Uid
    container: Name
    state: StartState
    since: Seconds = 0.0
    """Unix time at which it came into that state."""
    start: Count = 0
    position: Count = 0
    forced: bool = False
    reason: Text = ""
    until: Seconds | None = None


class Permit(Message, frozen=True):
    """A container that may start, and that has not been seen to run yet."""

    uid: Uid
    container: Name
    namespace: Annotated[str, Meta(max_length=253)] = ""
    pod: Annotated[str, Meta(max_length=253)] = ""
    config_map: Annotated[str, Meta(max_length=253)] = ""
    """Where its key belongs, as its pod's annotation says."""


class LatePod(Message, frozen=True):
    """A pod of a container that was not ready within startTimeout, where the policy says `then: Delete`."""

    uid: Uid
    container: Name
    namespace: Name
    pod: Name
    container_id: Annotated[str, Meta(max_length=1024)] = ""
    """Of the instance that the agent has seen, as the pod's status has it; empty: none has run."""


class NodeReport(Message, frozen=True):
    """What one agent has: how many containers in which state, and those that are not ready one by one."""

    node: Name
    at: Seconds
    version: Count = VERSION
    policy: Annotated[str, Meta(max_length=253)] = ""
    """The one that the agent goes by; empty: none."""
    policy_generation: Count = 0
    blind: Text = ""
    """Why the agent does not see its node's pods, so that what follows may be out of date; empty: it sees them."""
    cores: Seconds = 0.0
    slots: Count | None = None
    counts: dict[StartState, Count] = msgspec.field(default_factory=dict)
    granted: Count = 0
    """Since the agent's start, as the three that follow."""
    forced: Count = 0
    timed_out: Count = 0
    opened: Count = 0
    """Containers that started without a grant: their gate had no answer of an agent that sees its pods."""
    containers: Annotated[tuple[ContainerRow, ...], Meta(max_length=MAX_CONTAINERS)] = ()
    left_out: Count = 0
    permits: Annotated[tuple[Permit, ...], Meta(max_length=MAX_CONTAINERS)] = ()
    """Those that are the controller's to write, of pods whose permits are in a ConfigMap; said again until they are
    used."""
    late: Annotated[tuple[LatePod, ...], Meta(max_length=MAX_LATE)] = ()
    """Said again until they are gone or ready."""
    pending_pods: Annotated[tuple[Uid, ...], Meta(max_length=MAX_CONTAINERS)] | None = None
    """Pods in phase Pending whose permits are in a ConfigMap, as far as the agent knows them; None: it does not say."""


class ReportAnswer(Message, frozen=True):
    """What the controller says to a report."""

    version: Count = VERSION
    every_seconds: Seconds = 60.0
    """When to report again while no container waits or starts."""
    moving_seconds: Seconds = 5.0
    """When to report again while any does; the first that does is reported at once."""


class SilentNode(Message, frozen=True):
    """A node whose agent has stopped to report, is gone, or does not see the node's pods."""

    node: Name
    policy: Annotated[str, Meta(max_length=253)] = ""
    at: Seconds = 0.0
    """Unix time of its last report; 0: none came since this controller leads."""
    reason: Text = ""
    """Why it does not see its pods; empty: it does not report."""


class View(Message, frozen=True):
    """What the leading controller knows: `GET REPORTS_PATH`, by default of all nodes, with `?node=NODE` of one, and
    with `?namespace=NAMESPACE&pod=POD` of the node that has the pod, with the rows of that pod alone."""

    at: Seconds
    """Unix time of the answer."""
    reports: tuple[NodeReport, ...] = ()
    """By name of node; each has its agent's own time."""
    silent: tuple[SilentNode, ...] = ()


_REPORT: Final = msgspec.json.Decoder(NodeReport)
_ANSWER: Final = msgspec.json.Decoder(ReportAnswer)
_VIEW: Final = msgspec.json.Decoder(View)


def encode(message: NodeReport | ReportAnswer | View) -> bytes:
    """Write a message of an agent, the controller's answer to it, or its view."""
    return msgspec.json.encode(message)


def decode_report(body: bytes) -> NodeReport:
    """Read an agent's report.

    Raises:
        InvalidThrottlerMessage: it is too long, or no report.
    """
    return decoded(body, _REPORT, MAX_REPORT_BYTES)


def decode_answer(body: bytes) -> ReportAnswer:
    """Read a controller's answer.

    Raises:
        InvalidThrottlerMessage: it is too long, or no answer.
    """
    return decoded(body, _ANSWER, MAX_ANSWER_BYTES)


def decode_view(body: bytes) -> View:
    """Read a controller's view.

    Raises:
        InvalidThrottlerMessage: it is too long, or no view.
    """
    return decoded(body, _VIEW, MAX_VIEW_BYTES)
