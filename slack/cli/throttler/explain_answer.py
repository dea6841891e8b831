"""What `throttler explain` answers: a document for programs, and the text for people that is made of it.

Names and reasons are without what a terminal would obey.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from slack.cli.throttler.status_document import printable, time
from slack.cluster.labels import API_VERSION
from slack.health.ages import duration

if TYPE_CHECKING:
    from rich.console import Console

    from slack.throttler.reports.pod_standing import ContainerStanding, PodStanding


def document(namespace: str, pod: str, told: "PodStanding", not_seen: Iterable[str], now: float) -> dict[str, Any]:
    """Return the answer for machines; the text is made of it too."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ThrottlerExplanation",
        "at_unix_seconds": round(now, 3),
        "namespace": printable(namespace),
        "pod": printable(pod),
        "node": None if told.node is None else printable(told.node),
        "backend": None if told.backend is None else told.backend.value,
        "agent": told.agent.value,
        "heard_unix_seconds": time(told.heard_at),
        "policy": None if told.policy is None else printable(told.policy),
        "slots": told.slots,
        "slots_taken": told.starting,
        "fail_open_after_seconds": told.fail_open_after_seconds,
        "reasons": [printable(reason) for reason in told.reasons],
        "containers": [_container_document(container) for container in told.containers],
        "not_seen": [printable(text) for text in not_seen],
    }


def _container_document(container: "ContainerStanding") -> dict[str, Any]:
    return {
        "name": printable(container.name),
        "gated": container.gated,
        "state": None if container.state is None else container.state.value,
        "since_unix_seconds": time(container.since),
        "position": container.position,
        "forced": container.forced,
        "depends_on": [printable(name) for name in container.depends_on],
        "reason": printable(container.reason),
        "ends": [{"text": printable(end.text), "at_unix_seconds": time(end.at)} for end in container.ends],
        "kubelet": printable(container.kubelet),
    }


Json = Mapping[str, Any]


def print_explanation(shown: Json, *, wide: bool) -> None:
    """Print it; `wide` adds containers that are not gated."""
    from slack.cli.terminal.console import console

    out = console()
    _line(out, _head(shown), "bold")
    if shown["agent"] == "reports":
        policy = f"policy {shown['policy']}" if shown["policy"] else "no policy"
        of = "no limit" if shown["slots"] is None else f"of {shown['slots']} that may"
        _line(out, f"  node      {policy}; {shown['slots_taken']} starting, {of}")
    for reason in shown["reasons"]:
        _line(out, f"  ! {reason}", "yellow")
    if shown["agent"] == "silent" and shown["heard_unix_seconds"] is not None:
        _line(out, f"  heard     {duration(shown['at_unix_seconds'] - shown['heard_unix_seconds'])} ago")
    for text in shown["not_seen"]:
        _line(out, f"  not seen  {text}", "dim")
    states = {container["name"]: container["state"] or "not known" for container in shown["containers"]}
    for container in shown["containers"]:
        if container["gated"] or wide:
            out.print()
            _print_container(out, container, shown["at_unix_seconds"], states)


def _head(shown: Json) -> str:
    where = f" on {shown['node']}" if shown["node"] else ""
    gated = [container for container in shown["containers"] if container["gated"]]
    states = [container["state"] or "not known" for container in gated]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    by = f" (backend {shown['backend']})" if shown["backend"] else ""
    return f"{shown['namespace']}/{shown['pod']}{where}: {counts or 'no gated container'}{by}"


def _print_container(out: "Console", container: Json, now: float, states: Mapping[str, str]) -> None:
    since = container["since_unix_seconds"]
    words = [container["state"] or ("not known" if container["gated"] else "not gated")]
    words += [f"for {duration(now - since)}"] if since is not None else []
    words += [f"place {container['position']} in the queue"] if container["position"] else []
    words += ["forced by minRate"] if container["forced"] else []
    _line(out, f"  {container['name']}  {', '.join(words)}", "bold")
    if container["reason"]:
        _line(out, f"    why       {container['reason']}")
    if container["depends_on"]:
        needed = (f"{name} ({states.get(name, 'not known')})" for name in container["depends_on"])
        _line(out, f"    needs     {', '.join(needed)}")
    for place, end in enumerate(container["ends"]):
        at = end["at_unix_seconds"]
        left = "" if at is None else f" (in {duration(at - now)})"
        _line(out, f"    {'or       ' if place else 'ends when'} {end['text']}{left}")
    if container["kubelet"]:
        _line(out, f"    kubelet   {container['kubelet']}")


def _line(out: "Console", text: str, style: str = "") -> None:
    out.print(text, style=style or None, markup=False, soft_wrap=True)
