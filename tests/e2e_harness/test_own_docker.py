"""What the harness's own Docker decides without a Docker: capabilities, addresses, and what it leaves in the filter."""

import ipaddress
import json
from pathlib import Path

import pytest

from e2e.harness.docker.firewall import parse, undoing
from e2e.harness.docker.own_daemon import free_span
from e2e.harness.errors import UnavailableError
from e2e.kindnode.bounded_runc import bounded, file_of

BEFORE = """\
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:MINE - [0:0]
-A INPUT -i lo -j MINE
COMMIT
"""
AFTER = """\
*nat
:PREROUTING ACCEPT [5:60]
:DOCKER - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A DOCKER -i slack-docker0 -j RETURN
COMMIT
*filter
:INPUT ACCEPT [12:99]
:FORWARD DROP [0:0]
:DOCKER-USER - [0:0]
:MINE - [0:0]
-A INPUT -i lo -j MINE
-A FORWARD -j DOCKER-USER
-A DOCKER-USER -j RETURN
COMMIT
"""


def test_what_docker_added_to_the_packet_filter_goes_and_what_was_there_stays() -> None:
    assert undoing(parse(BEFORE), parse(AFTER)).splitlines() == [
        "*nat",
        "-D PREROUTING -m addrtype --dst-type LOCAL -j DOCKER",
        "-F DOCKER",
        "-X DOCKER",
        "COMMIT",
        "*filter",
        ":FORWARD ACCEPT",
        "-D FORWARD -j DOCKER-USER",
        "-F DOCKER-USER",
        "-X DOCKER-USER",
        "COMMIT",
    ]


def test_nothing_is_undone_where_nothing_was_added() -> None:
    assert undoing(parse(AFTER), parse(AFTER)) == ""


def test_a_rule_that_was_there_once_and_is_there_twice_goes_once() -> None:
    twice = BEFORE.replace("-A INPUT -i lo -j MINE\n", "-A INPUT -i lo -j MINE\n" * 2)
    assert undoing(parse(BEFORE), parse(twice)).count("-D INPUT -i lo -j MINE") == 1


def test_the_addresses_are_the_first_that_no_route_touches() -> None:
    spans = ("172.30.96.0/20", "172.29.96.0/20")
    assert free_span(spans, ["192.0.2.0/24", "fd00::/64"]) == ipaddress.IPv4Network(spans[0])
    assert free_span(spans, ["172.30.100.0/24"]) == ipaddress.IPv4Network(spans[1])
    with pytest.raises(UnavailableError, match="no addresses for containers"):
        free_span(spans, ["172.16.0.0/12"])


def test_a_privileged_process_is_not_given_what_runc_has_not() -> None:
    asked = {
        "capabilities": {"bounding": ["CAP_SYS_ADMIN", "CAP_SYS_RESOURCE"], "ambient": None},
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1048576, "soft": 1048576}],
        "oomScoreAdj": -998,
        "args": ["sleep"],
    }
    assert bounded(asked) == {"capabilities": {"bounding": ["CAP_SYS_ADMIN"], "ambient": []}, "args": ["sleep"]}
    assert bounded({"args": ["true"], "oomScoreAdj": 100}) == {"args": ["true"], "oomScoreAdj": 100}


def test_the_process_is_found_where_docker_puts_it(tmp_path: Path) -> None:
    flags = ["--root", "/run/exec/runc", "--log", str(tmp_path / "log.json"), "--log-format", "json"]
    bundle = tmp_path / "config.json"
    bundle.write_text(json.dumps({"process": {}}))
    assert file_of([*flags, "create", "--bundle", str(tmp_path), "--pid-file", "x", "id"]) == (bundle, True)
    assert file_of([*flags, "run", f"--bundle={tmp_path}", "id"]) == (bundle, True)
    assert file_of([*flags, "exec", "--process", "/tmp/process1", "--detach", "id"]) == (Path("/tmp/process1"), False)
    assert file_of([*flags, "exec", "id", "true"]) is None
    assert file_of([*flags, "delete", "--force", "id"]) is None
