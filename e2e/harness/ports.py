"""Free ports on loopback, outside the range that the kernel hands to outgoing connections.

A port below that range cannot be taken by somebody's client socket between our look and the server's bind, nor while
the API server is down during a restart test. Two harnesses at once look at different places first (random order).
"""

import random
import socket
from pathlib import Path

from e2e.harness.errors import HarnessError

LOOPBACK = "127.0.0.1"
_given: set[int] = set()


def free_port() -> int:
    """Return a port that nobody listens on and that this process has not handed out before."""
    for port in random.sample(_candidates(), 200):
        if port not in _given and _is_free(port):
            _given.add(port)
            return port
    raise HarnessError("no free port found on 127.0.0.1 in 200 tries")


def is_listening(port: int) -> bool:
    """Say whether something accepts connections on the port."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((LOOPBACK, port)) == 0


def _candidates() -> range:
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    except OSError:
        return range(20000, 32768)
    lowest = int(text.split()[0])
    # Where the kernel's range begins too low to leave room below it, take any unprivileged port.
    return range(12000, lowest) if lowest >= 14000 else range(20000, 60000)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As Go's servers do: without it a port in TIME_WAIT looks taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
