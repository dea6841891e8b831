"""One pod's permits, written: keys of its ConfigMap, then a change of the pod that has its kubelet look."""

from collections.abc import Sequence
from typing import Final

from slack.kube.apply import Writer
from slack.kube.errors import ApiError
from slack.kube.paths import resource_path
from slack.throttler.config_maps import HeldPod, additions, manifest, poke

_UNPROCESSABLE: Final = 422


def let_in(writer: Writer, pod: HeldPod, containers: Sequence[str], at: str, *, fresh: bool = True) -> None:
    """Let containers of a pod start; written twice it changes nothing but the time.

    Args:
        writer: of ConfigMaps and pods.
        pod: whose containers they are.
        containers: their names.
        at: a time, other than that before.
        fresh: nothing is known to have been written for it.

    Raises:
        KubeError: nobody answers, or it is refused, as for a ConfigMap that is not ours.
    """
    collection = resource_path("v1", "configmaps", namespace=pod.namespace)
    path = resource_path("v1", "configmaps", namespace=pod.namespace, name=pod.config_map)
    if not (fresh and _created(writer, collection, pod, containers)):
        try:
            writer.json_patch(path, additions(pod, containers, owned=True))
        except ApiError as error:
            if error.not_found:  # somebody has deleted it
                writer.create(collection, manifest(pod, containers))
            elif error.status == _UNPROCESSABLE:  # of a pod that this one is a copy of
                writer.json_patch(path, additions(pod, containers, owned=False))
            else:
                raise
    try:
        writer.json_patch(resource_path("v1", "pods", namespace=pod.namespace, name=pod.name), poke(pod, at))
    except ApiError as error:
        # the pod is gone or another, or has no annotations any more, and its kubelet looks when it looks
        if not error.not_found and error.status != _UNPROCESSABLE:
            raise


def _created(writer: Writer, collection: str, pod: HeldPod, containers: Sequence[str]) -> bool:
    try:
        writer.create(collection, manifest(pod, containers))
    except ApiError as error:
        if error.conflict:
            return False
        raise
    return True
