"""The try of a managed cluster (`python -m e2e.cloud`), on the control plane of the suites with Karpenter.

No container runs here: the operator is a process, started when the chart's Deployment is there.
"""

import os
import subprocess
import sys
from pathlib import Path

from e2e.harness import build
from e2e.harness.autoscalers.karpenter import Karpenter
from e2e.harness.cluster.backend import Backend
from e2e.harness.machine_speed import time_scale
from e2e.harness.objects import wait_until
from e2e.harness.product.helm import NAMESPACE
from e2e.harness.product.operator import ROOT, Operator
from e2e.harness.product.uninstall_hook import arguments

DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/resource-slack"
VALUES = ("operator.replicas=0", "uninstall.enabled=false", "operator.interval=2s")


def test_the_try_prints_one_row_and_leaves_nothing(cluster: Backend, tmp_path: Path) -> None:
    for name in ("helm", "kubectl"):
        (tmp_path / name).symlink_to(build.ensure([name])[name])
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(cluster.kubeconfig),
        "PYTHONPATH": str(ROOT),
    }
    flags = ["--image=example/resource-slack", "--run", "--yes", "--pods=6", "--cpu=1", *(f"--set={v}" for v in VALUES)]
    with Karpenter(cluster) as karpenter:
        karpenter.add_pool("default", boot_seconds=8, consolidate_after="5s")
        trying = subprocess.Popen(
            [sys.executable, "-m", "e2e.cloud", "current", *flags],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            wait_until(lambda: cluster.api.find(DEPLOYMENT), 120, "the chart to be installed")
            settings = arguments(cluster.api.get(DEPLOYMENT))[1:]
            settings = [flag for flag in settings if not flag.startswith("--listen=")]
            with Operator(cluster, *settings, identity=cluster.service_account(NAMESPACE, "resource-slack")):
                output, said = trying.communicate(timeout=300 * time_scale())
        finally:
            trying.kill()
    assert trying.returncode == 0, said
    (row,) = output.splitlines()
    print(f"\n{row}")
    assert row.startswith("| this cluster, Kubernetes 1.")
    assert row.count("|") == 4
    assert "inf" not in row
    assert "slack costs unknown" not in row
    assert row.endswith("uninstalling left nothing |")
    assert cluster.api.find(DEPLOYMENT) is None
