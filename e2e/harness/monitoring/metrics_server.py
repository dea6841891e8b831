"""A real metrics-server behind the API server's aggregation, which asks the suite's nodes as it asks kubelets.

What kubelets serve at /metrics/resource comes of the nodes that exporters tell of, over plain HTTP on loopback;
each node says by an annotation which path is its own. metrics-server asks no more often than each ten seconds, and
tells a node's use from its second answer on.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.harness import build
from e2e.harness.cluster.aggregation import registered
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.errors import HarnessError, UnavailableError
from e2e.harness.monitoring.node_load import KUBELET_PATH, NodeExporters
from e2e.harness.objects import wait_until
from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.processes import Program

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
NODES = f"/apis/{GROUP}/{VERSION}/nodes"
_NAMESPACE, _SERVICE = "default", "e2e-metrics-server"


def binary() -> Path:
    """Return the program, built where need be.

    Raises:
        UnavailableError: it cannot be had here.
    """
    try:
        return build.ensure(["metrics-server"])["metrics-server"]
    except HarnessError as error:
        raise UnavailableError(f"metrics-server cannot be built here: {error}") from None


@contextmanager
def metrics_server(
    cluster: ControlPlane, folder: Path, exporters: NodeExporters, nodes: Iterable[str]
) -> Iterator[Program]:
    """Run one that asks these nodes, until it tells of all of them."""
    program_file, names = binary(), set(nodes)
    for name in names:
        cluster.api.patch(
            f"/api/v1/nodes/{name}",
            {"metadata": {"annotations": {"metrics.k8s.io/resource-metrics-path": f"{KUBELET_PATH}{name}"}}},
        )
        address = {"type": "InternalIP", "address": LOOPBACK}
        cluster.api.patch(f"/api/v1/nodes/{name}/status", {"status": {"addresses": [address]}})
    host, port = f"{_SERVICE}.{_NAMESPACE}.svc", free_port()
    pair = cluster.server_certificate(host, [host])
    user = cluster.user("metrics-server", ["system:masters"]).kubeconfig
    command = [
        str(program_file),
        *(f"--{of}kubeconfig={user}" for of in ("", "authentication-", "authorization-")),
        *(f"--bind-address={LOOPBACK}", f"--secure-port={port}", "--metric-resolution=10s"),
        "--kubelet-request-timeout=5s",
        *(f"--tls-cert-file={pair.certificate}", f"--tls-private-key-file={pair.key}"),
        *("--deprecated-kubelet-completely-insecure", f"--kubelet-port={exporters.port}"),
        "--kubelet-preferred-address-types=InternalIP",
    ]
    program = Program("metrics-server", command, folder).start()
    try:
        with registered(cluster, GROUP, VERSION, _NAMESPACE, _SERVICE, port):

            def told() -> set[str]:
                return {found["metadata"]["name"] for found in cluster.api.get(NODES)["items"]}

            wait_until(lambda: told() >= names, 60, f"metrics-server to tell of {len(names)} nodes", told)
            yield program
    finally:
        program.stop()
