"""What the gate is told, by its environment: the webhook writes it, or a person for a static pod."""

import os
from collections.abc import Mapping

PREFIX = "THROTTLER_"


class InvalidGateSettings(Exception):
    """A variable is missing or no good; the text names it."""


class GateSettings:
    """The gate's settings; a plain class, as what dataclasses import would be a tenth of the gate's memory."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Read them.

        Raises:
            InvalidGateSettings: naming the variable.
        """
        self._environment = environment
        self.agent_host = self._text("AGENT_HOST")
        self.agent_port = self._port("AGENT_PORT")
        self.server_name = self._text("AGENT_NAME")
        self.authority = self._text("AGENT_CA")
        self.containers = tuple(name for name in self._text("CONTAINERS").split(",") if name)
        self.fail_open_after = self._seconds("FAIL_OPEN_AFTER")
        self.doorbell_host = environment.get(f"{PREFIX}DOORBELL_HOST", "0.0.0.0")  # the kubelet asks
        self.doorbell_port = self._port("DOORBELL_PORT")
        self.folder = environment.get(f"{PREFIX}FOLDER", "/permits")
        self.static_pod = environment.get(f"{PREFIX}STATIC_POD", "")  # NAMESPACE/NAME, which no token tells then
        self.token_file = environment.get(f"{PREFIX}TOKEN_FILE", "/var/run/secrets/throttler/token")

    def _text(self, name: str) -> str:
        value = self._environment.get(PREFIX + name, "").strip()
        if not value:
            raise InvalidGateSettings(f"{PREFIX}{name}: needed")
        return value

    def _port(self, name: str) -> int:
        text = self._text(name)
        if not text.isdecimal() or not 0 < int(text) < 65_536:
            raise InvalidGateSettings(f"{PREFIX}{name}: {text!r} is no port (1 to 65535)")
        return int(text)

    def _seconds(self, name: str) -> float:
        text = self._text(name)
        try:
            seconds = float(text)
        except ValueError:
            seconds = -1.0
        if not 1.0 <= seconds < 86_400.0:
            raise InvalidGateSettings(f"{PREFIX}{name}: {text!r} is no number of seconds (1 to 86400)")
        return seconds


def from_environment() -> GateSettings:
    """Return this process's settings."""
    return GateSettings(os.environ)
