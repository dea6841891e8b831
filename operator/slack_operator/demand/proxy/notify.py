"""Says to who started us that we are ready, as services tell systemd (sd_notify(3)); nothing where nobody asks."""

import os
import socket
from typing import Final

_SECONDS: Final = 1.0


def say_ready(container: str) -> None:
    """Send one datagram to NOTIFY_SOCKET; who does not listen any more misses it."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.settimeout(_SECONDS)  # who does not read must not hold up messages
            told.sendto(f"READY=1\nX_CONTAINER={container}\n".encode(), address)
    except OSError:
        return
