"""The watches of CapacityBuffers and PodTemplates: begun when the kind is there, and begun anew in another version."""

from typing import Any

from slack.capacity_buffers.api import PLURAL, CapacityBuffer, PodTemplateObject
from slack.kube.connection import Connection
from slack.kube.paths import resource_path
from slack.kube.reflector import Reflector
from slack_operator.capacity_buffers.object_store import ObjectStore
from slack_operator.capacity_buffers.served_api import BufferApi


class BufferWatches:
    """Owned by the thread that serves."""

    def __init__(
        self,
        connection: Connection,
        buffers: ObjectStore[CapacityBuffer],
        templates: ObjectStore[PodTemplateObject],
    ) -> None:
        self._connection = connection
        self._buffers = buffers
        self._templates = templates
        self._version = ""
        self._reflectors: tuple[Reflector[Any], ...] = ()

    def follow(self, api: BufferApi | None) -> None:
        """Watch the kind in this version; None: it is gone, and so are its objects."""
        if api is not None and api.api_version == self._version:
            return
        self.stop()
        if api is None:
            self._buffers.forget()
            return
        self._version = api.api_version
        path = resource_path(api.api_version, PLURAL)
        self._reflectors = (
            Reflector(self._connection, path, CapacityBuffer, self._buffers, may_be_absent=True),
            Reflector(self._connection, resource_path("v1", "podtemplates"), PodTemplateObject, self._templates),
        )
        for reflector in self._reflectors:
            reflector.start()

    def stop(self) -> None:
        """End them."""
        for reflector in self._reflectors:
            reflector.stop(timeout=0.0)
        for reflector in self._reflectors:
            reflector.stop(timeout=2.0)
        self._reflectors, self._version = (), ""

    def unready(self) -> str | None:
        """Say which of them is not whole; None when both are."""
        for reflector in self._reflectors:
            if not reflector.synced:
                return f"{reflector.path} is not listed yet" + (
                    f": {reflector.last_error}" if reflector.last_error else ""
                )
        return None if self._reflectors else "nothing is watched yet"

    def unhealthy(self) -> str | None:
        """Return which reflector's thread is dead or stuck."""
        return next((text for each in self._reflectors if (text := each.unhealthy())), None)
