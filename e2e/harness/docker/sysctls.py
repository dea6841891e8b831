"""Settings of the kernel that a Docker with kind's nodes in it changes for the whole machine, saved and put back.

dockerd turns on forwarding. A node's container is privileged and has the machine's `/proc/sys`, so what its kubelet
(its container manager's setupKernelTunables) and its kube-proxy set is set for all.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

ROOT = Path("/proc/sys")
# Forwarding stands first of the network's: the kernel sets it for each link when it is set for all, and for IPv4 it
# sets whether redirects are accepted, too (net/ipv4/devinet.c, inet_forward_change).
NAMES = (
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "net/ipv4/ip_forward",
    "net/ipv4/conf/*/forwarding",
    "net/ipv4/conf/*/accept_redirects",
    "net/ipv4/conf/*/route_localnet",
    "net/ipv6/conf/*/forwarding",
    "net/bridge/bridge-nf-call-*",
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_buckets",
    "net/netfilter/nf_conntrack_*timeout*",
)
FORWARDING = "net/ipv4/ip_forward"


def saved(root: Path = ROOT) -> dict[str, str]:
    """Return those settings of `NAMES` that are there, by name, in the order in which they are to be put back."""
    found = {}
    for path in _paths(root):
        with suppress(OSError):  # some can only be written, and a link may go while one looks
            found[str(path.relative_to(root))] = path.read_text(encoding="ascii")
    return found


def put_back(before: Mapping[str, str], root: Path = ROOT) -> list[str]:
    """Write what is not as before; returns the names of those that would not be written.

    What belongs to a link that is gone is left out.
    """
    failed = []
    for name, value in before.items():
        path = root / name
        try:
            if path.read_text(encoding="ascii") != value:
                path.write_text(value, encoding="ascii")
        except FileNotFoundError:
            continue
        except OSError as error:
            failed.append(f"{name} ({error.strerror})")
    return failed


def _paths(root: Path) -> Iterator[Path]:
    for name in NAMES:
        # What is for all links or for new ones comes before what is for one: it may overwrite that.
        yield from sorted(root.glob(name), key=lambda path: (path.parent.name not in ("all", "default"), path))
