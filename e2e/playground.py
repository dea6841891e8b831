"""`make playground`: a real control plane with Karpenter to play with, until Ctrl-C.

Nothing of resource-slack runs in it but the CRD and the namespace: the rest is what a reader tries. It ends with this
program, and its folder with it.
"""

import signal
import sys
import tempfile
import threading
from pathlib import Path

from rich.console import Console

from e2e.harness.autoscalers.karpenter import Karpenter
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.errors import HarnessError
from e2e.harness.product.operator import install

BOOT_SECONDS = 15
console = Console(highlight=False, soft_wrap=True)


def _until_told(*signals: signal.Signals) -> None:
    told = threading.Event()
    for number in signals:
        signal.signal(number, lambda *_: told.set())
    told.wait()


def told(kubeconfig: str) -> str:
    """Return what a reader does next, in which terminal."""
    return (
        f"\nIt runs, without nodes yet. Each node that Karpenter adds takes {BOOT_SECONDS} s. In another terminal:\n\n"
        f"  export KUBECONFIG={kubeconfig}\n"
        "  . .venv/bin/activate\n"
        "  kubectl apply -f examples/quickstart\n"
        "  resource-slack operator --interval 2s --web\n\n"
        "In a third terminal, run the first two lines again and watch the result:\n\n"
        "  kubectl slack status --watch\n\n"
        "The operator recognises Karpenter, so its placeholders are unbound. They are Pending on purpose:\n\n"
        "  kubectl --namespace resource-slack get pods\n\n"
        "In a fourth terminal, run the first two lines again and start the burst:\n\n"
        "  kubectl scale deployment shop --replicas=14\n\n"
        "The web page, read-only, shows the same: http://127.0.0.1:8081\n\n"
        "Ctrl-C ends the cluster."
    )


def main() -> int:
    """Run the cluster; 1 when it does not start."""
    try:
        console.print("starting etcd, API server, scheduler, controller manager, kwok and Karpenter ...")
        with (
            tempfile.TemporaryDirectory(prefix="resource-slack-playground-") as folder,
            ControlPlane(Path(folder)) as cluster,
            Karpenter(cluster) as karpenter,
        ):
            install(cluster)
            karpenter.add_pool("default", boot_seconds=BOOT_SECONDS, consolidate_after="30s")
            console.print(told(str(cluster.kubeconfig)))
            _until_told(signal.SIGINT, signal.SIGTERM)
            console.print("ending ...")
    except HarnessError as error:
        console.print(f"[red]the playground stopped:[/red] {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
