"""Settings of the load watcher: what cannot be meant is refused with the flag's name."""

from pathlib import Path

import pytest

from slack.process.settings import InvalidSettings, load
from slack.process.values import host_port
from slack_operator.loadwatcher.settings import LoadWatcherSettings, Provider
from tests.cases import run_for_each

_PROMETHEUS = {"provider": "prometheus", "address": "http://127.0.0.1:9090"}


def test_no_setting_is_needed_and_an_address_names_a_prometheus() -> None:
    assert load(LoadWatcherSettings, {}, {}).provider is Provider.METRICS_SERVER
    found = load(LoadWatcherSettings, {**_PROMETHEUS, "address": "https://prometheus.example:9090/prefix/"}, {})
    assert found.address == "https://prometheus.example:9090/prefix"
    assert host_port(found.api_listen) == ("127.0.0.1", 2020)


@run_for_each(
    ("flags", "words"),
    [
        ({"provider": "datadog"}, "--provider: should be 'metrics-server', 'prometheus' or 'influxdb', not 'datadog'"),
        ({"provider": "prometheus"}, "--address: needed with --provider prometheus"),
        ({**_PROMETHEUS, "address": "localhost:9090"}, "--address: 'localhost:9090' is no http or https address"),
        ({**_PROMETHEUS, "address": "http://:99999"}, "--address: "),
        ({**_PROMETHEUS, "address": "http://me:secret@host"}, "--address: should have no user"),
        ({**_PROMETHEUS, "address": 5}, "--address: 5 is no http"),
        ({"address": "http://127.0.0.1:9090"}, "--address: has no meaning with --provider metrics-server"),
        ({"match_nodes": "false"}, "--match-nodes: must be on with --provider metrics-server"),
        ({"sample_interval": "90s"}, "--sample-interval: must not be longer than --interval 60s"),
        ({"max_age": "100s"}, "--max-age: must be at least twice --interval 60s"),
        ({**_PROMETHEUS, "headers": "no colon"}, "--headers: should be lines such as"),
        ({**_PROMETHEUS, "headers": "a b: c"}, "--headers: 'a b' is no header"),
        ({**_PROMETHEUS, "headers": 7}, "--headers: should be lines such as"),
        ({**_PROMETHEUS, "node_label": "node-name"}, "--node-label: 'node-name' is no name of a label"),
        ({**_PROMETHEUS, "queries": "mine"}, "--queries: should be 'node-exporter' or 'upstream'"),
        ({**_PROMETHEUS, "format": "xml"}, "--format: should be 'proposal' or 'upstream'"),
        ({**_PROMETHEUS, "tls_cert_file": "a"}, "--tls-key-file: needed"),
        ({**_PROMETHEUS, "tls_key_file": "a"}, "--tls-cert-file: needed"),
        ({**_PROMETHEUS, "username": "me"}, "--token-file: needed, as --username is given"),
        ({"api_listen": "2020"}, "--api-listen: '2020' is no address"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_flag(flags: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        load(LoadWatcherSettings, flags, {})
    assert any(problem.startswith(words) for problem in caught.value.problems), caught.value.problems
    assert "secret" not in str(caught.value)


def test_headers_are_lines_or_a_mapping_of_the_file(tmp_path: Path) -> None:
    lines = {**_PROMETHEUS, "headers": "X-Scope-OrgID: a\n\nX-Other: b: c\n"}
    assert load(LoadWatcherSettings, lines, {}).headers == {"X-Scope-OrgID": "a", "X-Other": "b: c"}
    file = tmp_path / "settings.yaml"
    file.write_text("headers: {X-Scope-OrgID: a}\nmax-age: 4m\n")
    found = load(LoadWatcherSettings, dict(_PROMETHEUS), {}, file=file)
    assert (found.headers, found.max_age) == ({"X-Scope-OrgID": "a"}, 240.0)
