"""What a Docker that has ended leaves in the kernel's packet filter, taken out again.

dockerd adds chains and rules to iptables and may set a policy, and takes none of them away when it stops. Only what is
new since the first look and bears Docker's marks goes: what somebody else has added meanwhile stays.
"""

import ipaddress
import itertools
import shlex
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from e2e.harness.docker import networks
from e2e.harness.errors import HarnessError

_CHAINS = "DOCKER"
_ADMINS_CHAIN = "DOCKER-USER"
"""Docker makes it, and what is in it is the admin's."""


@dataclass(frozen=True)
class Filter:
    """iptables at one moment: per table its chains with their policies, and its rules in their order."""

    chains: dict[str, dict[str, str]] = field(default_factory=dict)
    rules: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Marks:
    """By what the traces of our Docker are told from what others have added."""

    span: ipaddress.IPv4Network
    """All addresses of its networks."""
    others: frozenset[str]
    """Links that are not its bridges, whatever they are called."""
    shared: bool = False
    """Whether another dockerd runs, to which Docker's chains belong as well."""
    forwarded: bool = False
    """Whether the machine forwarded before: dockerd has FORWARD drop only where it turns forwarding on itself."""

    def on(self, rule: str) -> bool:
        """Say whether a rule that is new is Docker's."""
        words = shlex.split(rule)
        chain = words[1]
        option = {flag: value for flag, value in itertools.pairwise(words) if flag.startswith("-")}
        target = option.get("-j", "")
        if not self.shared and (target.startswith(_CHAINS) or (chain.startswith(_CHAINS) and chain != _ADMINS_CHAIN)):
            return True
        if any(self._is_ours(option.get(flag, "")) for flag in ("-i", "-o")):
            return True
        # For a published port, which a container reaches by the machine's address: this one names no bridge.
        return target == "MASQUERADE" and "! -s" not in rule and self._is_inside(option.get("-s", ""))

    def _is_inside(self, addresses: str) -> bool:
        try:
            return ipaddress.IPv4Network(addresses).subnet_of(self.span)
        except ValueError:  # none, or a mask that no network has
            return False

    def _is_ours(self, link: str) -> bool:
        return networks.is_bridge(link) and link not in self.others


def parse(saved: str) -> Filter:
    """Read what iptables-save(8) prints."""
    chains: dict[str, dict[str, str]] = {}
    rules: dict[str, list[str]] = {}
    table = ""
    for line in saved.splitlines():
        if line.startswith("*"):
            table = line[1:]
            chains[table], rules[table] = {}, []
        elif line.startswith(":"):
            name, policy, *_ = line[1:].split()
            chains[table][name] = policy
        elif line.startswith("-A "):
            rules[table].append(line)
    return Filter(chains, {name: tuple(lines) for name, lines in rules.items()})


def undoing(before: Filter, after: Filter, marks: Marks) -> str:
    """Return what iptables-restore(8) is to be given, with `--noflush`, to have Docker's part as it was `before`."""
    return "".join(f"*{table}\n{''.join(lines)}COMMIT\n" for table, lines in _by_table(before, after, marks) if lines)


def _by_table(before: Filter, after: Filter, marks: Marks) -> Iterator[tuple[str, list[str]]]:
    for table, chains in after.chains.items():
        there = before.chains.get(table, {})
        new = [name for name in chains if name.startswith(_CHAINS) and name not in there and not marks.shared]
        known = Counter(before.rules.get(table, ()))
        added = []
        for rule in after.rules[table]:
            if known[rule]:
                known[rule] -= 1
            elif rule.split()[1] not in new and marks.on(rule):  # those of a new chain go with it
                added.append(f"-D {rule.removeprefix('-A ')}\n")
        policy = _policy(table, chains, there, marks)
        yield table, [*policy, *added, *(f"-F {name}\n" for name in new), *(f"-X {name}\n" for name in new)]


def _policy(table: str, now: Mapping[str, str], before: Mapping[str, str], marks: Marks) -> list[str]:
    """Undo what dockerd does when it turns forwarding on (libnetwork's setupIPForwarding)."""
    was = before.get("FORWARD", "ACCEPT")
    dockers = table == "filter" and now.get("FORWARD") == "DROP" and not marks.forwarded and not marks.shared
    return [f":FORWARD {was}\n"] if dockers and was != "DROP" else []


def saved() -> str:
    """Return the packet filter as it is, for `parse`."""
    return _run("iptables-save")


def back_to(before: Filter, marks: Marks) -> None:
    """Take out what Docker has added since."""
    text = undoing(before, parse(saved()), marks)
    if text:
        _run("iptables-restore", "--noflush", text=text)


def _run(*command: str, text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        raise HarnessError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
