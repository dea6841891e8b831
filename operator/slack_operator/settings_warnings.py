"""Settings that are good and still cannot be meant: what is given and has no effect. Each is a warning, none an error.

The environment is not ours alone (Kubernetes writes variables for every Service, one of our name among them), so only
what comes close to a setting is told.
"""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from slack.process.settings import declared_settings, flag
from slack_operator.settings import OperatorSettings

_OTHERS = frozenset({"CONFIG", "CACHE", "DEBUG"})
"""Variables of ours that are no settings."""
_OF_A_SERVICE = re.compile(r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_.+)?)")
_CLOSE = 0.75
"""difflib's measure: a letter or two wrong in most of the names."""


def settings_warnings(settings: OperatorSettings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Name what was given and has no effect, and what was probably meant."""
    return (*_unread(settings), *_misspelt(environ))


def _unread(settings: OperatorSettings) -> Iterator[str]:
    for name in ("web_listen", "web_token_file"):
        if name in settings.given and not settings.web:
            yield f"{flag(name)} has no effect: the web page is off; add {flag('web')}"


def _misspelt(environ: Mapping[str, str]) -> Iterator[str]:
    known = {found.name.upper() for found in declared_settings(OperatorSettings)}
    prefix = OperatorSettings.prefix
    for variable in sorted(environ):
        name = variable.removeprefix(prefix)
        if name == variable or name in known | _OTHERS or _OF_A_SERVICE.fullmatch(name):
            continue
        nearest = _nearest(name.upper(), known)
        if nearest:
            yield f"{variable} is no setting and has no effect; is {prefix}{nearest} meant?"


def _nearest(name: str, known: set[str]) -> str:
    close = get_close_matches(name, sorted(known | _OTHERS - {"CACHE"}), n=1, cutoff=_CLOSE)
    parts = [setting for setting in sorted(known) if f"_{name}_" in f"_{setting}_"]  # MIN_RATE, LEADER
    return close[0] if close else parts[0] if len(parts) == 1 else ""
