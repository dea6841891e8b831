"""Addresses of brokers in the chart: those that the controller takes, and no others."""

import json
import re
from pathlib import Path
from typing import Any

from slack.demand.broker import BrokerRefused
from slack.demand.broker_kind import KIND_OF_SCHEME
from slack_operator.demand.brokers.broker_url import parse_broker_url
from tests.cases import run_for_each

CHART = Path(__file__).parents[2] / "charts" / "resource-slack"
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
DEMAND: dict[str, Any] = SCHEMA["properties"]["demand"]["properties"]
URL: str = DEMAND["broker"]["properties"]["url"]["pattern"]
SCHEMES = tuple(KIND_OF_SCHEME)
VALUES = {"ca": "/etc/ca/ca.crt", "prefix": "act.media.", "replicas": "3", "db": "3", "group": "workers", "user": "me"}


def taken(url: str) -> bool:
    try:
        parse_broker_url(url)
    except BrokerRefused:
        return False
    return True


@run_for_each("scheme", SCHEMES)
@run_for_each("name", VALUES)
def test_a_query_has_the_keys_that_the_controller_knows(scheme: str, name: str) -> None:
    asked = f"{name}={VALUES[name]}"
    for url in (
        f"{scheme}://host:4222?{asked}",
        f"{scheme}://host/?{asked}&{asked}",
        f"{scheme}://host?{asked}&other=1",
    ):
        assert bool(re.search(URL, url)) == taken(url), url
    assert {key for scheme, kind in KIND_OF_SCHEME.items() for key in kind.schemes[scheme]} < set(VALUES)


@run_for_each(
    "url",
    [
        *(f"{scheme}://host{rest}" for scheme in SCHEMES for rest in ("", ":1234", "/", "/0", ":1,other:2", "?")),
        *(f"{scheme}://me:word@host" for scheme in SCHEMES),
        "nats://[fd00::1]:4222",
        "nats://one:4222,two:4222,three:4222?replicas=3",
        "http://host",
        "host:4222",
    ],
)
def test_an_address_is_one_that_the_controller_takes(url: str) -> None:
    if not url.endswith("?"):  # an empty query is none, and nobody writes it
        assert bool(re.search(URL, url)) == taken(url)


def test_without_a_controller_nothing_is_decided() -> None:
    assert DEMAND["controller"]["properties"]["replicas"]["minimum"] == 1
    assert re.search(URL, ""), "the template says that it is needed"
