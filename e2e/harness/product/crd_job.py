"""The Job that changes CRDs before `helm upgrade`, played: no container runs here, so its command is a process."""

import subprocess
import sys
import threading
import time
from pathlib import Path

from e2e.harness.cluster.backend import Backend
from e2e.harness.product.helm import NAMESPACE
from e2e.harness.product.operator import environment
from e2e.harness.product.uninstall_hook import arguments, complete

NAME = "resource-slack-crds"
JOB = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{NAME}"


class CrdJob:
    """Runs the Job's command, as its service account, whenever Helm makes the Job.

    Usage:

        with CrdJob(backend):
            helm.run("upgrade", ...)
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._play)
        self.said = ""
        """What the command printed."""

    def __enter__(self) -> "CrdJob":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _play(self) -> None:
        while not self._ended.wait(0.3):
            if (job := self._backend.api.find(JOB)) is None:
                continue
            account = self._backend.service_account(NAMESPACE, NAME)
            command = [str(Path(sys.executable).with_name("resource-slack")), *arguments(job)]
            done = subprocess.run(
                [*command, f"--kubeconfig={account.kubeconfig}"],
                env=environment(),
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            self.said += done.stdout + done.stderr
            if done.returncode != 0:
                return  # the Job reaches its deadline, and Helm says so
            complete(self._backend.api, job)
            while self._backend.api.find(JOB) is not None and not self._ended.is_set():
                time.sleep(0.3)
