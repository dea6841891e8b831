"""The requests of enforcement: limits raised through pods/resize and put back, with the former ones in the record.

A raise is three requests: the pod is read, the former limit is recorded, and the resize is sent for the version that
was read, so that nothing that came between is overwritten (409: the next turn decides again). All name the pod's uid: a
pod that was recreated under the same name is another one. Before each single write the lease is asked. Nothing is
written to the pod but its limit.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from slack.audit.enforcement.decision import Action, ActionKind
from slack.audit.enforcement.raised_limits import FormerLimit
from slack.audit.sources.pods import AuditedPodFacts
from slack.cluster.quantity import QuantityError, cpu_millis, format_cpu
from slack.kube.apply import Json, Writer
from slack.kube.errors import ApiError
from slack.kube.paths import resource_path
from slack_operator.auditor.controller.limit_record import LimitRecord
from slack_operator.runtime.leading import NotLeading

NO_RESIZE: Final = "NoResize"
"""The reason of an error that every pod would have."""
_NO_RESIZE_TEXT: Final = (
    "this API server does not serve pods/resize: limits are raised from Kubernetes 1.33 on, with the feature gate "
    "InPlacePodVerticalScaling (on by default)"
)


class Resizer:
    """Sends them. Every method raises `ApiError` when it is refused, and `NotLeading` when the lease is gone."""

    def __init__(self, writer: Writer, record: LimitRecord, *, may_write: Callable[[], bool]) -> None:
        self._writer = writer
        self._record = record
        self._may_write = may_write

    def show(self, action: Action) -> None:
        """Send a raise as a dry run."""
        self._send(action, dry_run=True)

    def raise_limit(self, action: Action, policy: str, now: float) -> None:
        """Raise a limit; afterwards either it is raised and the record says so, or neither."""
        pod = self._current(action.pod)
        if _limit(pod, action) != action.from_millis or pod["metadata"].get("deletionTimestamp"):
            raise ApiError(409, "Conflict", "the pod's limit has changed meanwhile")
        name, before, after = action.container.name, format_cpu(action.from_millis), format_cpu(action.to_millis)
        known = self._record.get(action.pod.uid, name)
        first = known.limit if known is not None else before
        self._record.put(action.pod, name, FormerLimit(first, after, now, policy, before))
        try:
            self._send(action, version=str(pod["metadata"]["resourceVersion"]))
        except ApiError as error:
            if is_gone(error):
                raise
            # A request that was tried again after its answer was lost conflicts with itself: the pod knows.
            if _limit(self._current(action.pod), action) == action.to_millis:
                return
            self._record.put(action.pod, name, known)
            raise

    def put_back(self, action: Action) -> None:
        """Put a limit back, where it is to be, and delete its entry of the record."""
        if action.kind is ActionKind.REVERT:
            pod = self._current(action.pod)
            if _limit(pod, action) != action.from_millis:
                raise ApiError(409, "Conflict", "the pod's limit has changed meanwhile")
            self._send(action, version=str(pod["metadata"]["resourceVersion"]))
        self._record.put(action.pod, action.container.name, None)

    def _send(self, action: Action, *, dry_run: bool = False, version: str = "") -> Json:
        """Resize one container of that very pod, and of that version of it where one is given."""
        if not self._may_write():
            raise NotLeading
        metadata = {"uid": action.pod.uid} | ({"resourceVersion": version} if version else {})
        limits = {"name": action.container.name, "resources": {"limits": {"cpu": format_cpu(action.to_millis)}}}
        patch = {"metadata": metadata, "spec": {_containers(action): [limits]}}
        return self._patch(action.pod, patch, dry_run=dry_run)

    def _current(self, pod: AuditedPodFacts) -> Json:
        """Read that very pod, by a dry run that changes nothing: the right to resize is enough."""
        if not self._may_write():
            raise NotLeading
        return self._patch(pod, {"metadata": {"uid": pod.uid}}, dry_run=True)

    def _patch(self, pod: AuditedPodFacts, patch: Json, *, dry_run: bool) -> Json:
        try:
            return self._writer.strategic_patch(f"{_path(pod)}/resize", patch, dry_run=dry_run)
        except ApiError as error:
            if error.not_found and not _names(error, pod):
                raise ApiError(error.status, NO_RESIZE, _NO_RESIZE_TEXT) from error
            raise


def other_object(error: ApiError) -> bool:
    """Whether another pod has the name by now: the API server calls a uid that differs a change of the uid."""
    return any(cause.field == "metadata.uid" for cause in error.causes)


def is_gone(error: ApiError) -> bool:
    """Whether the pod is gone."""
    return error.not_found and error.reason != NO_RESIZE


def _names(error: ApiError, pod: AuditedPodFacts) -> bool:
    """Whether an answer 404 is about the pod: `pods "api-x" not found`. One about the path does not name it."""
    return f'"{pod.name}"' in error.message


def _path(pod: AuditedPodFacts) -> str:
    return resource_path("v1", "pods", namespace=pod.namespace, name=pod.name)


def _containers(action: Action) -> str:
    return "initContainers" if action.container.init else "containers"


def _limit(pod: Mapping[str, Any], action: Action) -> int | None:
    """Return the container's limit in an answer of the API server."""
    for container in pod["spec"].get(_containers(action)) or ():
        if container.get("name") == action.container.name:
            try:
                return cpu_millis(str(container.get("resources", {}).get("limits", {}).get("cpu", "")))
            except QuantityError:
                return None
    return None
