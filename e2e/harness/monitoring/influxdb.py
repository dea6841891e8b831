"""A real InfluxDB (Debian's), with figures as telegraf writes them."""

import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from e2e.harness.objects import wait_until
from e2e.harness.ports import LOOPBACK, free_port, is_listening
from e2e.harness.processes import Program

MISSING = None if shutil.which("influxd") else "there is no influxd here; on Debian: the package influxdb"
"""Why suites skip; None where it is there."""


@contextmanager
def influxdb(folder: Path) -> Iterator[str]:
    """Run one with an empty database `telegraf`; yields its address."""
    http, rpc = free_port(), free_port()
    config = f"""
bind-address = "{LOOPBACK}:{rpc}"
reporting-disabled = true
[meta]
  dir = "{folder}/meta"
[data]
  dir = "{folder}/data"
  wal-dir = "{folder}/wal"
[http]
  bind-address = "{LOOPBACK}:{http}"
"""
    path = folder / "influxdb.conf"
    path.write_text(config, encoding="utf-8")
    program = Program("influxd", [str(shutil.which("influxd")), "-config", str(path)], folder)
    program.start()
    try:
        wait_until(lambda: is_listening(http), 60, "influxd to listen", program.log_tail)
        address = f"http://{LOOPBACK}:{http}"
        wait_until(lambda: _has_database(address), 30, "the database telegraf to be there", program.log_tail)
        yield address
    finally:
        program.stop()


def write_shares(
    address: str,
    shares: Mapping[str, tuple[float, float]],
    times: Iterable[int],
    memory_swings: Mapping[str, float] | None = None,
) -> None:
    """Write shares of CPU and memory by node at these Unix seconds.

    CPU goes up and down by a percent, memory by what is given for its node.
    """
    lines = []
    for name, (cpu, memory) in shares.items():
        for at in times:
            noise = 1 if at // 10 % 2 else -1
            lines.append(f"cpu,cpu=cpu-total,host={name} usage_idle={100 * (1 - cpu) + noise - 1} {at}")
            lines.append(f"cpu,cpu=cpu0,host={name} usage_idle=0 {at}")
            swing = noise * (memory_swings or {}).get(name, 0.0)
            lines.append(f"mem,host={name} used_percent={100 * (memory + swing)} {at}")
    _post(f"{address}/write?db=telegraf&precision=s", "\n".join(lines))


def _has_database(address: str) -> bool:
    """Create the database where it is absent; one that has only just begun to listen may say yes and do nothing."""
    _post(f"{address}/query", urllib.parse.urlencode({"q": "CREATE DATABASE telegraf"}))
    return "telegraf" in _post(f"{address}/query", urllib.parse.urlencode({"q": "SHOW DATABASES"}))


def _post(url: str, body: str) -> str:
    with urllib.request.urlopen(urllib.request.Request(url, data=body.encode()), timeout=30) as answer:
        assert answer.status in (200, 204)
        told: bytes = answer.read()
    return told.decode()
