"""A Prometheus that scrapes a real node's cAdvisor, with no more than a monitoring system's rights.

Debian's, where it is installed, so that what is tested is what people run; else the one that is built here.
"""

import shutil
from pathlib import Path
from typing import Self

import yaml

from e2e.harness import build
from e2e.harness.api import Json
from e2e.harness.cluster.access import grant
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.monitoring.prometheus import Prometheus
from e2e.harness.node.real_node import RealNode
from e2e.harness.objects import wait_until
from e2e.harness.ports import LOOPBACK, free_port

_NAMESPACE, _NAME = "kube-system", "prometheus"
_ROLE = "e2e-prometheus-kubelet"


class NodePrometheus(Prometheus):
    """One Prometheus on loopback, and the kubelet that it scrapes.

    Usage:

        with NodePrometheus(cluster, node) as prometheus:
            prometheus.query("container_cpu_cfs_periods_total")
    """

    def __init__(self, cluster: ControlPlane, node: RealNode, scrape_seconds: int = 2) -> None:
        super().__init__(cluster, scrape_seconds=scrape_seconds, scheduler=False)
        self._node = node
        self._control_plane = cluster

    def start(self) -> Self:
        """Start it and wait until it has scraped the kubelet."""
        port = free_port()
        self.url = f"http://{LOOPBACK}:{port}"
        self.configuration.write_text(yaml.safe_dump(self._document(0)), encoding="utf-8")
        command = [
            self.binary(),
            f"--config.file={self.configuration}",
            f"--storage.tsdb.path={self._control_plane.run_folder / f'prometheus-{port}'}",
            f"--web.listen-address={LOOPBACK}:{port}",
            "--log.level=warn",
        ]
        try:
            self._run("prometheus", command, f"{self.url}/-/ready")
            wait_until(lambda: self.query("up == 1"), 30, "the kubelet to be scraped", lambda: self.query("up"))
        except BaseException:
            self.stop()
            raise
        return self

    @staticmethod
    def binary() -> str:
        """Return the program: Debian's, or the one that is built."""
        return shutil.which("prometheus") or str(build.ensure(["prometheus"])["prometheus"])

    def _document(self, metrics_port: int) -> Json:
        every = f"{self._scrape_seconds}s"
        job: Json = {
            "job_name": "kubelet",
            "honor_labels": True,
            "scheme": "https",
            "metrics_path": "/metrics/cadvisor",
            "authorization": {"credentials_file": str(self._token())},
            "tls_config": {"ca_file": str(self._control_plane.api.authority)},
            "static_configs": [
                {"targets": [f"{self._node.name}:{self._node.port}"], "labels": {"node": self._node.name}}
            ],
        }
        return {"global": {"scrape_interval": every, "scrape_timeout": every}, "scrape_configs": [job]}

    def _token(self) -> Path:
        """Return the file with the token of a service account that may read metrics of kubelets, and nothing else."""
        api = self._control_plane.api
        rule = {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]}
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": _ROLE}}
        api.apply({**role, "rules": [rule]})
        access = self._control_plane.service_account(_NAMESPACE, _NAME)
        grant(api, access, _ROLE)
        path = self._control_plane.run_folder / "prometheus.token"
        path.touch(mode=0o600)
        path.write_text(access.api.token, encoding="ascii")
        return path
