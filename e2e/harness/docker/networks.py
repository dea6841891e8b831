"""The addresses and bridges of the harness's Docker: a span that nobody else has, and which bridges came with it."""

import ipaddress
import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence

from e2e.harness.errors import HarnessError, UnavailableError

BRIDGE = "slack-docker0"
SPANS = ("172.30.96.0/20", "172.29.96.0/20", "172.28.96.0/20", "10.213.96.0/20", "192.168.208.0/20")
"""Addresses for its networks: the first span that no route of this machine touches."""
_NAME = re.compile(r"br-[0-9a-f]{12}")
"""Docker calls a network's bridge by the first digits of its id."""


def is_bridge(name: str) -> bool:
    """Say whether a link has the name of a bridge of ours, or of a network of any Docker."""
    return name == BRIDGE or _NAME.fullmatch(name) is not None


def free_span(spans: Sequence[str], routes: Iterable[str]) -> ipaddress.IPv4Network:
    """Return the first of the spans that no route touches.

    Raises:
        UnavailableError: all of them are taken.
    """
    taken = [ipaddress.ip_network(route, strict=False) for route in routes]
    for text in spans:
        span = ipaddress.IPv4Network(text)
        if not any(isinstance(other, ipaddress.IPv4Network) and other.overlaps(span) for other in taken):
            return span
    raise UnavailableError(f"this machine has routes into all of {', '.join(spans)}: no addresses for containers")


def routes() -> list[str]:
    """Return the destinations of this machine's routes, but for those to everywhere."""
    found = json.loads(_ip("-json", "-4", "route", "show", "table", "all"))
    return [str(route["dst"]) for route in found if route["dst"] != "default"]


def links() -> dict[str, list[str]]:
    """Return each link of this machine with its IPv4 addresses."""
    found = json.loads(_ip("-json", "address", "show"))
    return {
        str(link["ifname"]): [str(address["local"]) for address in link["addr_info"] if address["family"] == "inet"]
        for link in found
    }


def ours(
    now: Mapping[str, Sequence[str]], before: Iterable[str], span: ipaddress.IPv4Network
) -> tuple[list[str], frozenset[str]]:
    """Tell bridges that came with our Docker from all other links.

    Args:
        now: each link with its addresses.
        before: the links that were there before our Docker.
        span: its addresses, by which its bridges differ from those of another Docker that was started meanwhile.

    Returns:
        Our bridges, and the names of what is not ours.
    """
    others = set(before) - {BRIDGE}
    for name, addresses in now.items():
        inside = any(ipaddress.IPv4Address(address) in span for address in addresses)
        if name != BRIDGE and not (is_bridge(name) and inside):
            others.add(name)
    return sorted(set(now) - others), frozenset(others)


def make_bridge(span: ipaddress.IPv4Network) -> None:
    """Make the bridge that dockerd is given, with the first address of the span."""
    _ip("link", "add", "name", BRIDGE, "type", "bridge")
    _ip("address", "add", f"{span.network_address + 1}/24", "dev", BRIDGE)
    _ip("link", "set", BRIDGE, "up")


def delete(link: str) -> None:
    """Take a bridge away."""
    _ip("link", "delete", link)


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=10, check=False)
    if done.returncode != 0:
        raise HarnessError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
