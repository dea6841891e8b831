"""What the throttler's controller can be told, and what it says to what is no good."""

import pytest

from slack.process.settings import InvalidSettings, load
from slack_operator.throttler.controller.settings import ThrottlerControllerSettings
from tests.cases import run_for_each

GATES = {"gate_image": "slack:1", "agent_ca_file": "ca.crt"}


def test_gates_must_be_told_their_image_and_whom_to_trust() -> None:
    found = load(ThrottlerControllerSettings, dict(GATES), {"POD_NAMESPACE": "ours"})
    assert (found.namespace, found.agent_port, found.fail_open_after) == ("ours", 7472, 60.0)


def test_resources_of_gates_are_amounts_by_flag_or_by_file() -> None:
    found = load(ThrottlerControllerSettings, {**GATES, "gate_requests": "cpu=10m, memory=32Mi"}, {})
    assert (found.gate_requests, found.gate_limits) == ({"cpu": "10m", "memory": "32Mi"}, None)


@run_for_each(
    ("flags", "said"),
    [
        ({}, ["--gate-image: needed: it goes into every gate", "--agent-ca-file: needed"]),
        ({**GATES, "tls_cert_file": "tls.crt"}, ["--tls-key-file: needed: certificate and key go together"]),
        ({**GATES, "webhook_listen": "0.0.0.0:8443"}, ["--tls-cert-file: needed, as --webhook-listen 0.0.0.0:8443"]),
        ({**GATES, "webhook_client_ca_file": "api.crt"}, ["--webhook-client-ca-file: needs --tls-cert-file"]),
        ({**GATES, "agent_port": "0"}, ["--agent-port: should be a port"]),
        ({**GATES, "agent_name": "Agent"}, ["--agent-name: 'Agent' is no DNS name"]),
        ({**GATES, "gate_requests": "cpu=1x"}, ["--gate-requests: cpu: '1x' is not a quantity such as 500m"]),
        ({**GATES, "gate_requests": "gpu=1"}, ["--gate-requests: 'gpu' is not one of cpu, memory, ephemeral-storage"]),
        ({**GATES, "gate_limits": "cpu=0"}, ["--gate-limits: cpu: must be above 0"]),
        ({**GATES, "gate_limits": "cpu=1,cpu=2"}, ["--gate-limits: 'cpu=1,cpu=2' names a resource twice"]),
        (
            {**GATES, "gate_requests": "cpu=200m,memory=1Mi", "gate_limits": "cpu=0.1"},
            ["--gate-requests: cpu=200m is more than --gate-limits cpu=0.1"],
        ),
        ({**GATES, "fail_open_after": "0s"}, ["--fail-open-after: must be at least 1s"]),
        ({**GATES, "gate_image_pull_policy": "Often"}, ["--gate-image-pull-policy: should be 'Always',"]),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_flag(flags: dict[str, object], said: list[str]) -> None:
    with pytest.raises(InvalidSettings) as problem:
        load(ThrottlerControllerSettings, flags, {})
    assert len(problem.value.problems) == len(said)
    for text, part in zip(problem.value.problems, said, strict=True):
        assert text.startswith(part)
