"""The requests of enforcement: limits raised through pods/resize and put back, the former ones kept in an annotation.

A raise is three requests: the resize as a dry run, the annotation, the resize itself bound to the version of the pod
that the annotation made, so that nothing that came between is overwritten (409: the next turn decides anew). All name
the pod's uid: one that was made anew under the same name is another. Before each single write the lease is asked.
"""

from collections.abc import Callable, Mapping
from typing import Any

from slack.audit.enforcement.decision import Action, ActionKind
from slack.audit.enforcement.raised_limits import FormerLimit, read_former, write_former
from slack.audit.sources.pods import PodFacts
from slack.cluster.labels import ANNOTATION_FORMER_LIMITS
from slack.cluster.quantity import QuantityError, cpu_millis, format_cpu
from slack.kube.apply import Json, Writer
from slack.kube.errors import ApiError
from slack.kube.paths import resource_path
from slack_operator.runtime.leading import NotLeading


class Resizer:
    """Sends them. Every method raises `ApiError` when it is refused, and `NotLeading` when the lease is gone."""

    def __init__(self, writer: Writer, *, may_write: Callable[[], bool]) -> None:
        self._writer = writer
        self._may_write = may_write

    def show(self, action: Action) -> None:
        """Send a raise as a dry run."""
        self._send(action, dry_run=True)

    def raise_limit(self, action: Action, policy: str, now: float) -> None:
        """Raise a limit; afterwards either it is raised and the annotation says so, or neither."""
        former = _former(self._send(action, dry_run=True))
        name, before, after = action.container.name, format_cpu(action.from_millis), format_cpu(action.to_millis)
        known = former.get(name)
        first = known.limit if known is not None else before
        marked = self._annotate(action.pod, former | {name: FormerLimit(first, after, now, policy, before)})
        if _limit(marked, action) != action.from_millis or marked["metadata"].get("deletionTimestamp"):
            self._annotate(action.pod, _with(former, name, known))
            raise ApiError(409, "Conflict", "the pod's limit has changed meanwhile")
        try:
            self._send(action, version=str(marked["metadata"]["resourceVersion"]))
        except ApiError as error:
            if error.not_found:
                raise
            # A request that was tried again after its answer was lost conflicts with itself: the pod knows.
            if _limit(self._current(action.pod), action) == action.to_millis:
                return
            self._annotate(action.pod, _with(former, name, known))
            raise

    def put_back(self, action: Action) -> None:
        """Put a limit back, where it is to be, and take the container out of the annotation."""
        if action.kind is ActionKind.REVERT:
            pod = self._send(action, dry_run=True)
            self._send(action, version=str(pod["metadata"]["resourceVersion"]))
        else:
            pod = self._current(action.pod)
        self._annotate(action.pod, _with(_former(pod), action.container.name, None))

    def _send(self, action: Action, *, dry_run: bool = False, version: str = "") -> Json:
        """Resize one container of that very pod, and of that version of it where one is given."""
        if not self._may_write():
            raise NotLeading
        metadata = {"uid": action.pod.uid} | ({"resourceVersion": version} if version else {})
        limits = {"name": action.container.name, "resources": {"limits": {"cpu": format_cpu(action.to_millis)}}}
        patch = {"metadata": metadata, "spec": {_containers(action): [limits]}}
        return self._writer.strategic_patch(f"{_path(action.pod)}/resize", patch, dry_run=dry_run)

    def _current(self, pod: PodFacts) -> Json:
        """Read that very pod, by a dry run that changes nothing: the right to resize is enough."""
        if not self._may_write():
            raise NotLeading
        return self._writer.strategic_patch(f"{_path(pod)}/resize", {"metadata": {"uid": pod.uid}}, dry_run=True)

    def _annotate(self, pod: PodFacts, former: Mapping[str, FormerLimit]) -> Json:
        """Write the annotation of that very pod."""
        if not self._may_write():
            raise NotLeading
        annotations = {ANNOTATION_FORMER_LIMITS: write_former(former)}
        return self._writer.merge_patch(_path(pod), {"metadata": {"uid": pod.uid, "annotations": annotations}})


def other_object(error: ApiError) -> bool:
    """Whether another pod has the name by now: the API server calls a uid that differs a change of the uid."""
    return any(cause.field == "metadata.uid" for cause in error.causes)


def _path(pod: PodFacts) -> str:
    return resource_path("v1", "pods", namespace=pod.namespace, name=pod.name)


def _containers(action: Action) -> str:
    return "initContainers" if action.container.init else "containers"


def _former(pod: Mapping[str, Any]) -> dict[str, FormerLimit]:
    return read_former((pod["metadata"].get("annotations") or {}).get(ANNOTATION_FORMER_LIMITS, "{}"))


def _with(former: Mapping[str, FormerLimit], name: str, limit: FormerLimit | None) -> dict[str, FormerLimit]:
    rest = {key: kept for key, kept in former.items() if key != name}
    return rest if limit is None else rest | {name: limit}


def _limit(pod: Mapping[str, Any], action: Action) -> int | None:
    """Return the container's limit in an answer of the API server."""
    for container in pod["spec"].get(_containers(action)) or ():
        if container.get("name") == action.container.name:
            try:
                return cpu_millis(str(container.get("resources", {}).get("limits", {}).get("cpu", "")))
            except QuantityError:
                return None
    return None
