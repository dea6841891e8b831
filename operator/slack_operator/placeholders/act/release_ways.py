"""The two ways to release a node: a label on it, or a marker pod on it where the operator may not label nodes.

Unbound placeholders avoid both (`slack.planner.objects.manifests`), and the plan treats both alike. Which way is used
is a setting, as placeholders get the anti-affinity against marker pods from the first day, or not at all.
"""

from collections.abc import Callable
from typing import Protocol

from slack.cluster.hold import ReleaseNodes
from slack.cluster.labels import LABEL_RELEASE
from slack.cluster.tables.marker_table import Marker
from slack.kube.apply import Writer
from slack.kube.errors import ApiError
from slack.kube.paths import resource_path
from slack.planner.objects.marker import marker_name, marker_pod
from slack.planner.policy.placeholders import Placeholders
from slack.planner.policy.spec import Policy
from slack_operator.placeholders.view.cluster_view import ClusterView

SHOWN_SECONDS = 10.0
"""Within this time the watch shows what was written; until then what was written counts."""
_LABEL_POINTER = "/metadata/labels/" + LABEL_RELEASE.replace("/", "~1")


class ReleaseWay(Protocol):
    """Writes to one node at a time.

    Both methods raise `WRITE_FAILURES`, and return False if there is nothing to write any more: the node has gone, or
    somebody else was quicker.
    """

    labels: bool
    """Whether it writes labels of nodes."""
    contest: str
    """What somebody does who undoes each write."""

    def release(self, node: str, value: str, policy: Policy | None) -> bool:
        """Release a node; the value says why and since when. A policy is named whose placeholders are there."""

    def take_back(self, node: str, value: str) -> bool:
        """End a release that has this value."""


class ReleaseLabels:
    """The label `resource-slack.io/release` of nodes."""

    labels = True
    contest = f"writes its label {LABEL_RELEASE} back"

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def release(self, node: str, value: str, policy: Policy | None) -> bool:
        """Write the label."""
        return self._is_written(
            lambda path: self._writer.merge_patch(path, {"metadata": {"labels": {LABEL_RELEASE: value}}}), node
        )

    def take_back(self, node: str, value: str) -> bool:
        """Take the label away, if it still has this value."""
        test = {"op": "test", "path": _LABEL_POINTER, "value": value}
        remove = {"op": "remove", "path": _LABEL_POINTER}
        return self._is_written(lambda path: self._writer.json_patch(path, [test, remove]), node)

    @staticmethod
    def _is_written(write: Callable[[str], object], node: str) -> bool:
        try:
            write(resource_path("v1", "nodes", name=node))
        except ApiError as error:
            if error.not_found or error.status == 422:  # the node has gone, or somebody else has changed the label
                return False
            raise
        return True


class MarkerPods:
    """Pods in the operator's namespace. Whatever the way is, those that are left over can be deleted."""

    labels = False
    contest = "deletes its marker pod"

    def __init__(
        self,
        view: ClusterView,
        writer: Writer,
        *,
        namespace: str,
        image: str,
        user: int | None,
        extras: Placeholders,
    ) -> None:
        """Nothing was written yet.

        Args:
            view: of the cluster, which shows marker pods.
            writer: of pods in the namespace.
            namespace: of placeholders and markers.
            image: of the pause container.
            user: that it runs as; None leaves that to image and cluster.
            extras: what the placeholders of all policies have.
        """
        self._view = view
        self._writer = writer
        self._namespace = namespace
        self._image = image
        self._user = user
        self._extras = extras
        self._conflicts: dict[str, float] = {}
        """By node: since when another pod has its marker's name, by the view's clock."""

    def release(self, node: str, value: str, policy: Policy | None) -> bool:
        """Create the node's marker pod."""
        mark = self._view.node_marks().get(node)
        if mark is None or policy is None:
            return False
        pod = marker_pod(
            node,
            mark.uid,
            value,
            namespace=self._namespace,
            priority_class_name=policy.spec.priority_class_name,
            image=self._image,
            user=self._user,
            extras=policy.spec.placeholders.added_to(self._extras),
        )
        try:
            self._writer.create(resource_path("v1", "pods", namespace=self._namespace), pod)
        except ApiError as error:
            if error.status == 409 and self._is_ours(node):
                return False
            raise
        self._conflicts.pop(node, None)
        return True

    def _is_ours(self, node: str) -> bool:
        """Whether the pod with the name of a node's marker is one: on its way out, or not shown by the watch yet."""
        now = self._view.clock()
        since = self._conflicts.setdefault(node, now)
        return now - since < SHOWN_SECONDS or any(each.name == marker_name(node) for each in self._view.markers())

    def take_back(self, node: str, value: str) -> bool:
        """Delete the marker pods of a node."""
        found = [marker for marker in self._view.markers() if marker.node == node and not marker.leaving]
        for marker in found:
            self.delete(marker)
        return bool(found)

    def delete(self, marker: Marker) -> None:
        """Delete one marker pod."""
        path = resource_path("v1", "pods", namespace=self._namespace, name=marker.name)
        try:
            self._writer.delete(path, uid=marker.uid)
        except ApiError as error:
            if error.status != 409:  # another pod has its name by now
                raise


def way_of(setting: ReleaseNodes, writer: Writer, markers: MarkerPods) -> ReleaseWay | None:
    """Return the way that is set; None for none."""
    match setting:
        case ReleaseNodes.LABEL:
            return ReleaseLabels(writer)
        case ReleaseNodes.MARKER_POD:
            return markers
        case _:
            return None
