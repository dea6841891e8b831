"""One broker: nats-server, built from Go modules, or Debian's redis-server; Kafka where `KAFKA` names its folder.

Usage:
    with NatsServer(folder) as server:
        broker = await open_message_queue(server.url)
        server.restart()        # its queues are on disk
"""

import os
import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from e2e.harness import build
from e2e.harness.errors import HarnessError
from e2e.harness.objects import wait_until
from e2e.harness.ports import LOOPBACK, free_port, is_listening
from e2e.harness.processes import Program

USER, PASSWORD = "worker", "a-Word-that-stays-secret"
READY_SECONDS = 20


class BrokerServer(ABC):
    """A server that keeps its address, and what it has stored, from one start to the next."""

    scheme = ""
    data = ""
    """What it has stored, in its folder."""

    def __init__(self, folder: Path, *, protected: bool = False) -> None:
        """Make its folder.

        Args:
            folder: of its data and log.
            protected: whether it wants `USER` and `PASSWORD`, which `credentials` holds.
        """
        self.port = free_port()
        self.folder = folder / f"{self.scheme}-{self.port}"
        self.folder.mkdir(parents=True)
        self.protected = protected
        self.credentials = self.folder / "credentials"
        self.credentials.write_text(f"{USER}:{PASSWORD}\n", encoding="utf-8")
        self.url = f"{self.scheme}://{LOOPBACK}:{self.port}"
        self.program = Program(self.scheme, self.command(), self.folder)

    @staticmethod
    @abstractmethod
    def missing() -> str | None:
        """Say why it cannot be had; None where it can."""

    @abstractmethod
    def command(self) -> list[str]:
        """Return how it is started."""

    def start(self) -> Self:
        """Start it, and wait until it serves."""
        self.program.start()
        self.program.wait_until_ready(lambda: is_listening(self.port), READY_SECONDS)
        return self

    def restart(self, *, killed: bool = False) -> None:
        """Stop it and start it again."""
        self.stop(killed=killed)
        self.start()

    def stop(self, *, killed: bool = False) -> None:
        """End it; its data stay."""
        if killed:
            self.program.kill()
        else:
            self.program.stop()
        wait_until(lambda: not is_listening(self.port), READY_SECONDS, f"{self.scheme} to be gone")

    def lose_all(self) -> None:
        """Kill it, and start it again without what it had stored."""
        self.stop(killed=True)
        shutil.rmtree(self.folder / self.data)
        self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.program.stop()


class NatsServer(BrokerServer):
    """NATS with JetStream."""

    scheme = "nats"
    data = "data"

    @staticmethod
    def missing() -> str | None:
        """Build it where it is not built yet."""
        try:
            build.ensure(["nats-server"])
        except HarnessError as error:
            return f"there is no nats-server: {str(error).splitlines()[0]}"
        return None

    def command(self) -> list[str]:
        """Write a configuration; the password is in no argument."""
        rights = f'authorization {{ user: "{USER}", password: "{PASSWORD}" }}' if self.protected else ""
        config = self.folder / "nats.conf"
        config.write_text(
            f'listen: "{LOOPBACK}:{self.port}"\njetstream {{ store_dir: "{self.folder}/data" }}\n{rights}\n',
            encoding="utf-8",
        )
        return [str(build.TOOLS["nats-server"].binary()), "-c", str(config)]


class RedisServer(BrokerServer):
    """Redis with its log of writes on disk."""

    scheme = "redis"
    data = "appendonlydir"

    @staticmethod
    def missing() -> str | None:
        """Look for Debian's."""
        return None if shutil.which("redis-server") else "there is no redis-server; on Debian: the package redis-server"

    def command(self) -> list[str]:
        """Write a configuration; the password is in no argument."""
        rights = f"user default off\nuser {USER} on >{PASSWORD} ~* &* +@all\n" if self.protected else ""
        config = self.folder / "redis.conf"
        config.write_text(
            f'bind {LOOPBACK}\nport {self.port}\ndir {self.folder}\nsave ""\nappendonly yes\n'
            f"appendfsync everysec\nmaxmemory 200mb\nmaxmemory-policy noeviction\n{rights}",
            encoding="utf-8",
        )
        return [str(shutil.which("redis-server")), str(config)]


KAFKA = os.environ.get("KAFKA")
"""A Kafka of one's own, HOST:PORT, that topics may be made in."""
SERVERS: tuple[type[BrokerServer], ...] = (NatsServer, RedisServer)
