"""Parsers of settings: what is said of one kind of value is said for each setting that takes it."""

from collections.abc import Callable

import pytest

from slack.process.settings import declared_settings
from slack.process.values import HTTP_SCHEMES, controller_url, load_watcher_url, split_url
from slack_operator.demand.controller_settings import broker_url
from slack_operator.loadwatcher.settings import LoadWatcherSettings

provider_url = next(found.parse for found in declared_settings(LoadWatcherSettings) if found.name == "address")
URLS: dict[str, tuple[Callable[[object], object], str]] = {
    "a load watcher": (load_watcher_url, "http"),
    "a controller": (controller_url("https://audit:8443"), "https"),
    "a provider": (provider_url, "http"),
    "a broker": (broker_url, "nats"),
}


@pytest.mark.parametrize(("parse", "scheme"), URLS.values(), ids=list(URLS))
@pytest.mark.parametrize(
    "rest", ["", "host:0", "host:70000", "host:port", "[::1", ":80", "a host", "host\x00"], ids=repr
)
def test_every_url_needs_a_host_that_can_be_asked(parse: Callable[[object], object], scheme: str, rest: str) -> None:
    assert parse(f"{scheme}://host:80") == f"{scheme}://host:80"
    with pytest.raises(ValueError, match=r"such as"):
        parse(f"{scheme}://{rest}")


@pytest.mark.parametrize(("parse", "scheme"), URLS.values(), ids=list(URLS))
@pytest.mark.parametrize("value", [None, 5, True, ["http://host"], "", "host:80", "amqp://host:80"])
def test_what_is_no_url_of_a_known_scheme_is_refused(
    parse: Callable[[object], object], scheme: str, value: object
) -> None:
    with pytest.raises(ValueError, match=r"such as"):
        parse(value)


def test_a_url_is_taken_apart_whatever_the_case_of_its_scheme() -> None:
    parts = split_url("HTTPS://Host:8443/path", HTTP_SCHEMES)
    assert parts is not None
    assert (parts.scheme, parts.hostname, parts.port, parts.path) == ("https", "host", 8443, "/path")


def test_a_line_end_after_the_url_of_a_controller_does_no_harm() -> None:
    assert controller_url("https://audit:8443")("https://audit:8443/\n") == "https://audit:8443"
