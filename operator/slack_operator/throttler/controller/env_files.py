"""Whether the API server takes variables from files (`fileKeyRef`), which pods wait for with the backend `file`.

One whose feature EnvFiles is off, or which is older than 1.35, drops the reference and then refuses the pod for a
variable without a source: its pods could not be made at all. So it is asked, by a PodTemplate that is tried and not
kept (`dryRun=All`), in our own namespace, where such a right harms nobody; who may not ask goes by the version.
"""

import logging
import re
import time
from collections.abc import Callable
from typing import Any, Final

from slack.kube.connection import Connection
from slack.kube.errors import ApiError, KubeError
from slack.kube.paths import resource_path
from slack.process.outages import Outages
from slack.throttler.injection import variable

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 300.0
"""An API server is upgraded, or a feature switched, while we run."""
SINCE: Final = (1, 35)
_INSTEAD = "; throttler.backend=configmap needs none"
_UNPROCESSABLE, _FORBIDDEN = 422, 403
_VERSION = re.compile(r"v?(?P<major>\d+)\.(?P<minor>\d+)")


class EnvFiles:
    """Asks, now and then. Owned by the thread that calls `refresh`; `problem` may be read from any."""

    def __init__(self, connection: Connection, namespace: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.problem: str | None = None
        """Why pods cannot be gated so; None where they can, or where nobody knows."""
        self._connection = connection
        self._namespace = namespace
        self._clock = clock
        self._outages = Outages(clock)
        self._next_at = float("-inf")

    def refresh(self) -> None:
        """Ask if it is time to; an API server that does not answer leaves what was known."""
        if self._clock() < self._next_at:
            return
        self._next_at = self._clock() + AGAIN_SECONDS
        former = self.problem
        try:
            self.problem = self._asked()
        except KubeError as error:
            if self._outages.is_new("ask"):
                log.warning("the API server does not say whether it takes variables from files: %s", error)
            return
        self._outages.end()
        if self.problem is not None and self.problem != former:
            log.warning("pods are left as they are: %s", self.problem)
        if self.problem is None and former is not None:
            log.info("the API server takes variables from files now: pods are gated")

    def _asked(self) -> str | None:
        path = resource_path("v1", "podtemplates", namespace=self._namespace)
        try:
            body = self._connection.request("POST", path, query={"dryRun": "All"}, body=_template(), verb="create")
        except ApiError as error:
            if error.status == _UNPROCESSABLE:
                return f"the API server takes no variables from files (1.35 or newer has EnvFiles){_INSTEAD}"
            if error.status != _FORBIDDEN:
                raise
            return self._by_version()
        if b"fileKeyRef" in body:
            return None
        return f"the API server drops variables from files (feature EnvFiles is off){_INSTEAD}"

    def _by_version(self) -> str | None:
        version = self._connection.server_version()
        found = _VERSION.match(version)
        if found is None or (int(found["major"]), int(found["minor"])) >= SINCE:
            return None
        return f"Kubernetes {version} takes no variables from files, which 1.35 and newer do{_INSTEAD}"


def _template() -> dict[str, Any]:
    container = {"name": "main", "image": "none", "env": [variable("main")]}
    volumes = [{"name": variable("main")["valueFrom"]["fileKeyRef"]["volumeName"], "emptyDir": {}}]
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"generateName": "throttler-asks-"},
        "template": {"metadata": {"labels": {"app": "none"}}, "spec": {"containers": [container], "volumes": volumes}},
    }
