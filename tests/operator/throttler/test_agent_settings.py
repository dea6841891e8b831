"""What the throttler's agent can be told, and what it says to what is no good."""

from pathlib import Path

import pytest

from slack.process.settings import InvalidSettings, load
from slack.process.values import host_port
from slack_operator.throttler.agent.settings import ThrottlerAgentSettings

PAIR = {"tls_cert_file": "tls.crt", "tls_key_file": "tls.key"}


def test_the_node_is_the_pod_s_and_only_certificate_and_key_must_be_told() -> None:
    found = load(ThrottlerAgentSettings, dict(PAIR), {"NODE_NAME": "node-1"})
    assert found.node_name == "node-1"
    assert host_port(found.gates_listen) == ("127.0.0.1", 7472)
    assert found.proc == Path("/proc")
    assert found.ca_file is None


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({}, ["--tls-cert-file: needed", "--tls-key-file: needed"]),
        ({"tls_cert_file": "tls.crt"}, ["--tls-key-file: needed: gates send their pods' tokens"]),
        ({**PAIR, "node": "Node_1"}, ["--node: 'Node_1' is no name of a node"]),
        ({**PAIR, "gates_listen": "7472"}, ["--gates-listen: '7472' is no address"]),
        ({**PAIR, "log_level": "loud"}, ["--log-level: should be"]),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_flag(flags: dict[str, object], said: list[str]) -> None:
    with pytest.raises(InvalidSettings) as problem:
        load(ThrottlerAgentSettings, flags, {})
    assert len(problem.value.problems) == len(said)
    for text, part in zip(problem.value.problems, said, strict=True):
        assert text.startswith(part)
