"""Gated pods as the API server has them: what the agent reads of each, and what a container's status says."""

from enum import Enum, auto

import msgspec

from slack.cluster.labels import ANNOTATION_STATIC_POD
from slack.throttler.config_maps import is_name
from slack.throttler.graph import Graph, parse_depends_on
from slack.throttler.injection import DEPENDS_ON, GATE, NEVER_GATED, PERMITS_IN, VARIABLE
from slack.throttler.model import GatedContainer, GatedPod

HELD = ("CreateContainerConfigError", "CreateContainerError")
"""The kubelet has the image, and would have made the container."""


class _Wire(msgspec.Struct, rename="camel", gc=False, kw_only=True):
    """Only what is read here."""


class _Named(_Wire):
    name: str = ""


class _Container(_Wire):
    name: str = ""
    env: list[_Named] | None = None
    startup_probe: _Wire | None = None
    readiness_probe: _Wire | None = None


class _Spec(_Wire):
    containers: list[_Container] | None = None
    init_containers: list[_Named] | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    restart_policy: str | None = None


class _Metadata(_Wire):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] | None = None


class _Reason(_Wire):
    reason: str | None = None
    exit_code: int | None = None


class _State(_Wire):
    waiting: _Reason | None = None
    running: _Wire | None = None
    terminated: _Reason | None = None


class KubeletContainerStatus(_Wire):
    """A container as its kubelet tells it."""

    name: str = ""
    container_id: str | None = msgspec.field(default=None, name="containerID")
    ready: bool = False
    started: bool | None = None
    state: _State | None = None


class _Status(_Wire):
    phase: str = ""
    container_statuses: list[KubeletContainerStatus] | None = None


class NodePod(_Wire):
    """A pod of the node; decoded by the reflector."""

    metadata: _Metadata
    spec: _Spec
    status: _Status | None = None

    @property
    def gated(self) -> bool:
        """Whether its containers wait for permits: a gate's, or those of a ConfigMap."""
        return self._has_gate or self.keeps_permits

    @property
    def keeps_permits(self) -> bool:
        """Whether its permits are in a ConfigMap, which the controller writes."""
        return is_name(self.config_map) and not self._has_gate

    @property
    def config_map(self) -> str:
        """The ConfigMap with its permits; empty: none is named."""
        return (self.metadata.annotations or {}).get(PERMITS_IN, "")

    @property
    def _has_gate(self) -> bool:
        return any(container.name == GATE for container in self.spec.init_containers or ())

    @property
    def is_mirror(self) -> bool:
        """Whether it is a static pod's image at the API server."""
        return ANNOTATION_STATIC_POD in (self.metadata.annotations or {})

    @property
    def pending(self) -> bool:
        """Whether some container of it has not begun to run yet."""
        return self.status is not None and self.status.phase == "Pending"

    @property
    def ended(self) -> bool:
        """Whether nothing of it starts any more."""
        return self.status is not None and self.status.phase in ("Succeeded", "Failed")

    def statuses(self) -> list[KubeletContainerStatus]:
        """Return what is known of its containers."""
        return (self.status.container_statuses if self.status is not None else None) or []

    def has_started(self, container: str) -> bool:
        """Whether a container's startup probe has succeeded: what is not ready later is no slow start."""
        probed = any(
            entry.name == container and entry.startup_probe is not None for entry in self.spec.containers or ()
        )
        return probed and any(status.name == container and status.started is True for status in self.statuses())

    @property
    def gated_names(self) -> tuple[str, ...]:
        """Its gated containers."""
        return tuple(container.name for container in self._gated_containers())

    def _gated_containers(self) -> list[_Container]:
        return [
            container
            for container in self.spec.containers or ()
            if any(variable.name == VARIABLE for variable in container.env or ())
        ]

    def as_gated(self) -> GatedPod:
        """Return it as the decision knows it.

        Raises:
            InvalidGraph: its annotation cannot be kept; the API server lets in what no webhook of ours has seen.
        """
        containers = self._gated_containers()
        names = [container.name for container in containers]
        text = (self.metadata.annotations or {}).get(DEPENDS_ON)
        graph = Graph.from_dependencies(names, {}) if text is None else parse_depends_on(text, names)
        return GatedPod(
            self.metadata.uid,
            self.metadata.namespace,
            tuple(
                GatedContainer(
                    container.name,
                    graph.depends_on[container.name],
                    probed=container.startup_probe is not None or container.readiness_probe is not None,
                )
                for container in containers
            ),
            priority=self.spec.priority or 0,
            exempt=self.spec.priority_class_name == NEVER_GATED,
            keeps_permits=self.keeps_permits,
        )


class Seen(Enum):
    """What a status says."""

    NOTHING = auto()
    """Neither its image nor the container is there, as far as is known."""
    HELD = auto()
    """It would be created, but for its permit."""
    RUNNING = auto()
    READY = auto()
    BACKING_OFF = auto()
    ENDED = auto()
    """It will be started again."""
    DONE = auto()
    """It has ended for good."""


def seen(status: KubeletContainerStatus, restart_policy: str | None) -> Seen:
    """Say what a container's status means."""
    state = status.state or _State()
    if state.running is not None:
        return Seen.READY if status.ready and status.started else Seen.RUNNING
    if state.terminated is not None:
        over = restart_policy == "Never" or (restart_policy == "OnFailure" and state.terminated.exit_code == 0)
        return Seen.DONE if over else Seen.ENDED
    reason = state.waiting.reason if state.waiting is not None else None
    if reason in HELD:
        return Seen.HELD
    return Seen.BACKING_OFF if reason == "CrashLoopBackOff" else Seen.NOTHING
