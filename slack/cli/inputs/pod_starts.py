"""How the newest pod of a workload started: the pod and the Events of its kubelet, read from an API server."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slack.cluster import wire
    from slack.cluster.snapshot import Workload
    from slack.cluster.start_stages import PodStart
    from slack.kube.access import ClusterAccess


def newest_start(access: "ClusterAccess", wanted: "Workload") -> "PodStart | None":
    """Return how the newest pod of a workload started; None if the workload has no pod.

    Raises:
        KubeError: there is no answer, or no permission to read pods.
    """
    from slack.cli.inputs.api_server import api_server
    from slack.cluster import wire
    from slack.cluster.identity import workload_of
    from slack.cluster.image_pulls import PULLED_EVENTS, image_pull
    from slack.cluster.snapshot import Workload
    from slack.cluster.start_stages import pod_start
    from slack.kube.errors import ApiError
    from slack.kube.paging import list_all
    from slack.kube.paths import resource_path

    with api_server(access) as connection:
        pods = list_all(connection, resource_path("v1", "pods", namespace=wanted.namespace), wire.Pod)
        newest = max(
            (pod for pod in pods if wanted in (Workload(*workload_of(pod.metadata)), _alone(pod))),
            key=lambda pod: str(pod.metadata.creation_timestamp or ""),
            default=None,
        )
        if newest is None:
            return None
        selector = f"{PULLED_EVENTS},involvedObject.uid={newest.metadata.uid}"
        events = resource_path("v1", "events", namespace=wanted.namespace)
        try:
            said = list(list_all(connection, events, wire.Event, field_selector=selector))
        except ApiError as error:
            if error.status != 403:
                raise
            said = []  # who may not read Events learns the rest
        return pod_start(newest, [pull for event in said if (pull := image_pull(event)) is not None])


def _alone(pod: "wire.Pod") -> "Workload":
    from slack.cluster.snapshot import Workload

    return Workload(pod.metadata.namespace or "", "pod", pod.metadata.name)
