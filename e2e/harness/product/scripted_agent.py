"""An agent of the throttler that does what a test says: TLS as the real one's, tokens judged by the API server."""

import json
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from e2e.harness.api import ApiError, Json
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.objects import wait_until

AUDIENCE = "throttler"
SERVER_NAME = "resource-slack-throttler-agent"
_POD = "authentication.kubernetes.io/pod-name"


@dataclass
class _Gate:
    """A connected gate: its socket, and what it asked."""

    connection: ssl.SSLSocket
    asks: list[Json] = field(default_factory=list)


class ScriptedAgent:
    """Listens on one address; each ask is answered by `wait`, unless the container was granted.

    Usage:

        with ScriptedAgent(cluster, node.name) as agent:
            agent.wait_for_ask("shop-0", "main")
            agent.say("shop-0", "granted", "main")
    """

    def __init__(self, cluster: ControlPlane, host: str) -> None:
        self._cluster = cluster
        pair = cluster.server_certificate("throttler-agent", [SERVER_NAME])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        self._context = context
        self._server = socket.create_server((host, 0))
        self.port = int(self._server.getsockname()[1])
        self._gates: dict[str, _Gate] = {}
        self._granted: set[tuple[str, str]] = set()
        self.refused: list[str] = []

    def start(self) -> Self:
        """Take connections."""
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def stop(self) -> None:
        """Close everything."""
        for closing in (self._server, *(gate.connection for gate in list(self._gates.values()))):
            with suppress(OSError):
                closing.shutdown(socket.SHUT_RDWR)
            closing.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_for_ask(self, pod: str, container: str, seconds: float = 60) -> Json:
        """Wait until a pod's gate has asked for a container; returns the newest ask."""

        def asked() -> Json | None:
            gate = self._gates.get(pod)
            found = [ask for ask in gate.asks if ask["container"] == container] if gate is not None else []
            return found[-1] if found else None

        found = wait_until(asked, seconds, f"an ask of {pod} for {container}", lambda: self.refused)
        return found or {}

    def say(self, pod: str, kind: str, container: str, **fields: object) -> None:
        """Send a message to a pod's gate."""
        (self._granted.add if kind == "granted" else self._granted.discard)((pod, container))
        self._send(self._gates[pod].connection, {"type": kind, "container": container, **fields})

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        try:
            with self._context.wrap_socket(plain, server_side=True) as connection, connection.makefile("rb") as lines:
                pod = self._pod_of(json.loads(lines.readline())["token"])
                gate = self._gates[pod] = _Gate(connection)
                self._send(connection, {"type": "welcome"})
                for line in lines:
                    ask = json.loads(line)
                    gate.asks.append(ask)
                    granted = (pod, ask["container"]) in self._granted
                    answer = {"type": "granted" if granted else "wait", "container": ask["container"]}
                    self._send(connection, answer)
        except (OSError, ApiError, KeyError, ValueError) as error:
            self.refused.append(repr(error))

    def _pod_of(self, token: str) -> str:
        spec = {"token": token, "audiences": [AUDIENCE]}
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {}, "spec": spec}
        status = self._cluster.api.create(review)["status"]
        assert status.get("authenticated"), status
        return str(status["user"]["extra"][_POD][0])

    @staticmethod
    def _send(connection: ssl.SSLSocket, message: Mapping[str, object]) -> None:
        connection.sendall(json.dumps(message).encode() + b"\n")
