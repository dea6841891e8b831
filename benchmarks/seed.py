"""The generated cluster written into a real control plane: namespaces, nodes, bound pods and their status.

Usage:
    python -m benchmarks.seed --pods 30000          # starts a control plane, fills it, prints the rates, ends it
    with control_plane(folder) as cluster: seed(cluster.api, scaled(1 / 5))

The pods' owners do not exist there, so the garbage collector would take the pods away: it must not run. Nodes have no
kubelets that would renew their leases, so the controller that misses them must not run either, unless kwok plays them.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from benchmarks.generator import Json, Size, nodes, pods, scaled
from benchmarks.generator.pod_template import NEVER_PREEMPTING, PRIORITIES, SERVICE_ACCOUNTS
from benchmarks.generator.workloads import NAMESPACES, SYSTEM_NAMESPACE
from e2e.harness.api import Api
from e2e.harness.cluster import kwok
from e2e.harness.cluster.control_plane import ControlPlane, Options
from e2e.harness.objects import make_namespace

T = TypeVar("T")
CONNECTIONS = 4
"""More are no faster on two cores: the server and etcd take what there is."""
_TOKEN = "kube-api-access-"
_GIVEN = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds", "finalizers")


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast objects of one kind went in."""

    what: str
    count: int
    seconds: float
    connections: int

    def __str__(self) -> str:
        per_second = self.count / max(self.seconds, 1e-9)
        return f"{self.what:<12} {self.count:>8} {self.connections:>12} {self.seconds:>9.1f} {per_second:>9.0f}"


def control_plane(folder: Path, kubelets: bool = False) -> ControlPlane:
    """Return a control plane, not started yet, that leaves generated pods alone; with kwok as `kubelets` or without."""
    without = ["garbage-collector-controller"] + ([] if kubelets else ["node-lifecycle-controller"])
    flag = f"--controllers=*,{','.join(f'-{name}' for name in without)}"
    return ControlPlane(folder, Options(controller_manager_flags=(flag,)))


def seed(
    api: Api, size: Size, seed: int = 1, *, connections: int = CONNECTIONS, kubelets: bool = False
) -> Iterator[Rate]:
    """Create everything, and yield how fast each kind went in.

    Args:
        api: a cluster-admin's door.
        size: of the cluster.
        seed: of the generator.
        connections: how many requests are under way at once.
        kubelets: let kwok play the kubelets, which write the status of pods; else it is the generated one.
    """
    _prepare(api)
    yield _timed("nodes", size.nodes, connections, lambda: _each(nodes(size, seed), _node(api, kubelets), connections))
    write = _pod(api, with_status=not kubelets)
    yield _timed("pods", size.pods, connections, lambda: _each(pods(size, seed), write, connections))


def creatable(pod: Json) -> Json:
    """Return the pod as its controller would send it, but bound: without what the server and admission add."""
    metadata, spec = pod["metadata"], pod["spec"]
    kept = {key: value for key, value in metadata.items() if key not in (*_GIVEN, *_DELETION)}
    kept["labels"] = {key: value for key, value in metadata["labels"].items() if not key.startswith("topology.")}
    sent = {key: value for key, value in spec.items() if key not in ("priority", "preemptionPolicy")}
    sent["volumes"] = [volume for volume in spec["volumes"] if not volume["name"].startswith(_TOKEN)]
    for key in ("initContainers", "containers"):
        if key in spec:
            sent[key] = [_unmounted(container) for container in spec[key]]
    added = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    sent["tolerations"] = [
        toleration
        for toleration in spec["tolerations"]
        if toleration.get("key") not in added or "tolerationSeconds" not in toleration
    ]
    if spec["serviceAccountName"] == "default":
        del sent["serviceAccountName"], sent["serviceAccount"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": {key: sent[key] for key in sent if sent[key]}}


def _unmounted(container: Json) -> Json:
    mounts = [mount for mount in container["volumeMounts"] if not mount["name"].startswith(_TOKEN)]
    rest = {key: value for key, value in container.items() if key != "volumeMounts"}
    return rest | ({"volumeMounts": mounts} if mounts else {})


def _prepare(api: Api) -> None:
    for name, value in PRIORITIES.items():
        if name and not name.startswith("system-"):
            policy = "Never" if name in NEVER_PREEMPTING else "PreemptLowerPriority"
            metadata = {"name": name}
            head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata}
            api.apply(head | {"value": value, "preemptionPolicy": policy})
    for namespace in (*NAMESPACES, SYSTEM_NAMESPACE):
        make_namespace(api, namespace)
        for account in SERVICE_ACCOUNTS:
            metadata = {"name": account, "namespace": namespace}
            api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})


def _node(api: Api, kubelets: bool) -> Callable[[Json], None]:
    def write(node: Json) -> None:
        metadata = {key: node["metadata"][key] for key in ("name", "labels", "annotations")}
        if kubelets:
            metadata["annotations"] = metadata["annotations"] | kwok.MANAGED
        body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        api.request("POST", "/api/v1/nodes?fieldManager=kubelet", body | {key: node[key] for key in ("spec", "status")})
        if not kubelets:  # admission taints every new node as not ready, and nobody else would take that away
            change = {"spec": {"taints": node["spec"].get("taints")}}
            api.patch(f"/api/v1/nodes/{node['metadata']['name']}", change)

    return write


def _pod(api: Api, with_status: bool) -> Callable[[Json], None]:
    def write(pod: Json) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        path, manager = f"/api/v1/namespaces/{namespace}/pods", pod["metadata"]["managedFields"][0]["manager"]
        api.request("POST", f"{path}?fieldManager={manager}", creatable(pod))
        if with_status and "nodeName" in pod["spec"]:
            api.patch(f"{path}/{quote(name)}/status?fieldManager=kubelet", {"status": pod["status"]})

    return write


def _timed(what: str, count: int, connections: int, action: Callable[[], None]) -> Rate:
    began = time.monotonic()
    action()
    return Rate(what, count, time.monotonic() - began, connections)


def _each(items: Iterator[T], action: Callable[[T], None], connections: int) -> None:
    """Call `action` for all items by so many threads, taking one when a thread is free; the first error is raised."""
    taking, failed = threading.Lock(), threading.Event()

    def work() -> None:
        while not failed.is_set():
            with taking:
                taken = list(islice(items, 1))
            if not taken:
                return
            try:
                action(taken[0])
            except BaseException:
                failed.set()
                raise

    with ThreadPoolExecutor(connections) as pool:
        for result in [pool.submit(work) for _ in range(connections)]:
            result.result()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fill a real control plane with a generated cluster.")
    parser.add_argument("--pods", type=int, default=30_000, help="how many, about; nodes and workloads in proportion")
    parser.add_argument("--seed", type=int, default=1, help="of the generator")
    parser.add_argument("--connections", type=int, default=CONNECTIONS, help="requests under way at once")
    parser.add_argument("--kwok", action="store_true", help="let kwok write the status of pods")
    found = parser.parse_args()
    for name in ("pods", "connections"):
        if getattr(found, name) < 1:
            parser.error(f"--{name}: must be at least 1")
    return found


def main() -> int:
    """Start a control plane, fill it, print the rates."""
    arguments = _arguments()
    size = scaled(arguments.pods / 150_000)
    with (
        tempfile.TemporaryDirectory(prefix="resource-slack-seeding-") as folder,
        control_plane(Path(folder), arguments.kwok) as cluster,
    ):
        print(f"{'':<12} {'objects':>8} {'connections':>12} {'seconds':>9} {'a second':>9}", flush=True)
        for rate in seed(cluster.api, size, arguments.seed, connections=arguments.connections, kubelets=arguments.kwok):
            print(rate, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
