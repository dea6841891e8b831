"""What a pod's own manifest and status say of its gated containers, as the API server has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from slack.throttler.graph import InvalidGraph, parse_depends_on
from slack.throttler.injection import DEPENDS_ON, ENABLED, GATE, PERMITS_IN, VARIABLE, Backend, exempt
from slack.throttler.podspec.shape import InvalidManifest

_FAIL_OPEN = "THROTTLER_FAIL_OPEN_AFTER"


class _Wire(msgspec.Struct, rename="camel", gc=False, kw_only=True):
    """Only what is read here; everything may be absent."""


class _Variable(_Wire):
    name: str = ""
    value: str | None = None


class _Container(_Wire):
    name: str = ""
    env: list[_Variable] | None = None
    startup_probe: dict[str, Any] | None = None
    readiness_probe: dict[str, Any] | None = None


class _Spec(_Wire):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    node_name: str | None = None


class _Metadata(_Wire):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Reason(_Wire):
    reason: str | None = None
    exit_code: int | None = None


class _State(_Wire):
    waiting: _Reason | None = None
    running: _Reason | None = None
    terminated: _Reason | None = None


class _ContainerStatus(_Wire):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    container_id: str | None = msgspec.field(default=None, name="containerID")
    state: _State | None = None


class _Condition(_Wire):
    type: str = ""
    status: str = ""
    message: str | None = None


class _Status(_Wire):
    phase: str | None = None
    conditions: list[_Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None


class _Pod(_Wire):
    metadata: _Metadata
    spec: _Spec
    status: _Status | None = None


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """One container."""

    name: str
    gated: bool
    probed: bool
    """Whether it has a startup or readiness probe."""
    has_started: bool
    """Whether it has a startup probe that has succeeded."""
    ready: bool
    runs: bool
    kubelet: str
    """What its kubelet says of it, for people."""
    depends_on: tuple[str, ...] = ()
    container_id: str = ""
    """Of the instance that runs, or ran last; empty: none did."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """One pod."""

    namespace: str
    name: str
    uid: str
    node: str | None
    backend: Backend | None
    """Where its permits are; None: it is not gated."""
    exempt: str | None
    """Why it is never gated."""
    asks: bool
    """Whether its annotation asks for a gate."""
    ended: str | None
    """Its phase, once nothing of it starts any more."""
    deleted: bool
    unscheduled: str
    """What the scheduler says while no node is chosen."""
    refused: tuple[str, ...]
    """Why its dependencies cannot be kept."""
    fail_open_after_seconds: float | None
    """What its gate was made with."""
    containers: tuple[ContainerFacts, ...]

    @classmethod
    def from_manifest(cls, pod: Mapping[str, Any]) -> Self:
        """Read a pod.

        Raises:
            InvalidManifest: it is none; the text names the field.
        """
        why = exempt(pod)
        try:
            read = msgspec.convert(pod, _Pod)
        except msgspec.ValidationError as error:
            raise InvalidManifest(str(error)) from None
        metadata, spec, status = read.metadata, read.spec, read.status or _Status()
        annotations = metadata.annotations or {}
        gate = next((entry for entry in spec.init_containers or () if entry.name == GATE), None)
        backend = Backend.FILE if gate is not None else Backend.CONFIGMAP if PERMITS_IN in annotations else None
        names = [entry.name for entry in spec.containers or () if _has_variable(entry)] if backend else []
        graph, refused = _graph(annotations.get(DEPENDS_ON), names)
        told = {found.name: found for found in status.container_statuses or ()}
        scheduled = next((found for found in status.conditions or () if found.type == "PodScheduled"), _Condition())
        return cls(
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            node=spec.node_name or None,
            backend=backend,
            exempt=why,
            asks=annotations.get(ENABLED) == "true",
            ended=status.phase if status.phase in ("Succeeded", "Failed") else None,
            deleted=metadata.deletion_timestamp is not None,
            unscheduled=scheduled.message or "" if not spec.node_name else "",
            refused=refused,
            fail_open_after_seconds=_fail_open(gate),
            containers=tuple(
                _container(entry, told.get(entry.name), entry.name in names, graph) for entry in spec.containers or ()
            ),
        )

    @property
    def agent_decides(self) -> bool:
        """Whether its node's agent has a say in what starts of it now."""
        return self.backend is not None and self.node is not None and self.ended is None


def _has_variable(container: _Container) -> bool:
    return any(variable.name == VARIABLE for variable in container.env or ())


def _graph(text: str | None, names: list[str]) -> tuple[Mapping[str, tuple[str, ...]], tuple[str, ...]]:
    if text is None or not names:
        return {}, ()
    try:
        return parse_depends_on(text, names).depends_on, ()
    except InvalidGraph as error:
        return {}, error.problems


def _fail_open(gate: _Container | None) -> float | None:
    text = next((entry.value for entry in (gate.env or ()) if entry.name == _FAIL_OPEN), None) if gate else None
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _container(
    entry: _Container, status: _ContainerStatus | None, gated: bool, graph: Mapping[str, tuple[str, ...]]
) -> ContainerFacts:
    state = (status.state if status is not None else None) or _State()
    return ContainerFacts(
        entry.name,
        gated,
        probed=entry.startup_probe is not None or entry.readiness_probe is not None,
        has_started=entry.startup_probe is not None and status is not None and status.started is True,
        ready=status is not None and status.ready and status.started is not False,
        runs=state.running is not None,
        kubelet=_kubelet(state, ready=status is not None and status.ready),
        depends_on=graph.get(entry.name, ()),
        container_id=(status.container_id if status is not None else None) or "",
    )


def _kubelet(state: _State, *, ready: bool) -> str:
    if state.running is not None:
        return "it runs, and is ready" if ready else "it runs, and is not ready"
    if state.terminated is not None:
        return f"it has ended: {state.terminated.reason or 'no reason'}, exit code {state.terminated.exit_code}"
    if state.waiting is not None:
        return f"it waits: {state.waiting.reason or 'no reason'}"
    return "nothing yet"
