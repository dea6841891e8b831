"""What of the packet filter is Docker's, and so goes with it; what others have added meanwhile stays."""

import ipaddress
from dataclasses import replace

import pytest

from e2e.harness.docker import networks
from e2e.harness.docker.firewall import Marks, parse, undoing

OURS, THEIRS = "br-0123456789ab", "br-ba9876543210"
MARKS = Marks(ipaddress.IPv4Network("172.30.96.0/20"), frozenset({"eth0", "br-lan", THEIRS}))
BEFORE = """\
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:MINE - [0:0]
-A INPUT -i lo -j MINE
COMMIT
"""
AFTER = f"""\
*nat
:PREROUTING ACCEPT [5:60]
:POSTROUTING ACCEPT [0:0]
:DOCKER - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A POSTROUTING -s 172.30.104.0/24 ! -o {OURS} -j MASQUERADE
-A POSTROUTING -s 172.30.104.2/32 -d 172.30.104.2/32 -p tcp -m tcp --dport 6443 -j MASQUERADE
-A DOCKER -i slack-docker0 -j RETURN
COMMIT
*filter
:INPUT ACCEPT [12:99]
:FORWARD DROP [0:0]
:DOCKER-USER - [0:0]
:MINE - [0:0]
-A INPUT -i lo -j MINE
-A FORWARD -j DOCKER-USER
-A FORWARD -i {OURS} ! -o {OURS} -j ACCEPT
-A FORWARD -o slack-docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A DOCKER-USER -j RETURN
COMMIT
"""


def filter_with(*rules: str, chains: str = "") -> str:
    """What `BEFORE` is, with more at its end."""
    added = "".join(f"{rule}\n" for rule in rules)
    return BEFORE.replace("-A INPUT", f"{chains}-A INPUT").replace("COMMIT", f"{added}COMMIT")


def test_what_docker_added_to_the_packet_filter_goes_and_what_was_there_stays() -> None:
    assert undoing(parse(BEFORE), parse(AFTER), MARKS).splitlines() == [
        "*nat",
        "-D PREROUTING -m addrtype --dst-type LOCAL -j DOCKER",
        f"-D POSTROUTING -s 172.30.104.0/24 ! -o {OURS} -j MASQUERADE",
        "-D POSTROUTING -s 172.30.104.2/32 -d 172.30.104.2/32 -p tcp -m tcp --dport 6443 -j MASQUERADE",
        "-F DOCKER",
        "-X DOCKER",
        "COMMIT",
        "*filter",
        ":FORWARD ACCEPT",
        "-D FORWARD -j DOCKER-USER",
        f"-D FORWARD -i {OURS} ! -o {OURS} -j ACCEPT",
        "-D FORWARD -o slack-docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
        "-F DOCKER-USER",
        "-X DOCKER-USER",
        "COMMIT",
    ]


def test_nothing_is_undone_where_nothing_was_added() -> None:
    marks = replace(MARKS, forwarded=True)
    assert undoing(parse(AFTER), parse(AFTER), marks) == ""


@pytest.mark.parametrize(
    "rule",
    [
        "-A INPUT -s 203.0.113.7/32 -j DROP",
        "-A INPUT -j ufw-user-input",
        "-A FORWARD -i br-lan -j ACCEPT",
        f"-A FORWARD -i {THEIRS} -j ACCEPT",
        "-A FORWARD -s 172.30.97.0/24 -j DROP",
        "-A FORWARD -s 192.0.2.0/24 -j MASQUERADE",
        "-A FORWARD ! -s 172.30.96.0/20 -j MASQUERADE",
        "-A FORWARD -s 10.0.0.1/255.0.0.255 -j MASQUERADE",
        '-A INPUT -m comment --comment "not as -j DOCKER has it" -j ACCEPT',
    ],
)
def test_what_an_admin_added_meanwhile_stays(rule: str) -> None:
    after = filter_with(rule, chains=":ufw-user-input - [0:0]\n")
    assert undoing(parse(BEFORE), parse(after), MARKS) == ""


def test_an_admins_rule_in_the_chain_that_docker_leaves_to_him_stays_where_the_chain_was_there_before() -> None:
    chains = ":DOCKER - [0:0]\n:DOCKER-USER - [0:0]\n"
    after = filter_with(
        "-A DOCKER-USER -s 203.0.113.7/32 -j DROP", "-A DOCKER -p tcp -m tcp --dport 80 -j ACCEPT", chains=chains
    )
    undone = undoing(parse(filter_with(chains=chains)), parse(after), MARKS)
    assert undone.splitlines() == ["*filter", "-D DOCKER -p tcp -m tcp --dport 80 -j ACCEPT", "COMMIT"]


def test_the_policy_goes_back_only_where_docker_set_it() -> None:
    dropping = BEFORE.replace(":FORWARD ACCEPT", ":FORWARD DROP")
    assert undoing(parse(BEFORE), parse(dropping), MARKS) == "*filter\n:FORWARD ACCEPT\nCOMMIT\n"
    assert undoing(parse(BEFORE), parse(dropping), replace(MARKS, forwarded=True)) == ""
    admins = BEFORE.replace(":INPUT ACCEPT", ":INPUT DROP")
    assert undoing(parse(BEFORE), parse(admins), MARKS) == ""
    assert undoing(parse(dropping), parse(BEFORE), MARKS) == "", "one that an admin has opened stays open"


def test_with_another_docker_beside_it_only_what_names_its_own_networks_goes() -> None:
    undone = undoing(parse(BEFORE), parse(AFTER), replace(MARKS, shared=True))
    assert "DOCKER-USER" not in undone
    assert ":FORWARD" not in undone
    assert "-X" not in undone
    assert "-D DOCKER -i slack-docker0 -j RETURN" in undone
    assert f"-D FORWARD -i {OURS} ! -o {OURS} -j ACCEPT" in undone


def test_a_rule_that_was_there_once_and_is_there_twice_goes_once() -> None:
    rule = "-A FORWARD -i slack-docker0 -j ACCEPT"
    undone = undoing(parse(filter_with(rule)), parse(filter_with(rule, rule)), MARKS)
    assert undone.count("-D FORWARD -i slack-docker0 -j ACCEPT") == 1


def test_bridges_are_ours_by_name_and_addresses() -> None:
    now = {
        "eth0": ["192.0.2.1"],
        "slack-docker0": [],
        OURS: ["172.30.104.1"],
        THEIRS: ["172.18.0.1"],
        "br-lan": ["172.30.105.1"],
        "br-aaaaaaaaaaaa": ["172.30.106.1"],
    }
    ours, others = networks.ours(now, ["eth0", "br-aaaaaaaaaaaa"], MARKS.span)
    assert ours == [OURS, "slack-docker0"]
    assert others == {"eth0", THEIRS, "br-lan", "br-aaaaaaaaaaaa"}
