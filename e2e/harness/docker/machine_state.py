"""How the machine was before the harness's Docker, in a file, so that the next run can put it back where one is killed.

It holds for the boot in which it was written. One that cannot be read is left aside, for it must not keep later runs
from starting; it is written in one step, so that this does not come of being killed.
"""

import ipaddress
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from e2e.harness.docker import firewall, folders, leftovers, networks, sysctls
from e2e.harness.errors import HarnessError
from slack.process.atomic_write import write_atomically

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Before(msgspec.Struct, frozen=True):
    """The machine before dockerd, and what tells dockerd's traces from what others have done since."""

    boot: str
    docker: str
    """The folder of the Docker that was to come."""
    span: str
    """The addresses that were to be its networks'."""
    links: list[str]
    packet_filter: str
    sysctls: dict[str, str]
    folders: list[str]


def taken(docker: Path, span: ipaddress.IPv4Network) -> Before:
    """Look at the machine as it is."""
    return Before(
        boot=_boot(),
        docker=str(docker),
        span=str(span),
        links=sorted(networks.links()),
        packet_filter=firewall.saved(),
        sysctls=sysctls.saved(),
        folders=folders.present(),
    )


def write(path: Path, before: Before) -> None:
    """Write it down."""
    write_atomically(path, msgspec.json.encode(before))


def read(path: Path) -> Before | None:
    """Return what was written down in this boot, if anything."""
    try:
        before = msgspec.json.decode(path.read_bytes(), type=Before)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        print(f"docker: {path} cannot be read, so nothing of it is put back: {error}", file=sys.stderr)
        return None
    return before if before.boot == _boot() else None


def put_back(before: Before) -> None:
    """Have the machine as it was, but for what others have changed; its Docker has ended.

    Where another dockerd runs by now, what it may rely on stays: chains, forwarding and folders.

    Raises:
        HarnessError: something could not be put back.
    """
    bridges, marks = _marks(before)
    failed = []
    steps: list[Callable[[], None]] = [partial(firewall.back_to, firewall.parse(before.packet_filter), marks)]
    steps += [partial(networks.delete, bridge) for bridge in bridges]
    steps.append(partial(_set_back, before, marks.shared))
    if not marks.shared:
        steps.append(partial(folders.remove_new, before.folders))
    for step in steps:
        try:
            step()
        except (HarnessError, OSError, subprocess.TimeoutExpired) as error:  # the others are still to be done
            failed.append(str(error))
    if failed:
        raise HarnessError(f"this machine is not as it was before the harness's Docker: {'; '.join(failed)}")


def _marks(before: Before) -> tuple[list[str], firewall.Marks]:
    """Return our bridges, and by what our traces in the packet filter are known."""
    span = ipaddress.IPv4Network(before.span)
    bridges, others = networks.ours(networks.links(), before.links, span)
    return bridges, firewall.Marks(
        span,
        others,
        shared=bool(leftovers.others(Path(before.docker))),
        forwarded=before.sysctls.get(sysctls.FORWARDING, "0").strip() != "0",
    )


def _set_back(before: Before, shared: bool) -> None:
    wanted = {name: value for name, value in before.sysctls.items() if not (shared and name.startswith("net/"))}
    failed = sysctls.put_back(wanted)
    if failed:
        raise HarnessError(f"settings of the kernel that would not be written: {', '.join(failed)}")


def _boot() -> str:
    return _BOOT.read_text(encoding="ascii").strip()
