"""An API of a suite's own server, behind the API server's aggregation."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.harness.api import Json
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.objects import wait_until


@contextmanager
def registered(
    cluster: ControlPlane, group: str, version: str, namespace: str, service: str, port: int
) -> Iterator[None]:
    """Have the API server ask `localhost:port` for an API, for as long as the block lasts.

    The Service is of type ExternalName, for an Endpoint may not be on loopback. The server's certificate is one of the
    cluster's authority, for `SERVICE.NAMESPACE.svc`.
    """
    api = cluster.api
    path = f"/apis/apiregistration.k8s.io/v1/apiservices/{version}.{group}"
    api.apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": service, "namespace": namespace},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }
    )
    api.apply(
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{version}.{group}"},
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": {"namespace": namespace, "name": service, "port": port},
                "caBundle": base64.b64encode(cluster.keys.authority.read_bytes()).decode(),
            },
        }
    )

    def conditions() -> list[Json]:
        return (api.get(path).get("status") or {}).get("conditions") or []

    try:
        wait_until(
            lambda: any(found["type"] == "Available" and found["status"] == "True" for found in conditions()),
            60,
            "the API server to reach the metrics",
            state=conditions,
        )
        yield
    finally:
        api.delete(path)
        api.delete(f"/api/v1/namespaces/{namespace}/services/{service}")
