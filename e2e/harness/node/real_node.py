"""A node that is one: the stock kubelet with Debian's containerd and runc on this machine. Root only.

It joins a local control plane beside kwok's nodes and runs what is sent to it for real, in control groups below one of
its own, with quotas that the kernel enforces. Whatever it starts, mounts, makes or sets is gone or as before when it
stops, also after a start that failed: see `e2e.harness.node.cgroups` and `e2e.harness.node.mount_namespace` for how. It
needs control groups of version 1 (hybrid or not), which is what kubelet 1.36 with containerd 1.6 was seen to work on.
"""

import itertools
import os
import resource
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import yaml

from e2e.harness import build
from e2e.harness.api import Json
from e2e.harness.cluster.access import grant
from e2e.harness.cluster.certificates import Pair
from e2e.harness.cluster.control_plane import ControlPlane, Options
from e2e.harness.errors import HarnessError, UnavailableError
from e2e.harness.node import images
from e2e.harness.node.cgroups import Cgroup, hierarchies
from e2e.harness.node.containerd import PLUGINS, SOCKET, STATE, Containerd
from e2e.harness.node.local_address import LocalAddress
from e2e.harness.node.mount_namespace import MountNamespace
from e2e.harness.objects import condition
from e2e.harness.ports import free_port
from e2e.harness.processes import Program

HOUSEKEEPING_SECONDS = 2
"""How often cAdvisor reads a container's counters; 10 by default, which makes a test of three scrapes long."""
_PROGRAMS = ("containerd", "runc", "ctr", "nsenter", "unshare", "ip")
_FOLDERS = ("/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/var/log/containers", "/run/netns", str(STATE))
# What the kubelet sets when it starts (its container manager's setupKernelTunables), and the network plugin.
_KERNEL_SETTINGS = (
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "net/ipv4/ip_forward",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
_numbers = itertools.count()
_SHARES = 32 * 1024
"""Pods have few shares, and neighbours on this machine would take what their limits give them."""
_SERVER = "server"
"""The API server's own certificate is good for a client, too, and names this user."""


def require() -> None:
    """Return if a real node can be had here.

    Raises:
        UnavailableError: what is missing, and what would bring it.
    """
    if os.geteuid() != 0:
        raise UnavailableError("a real node takes root: mounts, namespaces and control groups")
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    missing += [str(path) for path in (PLUGINS / "ptp", images.BUSYBOX) if not path.exists()]
    if missing:
        packages = "containerd runc containernetworking-plugins busybox-static util-linux iproute2"
        raise UnavailableError(f"no {', '.join(missing)} here (Debian's packages: {packages})")
    if b"/ld-" in images.BUSYBOX.read_bytes()[:4096]:
        raise UnavailableError(f"{images.BUSYBOX} needs libraries; the one of busybox-static does not")
    if not any("cpu" in hierarchy.controllers for hierarchy in hierarchies()):
        raise UnavailableError("no hierarchy of version 1 with the cpu controller: the node is not tried on others")


def options(run_folder: Path) -> Options:
    """Return what a control plane in `run_folder` must be started with to speak to a node's kubelet."""
    keys = _keys(run_folder)
    flags = {
        "kubelet-certificate-authority": keys.certificate.with_name("ca.crt"),
        "kubelet-client-certificate": keys.certificate,
        "kubelet-client-key": keys.key,
    }
    return Options(apiserver_flags=[f"--{name}={value}" for name, value in flags.items()])


class RealNode:
    """One node of a cluster that was started with `options`.

    Usage:

        with ControlPlane(folder, realnode.options(folder)) as cluster, RealNode(cluster) as node:
            cluster.api.create(burning_pod("api", loops=4, limit="200m"))
    """

    def __init__(self, cluster: ControlPlane, kubelet: Mapping[str, object] | None = None) -> None:
        """Nothing runs yet; `kubelet` has further fields of its configuration."""
        self._cluster = cluster
        self._further = dict(kubelet or {})
        self.run_folder = cluster.run_folder
        self.port = free_port()
        self._address = LocalAddress()
        self.static_pods = self.run_folder / "static-pods"
        self._cgroup = Cgroup(hierarchies(), f"node{next(_numbers)}")
        self._space = MountNamespace([Path(folder) for folder in _FOLDERS], self.run_folder)
        self.containerd = Containerd(self._space, self.run_folder)
        self._kubelet: Program | None = None
        self._settings: dict[Path, str] = {}

    @property
    def name(self) -> str:
        """The node's name: its address, which the kubelet then takes from it."""
        return self._address.text

    @property
    def cgroup_root(self) -> str:
        """The group below which `kubepods` is, from the root of each hierarchy."""
        return f"/{self._cgroup.name}"

    @property
    def url(self) -> str:
        """The kubelet's server."""
        return f"https://{self.name}:{self.port}"

    def set_shares(self, shares: int) -> None:
        """Say how much the node's pods are worth beside one other process of this machine (1024)."""
        (self._cgroup.path("cpu") / "cpu.shares").write_text(str(shares), encoding="ascii")

    def start(self) -> Self:
        """Start everything and return when pods can be scheduled to the node."""
        require()
        binary = build.ensure(["kubelet"])["kubelet"]
        try:
            self._settings = _kernel_settings()
            self._address.start()
            self._cgroup.start()
            self.set_shares(_SHARES)
            self._space.start()
            self.containerd.start()
            self._keep_the_runtime_together()
            self._start_kubelet(binary)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End everything: containers and their shims outlive the kubelet and containerd, so they are ended by group."""
        failures: list[Exception] = []
        ends = (
            self._stop_kubelet,
            self.containerd.stop,
            self._cgroup.stop,
            self._space.stop,
            self._address.stop,
            self._restore,
        )
        for end in ends:
            try:
                end()
            except (HarnessError, OSError) as error:  # the others are still to be ended
                failures.append(error)
        shutil.rmtree(self.containerd.root, ignore_errors=True)
        if failures:
            raise ExceptionGroup("the node left something behind", failures)

    def restart_kubelet(self) -> None:
        """End the kubelet and start it again; containers run on."""
        self._stop_kubelet()
        self._begin_kubelet()

    def stop_kubelet(self) -> None:
        """End the kubelet; containers run on, and nobody writes the node's status."""
        self._stop_kubelet()

    def reboot(self) -> None:
        """End all that runs at once, containers too, forget what memory had of them, and start anew with all pods."""
        if self._kubelet is not None:
            self._kubelet.kill()
        self.containerd.kill()
        self._cgroup.empty()
        for folder in (STATE, Path("/run/netns")):
            self._space.renew(folder)
        self.containerd.start()
        self._keep_the_runtime_together()
        self._begin_kubelet()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _keep_the_runtime_together(self) -> None:
        """Have containerd, and so every shim that it will start, in the group that is ended as a whole."""
        group = self._cgroup.path("cpu") / "runtime"
        group.mkdir(exist_ok=True)
        (group / "cgroup.procs").write_text(str(self.containerd.pid), encoding="ascii")

    def _start_kubelet(self, binary: Path) -> None:
        user = self._cluster.user(f"system:node:{self.name}", ["system:nodes"])
        grant(self._cluster.api, user, "system:node")  # the API server has no node authorizer here
        self._let_the_api_server_in()
        self.static_pods.mkdir(exist_ok=True)
        path = self.run_folder / "kubelet.yaml"
        path.write_text(yaml.safe_dump(self._configuration()), encoding="utf-8")
        command = [
            str(binary),
            f"--config={path}",
            f"--kubeconfig={user.kubeconfig}",
            f"--hostname-override={self.name}",
            f"--containerd={SOCKET}",  # without it cAdvisor has no series of containers
            f"--housekeeping-interval={HOUSEKEEPING_SECONDS}s",
        ]
        self._kubelet = Program("kubelet", self._space.command(command), self.run_folder)
        self._begin_kubelet()

    def _begin_kubelet(self) -> None:
        if self._kubelet is not None:
            self._kubelet.start().wait_until_ready(self._is_ready, seconds=60)

    def _configuration(self) -> Json:
        keys = self._cluster.server_certificate(f"kubelet-{self.name}", [self.name])
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.name,
            "port": self.port,
            "healthzPort": 0,
            "tlsCertFile": str(keys.certificate),
            "tlsPrivateKeyFile": str(keys.key),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True, "cacheTTL": "0s"},
                "x509": {"clientCAFile": str(self._cluster.api.authority)},
            },
            "authorization": {"mode": "Webhook"},
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self.cgroup_root,
            "failCgroupV1": False,
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "maxOpenFiles": limit,  # more takes CAP_SYS_RESOURCE
            "oomScoreAdj": 0,
            "staticPodPath": str(self.static_pods),
            "volumePluginDir": str(self.run_folder / "volume-plugins"),
            "resolvConf": "",
            "fileCheckFrequency": "1s",
            "nodeStatusUpdateFrequency": "2s",
            "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
            "imageGCHighThresholdPercent": 100,
            **self._further,
        }

    def _let_the_api_server_in(self) -> None:
        group = "rbac.authorization.k8s.io"
        self._cluster.api.apply(
            {
                "apiVersion": f"{group}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "e2e-kubelet-api-admin"},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "system:kubelet-api-admin"},
                "subjects": [{"apiGroup": group, "kind": "User", "name": _SERVER}],
            }
        )

    def _is_ready(self) -> bool:
        node = self._cluster.api.find(f"/api/v1/nodes/{self.name}")
        return node is not None and condition(node, "Ready") == "True" and not node["spec"].get("taints")

    def _stop_kubelet(self) -> None:
        if self._kubelet is not None:
            self._kubelet.stop(seconds=5.0)

    def _restore(self) -> None:
        for path, value in self._settings.items():
            if path.read_text(encoding="ascii") != value:
                path.write_text(value, encoding="ascii")


def burning_pod(
    name: str,
    loops: int,
    limit: str = "",
    request: str = "50m",
    namespace: str = "default",
    **spec: object,
) -> Json:
    """Return a pod of the real node with one container of that many busy loops."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [burner("main", loops, limit, request)],
            **spec,
        },
    }


def burner(name: str, loops: int, limit: str = "", request: str = "50m") -> Json:
    """Return a container of so many busy loops, idle with none."""
    work = "while :; do :; done & " * loops
    resources = {"requests": {"cpu": request}} if request else {}
    if limit:
        resources["limits"] = {"cpu": limit}
    return {
        "name": name,
        "image": images.BURNER,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", f"trap 'exit 0' TERM; {work}sleep 2147483647 & wait"],
        "resources": resources,
    }


def _keys(run_folder: Path) -> Pair:
    folder = run_folder / "certificates"
    return Pair(folder / f"{_SERVER}.crt", folder / f"{_SERVER}.key")


def _kernel_settings() -> dict[Path, str]:
    found = {}
    for name in _KERNEL_SETTINGS:
        path = Path("/proc/sys") / name
        with suppress(OSError):
            found[path] = path.read_text(encoding="ascii")
    return found
