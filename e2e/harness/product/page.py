"""The page of a made-up cluster, in a process that a test may freeze: `python -m e2e.harness.product.page PORT`.

There is a turn a second until standard input ends.
"""

import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.product.synthetic_cluster import Synthetic
from slack_operator.web.page_state import About, PageState
from slack_operator.web.server import WebServer

INTERVAL_SECONDS = 10.0


@contextmanager
def freezable_page() -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Give the page's address and its process."""
    port = free_port()
    command = [sys.executable, "-m", "e2e.harness.product.page", str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if process.stdout.readline() != "serving\n":
                raise RuntimeError("the page's process did not start; its errors stand above")
            yield f"http://{LOOPBACK}:{port}", process
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()


def main(port: int) -> None:
    """Serve."""
    cluster = Synthetic(12)
    board = PageState(About("operator-1_x", "resource-slack", "test", INTERVAL_SECONDS, lambda: "operator-1_x"))
    board.show(cluster.reconcile(time.time()))
    server = WebServer(LOOPBACK, port, board=board)
    server.start()
    print("serving", flush=True)
    while not select.select([sys.stdin], [], [], 1.0)[0]:
        board.show(cluster.reconcile(time.time()))
    server.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]))
