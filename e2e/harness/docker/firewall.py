"""What a Docker that has ended leaves in the kernel's packet filter, taken out again.

dockerd adds chains and rules to iptables and a policy to FORWARD, and takes none of them away when it stops. What was
there before is left as it was: only what a second look finds beyond the first is removed.
"""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field

from e2e.harness.errors import HarnessError


@dataclass(frozen=True)
class Filter:
    """iptables at one moment: per table its chains with their policies, and its rules in their order."""

    chains: dict[str, dict[str, str]] = field(default_factory=dict)
    rules: dict[str, tuple[str, ...]] = field(default_factory=dict)


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


def undoing(before: Filter, after: Filter) -> str:
    """Return what iptables-restore(8) is to be given, with `--noflush`, to be back at `before`."""
    return "".join(f"*{table}\n{''.join(lines)}COMMIT\n" for table, lines in _by_table(before, after) if lines)


def _by_table(before: Filter, after: Filter) -> Iterator[tuple[str, list[str]]]:
    for table, chains in after.chains.items():
        there = before.chains.get(table, {})
        policies = [
            f":{name} {there.get(name, 'ACCEPT')}\n"
            for name, policy in chains.items()
            if policy not in ("-", there.get(name, "ACCEPT"))
        ]
        new = [name for name, policy in chains.items() if policy == "-" and name not in there]
        known = list(before.rules.get(table, ()))
        added = []
        for rule in after.rules[table]:
            if rule in known:
                known.remove(rule)
            elif rule.split()[1] not in new:  # those of a new chain go with it
                added.append(f"-D {rule.removeprefix('-A ')}\n")
        yield table, [*policies, *added, *(f"-F {name}\n" for name in new), *(f"-X {name}\n" for name in new)]


def saved() -> str:
    """Return the packet filter as it is, for `parse`."""
    return _run("iptables-save")


def back_to(before: Filter) -> None:
    """Take out what has been added since."""
    text = undoing(before, parse(saved()))
    if text:
        _run("iptables-restore", "--noflush", text=text)


def _run(*command: str, text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        raise HarnessError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
