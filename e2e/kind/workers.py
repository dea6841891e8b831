"""A cluster of two real workers that has the operator's image, and the chart's releases in it."""

import json
from functools import partial
from pathlib import Path
from typing import Self

from e2e.harness.api import Api, Json
from e2e.harness.cluster.kind import Kind
from e2e.harness.docker.engine import Engine
from e2e.harness.machine_speed import stretched, time_scale
from e2e.harness.node import images
from e2e.harness.objects import condition, wait_until
from e2e.harness.product.helm import CHART, NAMESPACE, RELEASE, Helm
from e2e.harness.product.operator import ROOT
from e2e.kindnode import debian

IMAGE = "resource-slack:0.1.0"
"""What the chart takes by itself."""
NODES: Json = {
    "kind": "Cluster",
    "apiVersion": "kind.x-k8s.io/v1alpha4",
    "nodes": [{"role": "control-plane"}, {"role": "worker"}, {"role": "worker"}],
}


def names(cluster: Kind) -> tuple[str, str]:
    """The names of the two workers."""
    return f"{cluster.name_of_cluster}-worker", f"{cluster.name_of_cluster}-worker2"


def start(docker: Engine, folder: Path) -> Kind:
    """Start the cluster, and bring the images."""
    cluster = Kind(folder, configuration=NODES, docker=docker).start()
    try:
        base = [f"--build-arg=BASE={debian.python(docker)}"] if docker.own else []
        docker.run("build", *base, f"--tag={IMAGE}", str(ROOT), seconds=900)
        cluster.run_kind("load", "docker-image", IMAGE, f"--name={cluster.name_of_cluster}")
        if not docker.own:  # kind's own nodes do not have it
            bring(cluster, images.archive(folder / "burner.tar", images.BURNER, ["/bin/sh"]))
    except BaseException:
        cluster.stop()
        raise
    return cluster


def bring(cluster: Kind, archive: Path) -> None:
    """Have all nodes know an image made by hand."""
    cluster.run_kind("load", "image-archive", str(archive), f"--name={cluster.name_of_cluster}")


def ready(api: Api, node: str) -> bool:
    """Whether a node's kubelet says so."""
    found = api.find(f"/api/v1/nodes/{node}")
    return found is not None and condition(found, "Ready") == "True"


def restore(cluster: Kind) -> None:
    """Have both workers up, whatever a suite has done to them; one whose Node was deleted comes with a new one."""
    for name in names(cluster):
        if not ready(cluster.api, name):
            cluster.docker.run("start", name)
            cluster.docker.run("exec", name, "systemctl", "restart", "kubelet")
        wait_until(partial(ready, cluster.api, name), 120, f"{name} to be ready")


class Release:
    """A release of the chart, with the images that are on the nodes.

    Usage:

        with Release(cluster, folder, values={"audit": {"enabled": True}}) as release:
            release.helm("upgrade", "--reuse-values", "--set=audit.logLevel=debug")
    """

    def __init__(self, cluster: Kind, folder: Path, values: Json, name: str = RELEASE) -> None:
        self._helm = Helm(folder, cluster.kubeconfig)
        self._values = folder / f"{name}.json"
        self._values.write_text(json.dumps(values), encoding="utf-8")
        self._name = name

    def helm(self, verb: str, *flags: str) -> None:
        """Run one command of Helm upon it, and wait until all of it is there."""
        wait = ("--wait", stretched("--timeout=300s"))
        chart = () if verb == "uninstall" else (CHART,)
        found = self._helm.run(
            verb, self._name, *chart, f"--namespace={NAMESPACE}", *wait, *flags, seconds=400 * time_scale()
        )
        assert found.returncode == 0, found.stdout + found.stderr

    def __enter__(self) -> Self:
        self.helm("install", "--create-namespace", f"--values={self._values}")
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        if failed is None:
            self.helm("uninstall")
