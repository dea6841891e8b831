"""What `throttler explain` says to people: the pod in a line, what is true of it, then each gated container."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slack.health.ages import duration

if TYPE_CHECKING:
    from rich.console import Console

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
            _container(out, container, shown["at_unix_seconds"], states)


def _head(shown: Json) -> str:
    where = f" on {shown['node']}" if shown["node"] else ""
    gated = [container for container in shown["containers"] if container["gated"]]
    states = [container["state"] or "not known" for container in gated]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    by = f" (backend {shown['backend']})" if shown["backend"] else ""
    return f"{shown['namespace']}/{shown['pod']}{where}: {counts or 'no gated container'}{by}"


def _container(out: "Console", container: Json, now: float, states: Mapping[str, str]) -> None:
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
