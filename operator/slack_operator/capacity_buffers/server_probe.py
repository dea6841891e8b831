"""Asks who serves CapacityBuffers: makes a buffer of ours anew, waits, and judges by its status.

A probe that stood there before would still say what was so then. Until the first answer nothing is served, unless the
probe of an operator before this one has one that is not old. Owned by the thread that serves.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from slack.capacity_buffers.api import PLURAL, CapacityBuffer
from slack.capacity_buffers.objects import probe_buffer, probe_template
from slack.capacity_buffers.probing import (
    PROBE_AGAIN_SECONDS,
    PROBE_NAME,
    PROBE_SECONDS,
    BufferServer,
    ServerFinding,
    judge,
    managers_of_others,
    status_managers,
)
from slack.cluster.labels import ANNOTATION_SERVED_BY
from slack.kube.apply import Writer
from slack.kube.errors import ApiError
from slack.kube.paths import resource_path
from slack_operator.capacity_buffers.served_api import BufferApi

log = logging.getLogger(__name__)

CONFIRM_SECONDS = 60.0
"""After so long a new probe confirms that a server was switched on."""
NOT_YET = ServerFinding(BufferServer.UNKNOWN_YET, f"a probe waits for {PROBE_SECONDS:.0f} s for an answer")


class ServerProbe:
    """See the module's docstring; `run_step` is one step."""

    def __init__(
        self,
        writer: Writer,
        *,
        namespace: str,
        image: str,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """Nobody was asked yet.

        Args:
            writer: of our namespace.
            namespace: of the probe.
            image: that its template names.
            clock: monotonic seconds.
            wall: Unix seconds.
        """
        self.finding = NOT_YET
        self.uid = ""
        """Of the probe."""
        self.answers = 0
        """How often it was answered."""
        self._writer = writer
        self._namespace = namespace
        self._image = image
        self._clock = clock
        self._wall = wall
        self._api: BufferApi | None = None
        self._asked_at: float | None = None
        self._next = 0.0

    def run_step(self, api: BufferApi, owner: Mapping[str, Any] | None) -> float:
        """Ask, or look at the answer; return the seconds until the next step.

        Raises:
            KubeError: when something could not be read or written.
        """
        now = self._clock()
        if api != self._api:
            self._api, self._asked_at, self._next = api, None, now
        if self._asked_at is not None:
            return self._look(api, now)
        if now < self._next:
            return self._next - now
        self._ask(api, owner)
        self._asked_at = self._clock()
        return 1.0

    def notice(self, probe: CapacityBuffer | None) -> bool:
        """Take it from the standing probe that a server was switched on; return whether one was.

        It holds at once, for two servers would keep the same chunks. A new probe confirms it soon.
        """
        if probe is None or probe.uid != self.uid or self._asked_at is not None:
            return False
        managers = managers_of_others(status_managers(probe))
        if self.finding.server is not BufferServer.NOBODY or not managers:
            return False
        found = judge(probe.status, managers)
        if found.server is BufferServer.OTHER:  # its first write may be a part only
            return False
        self.finding = found
        self._next = min(self._next, self._clock() + CONFIRM_SECONDS)
        log.info("CapacityBuffers are served by %s now: %s", self.finding.server, self.finding.evidence)
        return True

    def without_kind(self, finding: ServerFinding) -> None:
        """Take it that there is no kind to serve."""
        self._api, self._asked_at, self.finding = None, None, finding

    def _paths(self, api: BufferApi) -> tuple[str, str]:
        return (
            resource_path("v1", "podtemplates", namespace=self._namespace, name=PROBE_NAME),
            resource_path(api.api_version, PLURAL, namespace=self._namespace, name=PROBE_NAME),
        )

    def _ask(self, api: BufferApi, owner: Mapping[str, Any] | None) -> None:
        template, buffer = self._paths(api)
        if self.finding.server in (BufferServer.UNKNOWN_YET, BufferServer.NO_CRD, BufferServer.UNUSABLE_CRD):
            self.finding = self._earlier(buffer)
        self._writer.delete(buffer)
        self._writer.apply(template, probe_template(self._namespace, owner, self._image), force=True)
        made = self._writer.apply(buffer, probe_buffer(api.version, self._namespace, owner), force=True)
        self.uid = str((made.get("metadata") or {}).get("uid") or "")

    def _earlier(self, path: str) -> ServerFinding:
        """Return what an operator before this one has found, if that is not old."""
        try:
            metadata = self._writer.get(path).get("metadata") or {}
        except ApiError as error:
            if error.not_found:
                return NOT_YET
            raise
        text = (metadata.get("annotations") or {}).get(ANNOTATION_SERVED_BY, "")
        name, _, rest = text.partition(": ")
        at, _, evidence = rest.partition(": ")
        if name in set(BufferServer) and at.isdigit() and 0 <= self._wall() - int(at) < PROBE_AGAIN_SECONDS:
            return ServerFinding(BufferServer(name), evidence)
        return NOT_YET

    def _look(self, api: BufferApi, now: float) -> float:
        assert self._asked_at is not None
        _, path = self._paths(api)
        waited = now - self._asked_at
        try:
            found = msgspec.json.decode(msgspec.json.encode(self._writer.get(path)), type=CapacityBuffer)
        except ApiError as error:
            if not error.not_found:
                raise
            self._asked_at, self._next = None, now  # somebody has deleted it
            return 0.0
        finding = judge(found.status, status_managers(found))
        certain = finding.server in (BufferServer.CLUSTER_AUTOSCALER, BufferServer.KARPENTER) and bool(
            managers_of_others(status_managers(found))
        )
        if waited < PROBE_SECONDS and not certain:
            return 1.0
        if finding != self.finding:
            log.info("CapacityBuffers are served by %s: %s", finding.server, finding.evidence)
        self.finding, self._asked_at, self._next = finding, None, now + PROBE_AGAIN_SECONDS
        self.answers += 1
        self._writer.annotate(
            path, {ANNOTATION_SERVED_BY: f"{finding.server}: {int(self._wall())}: {finding.evidence}"}
        )
        return PROBE_AGAIN_SECONDS
