"""How many different tokens one client may have reviewed, and that nobody else waits for him."""

import asyncio
import base64
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from slack_operator.runtime.review_queue import (
    ADDRESS_BURST,
    ADDRESS_PER_SECOND,
    IDENTITY_BURST,
    IDENTITY_PER_SECOND,
    MOST_CLIENTS,
    QueueFull,
    ReviewPace,
    ReviewQueue,
)
from slack_operator.runtime.tokens import claims_of, identity_of, kept_seconds, pod_uid_of
from tests.operator.fakes import Clock


def token(subject: str, uid: str, number: int = 0) -> str:
    claims = {"sub": subject, "kubernetes.io": {"pod": {"uid": uid}}, "jti": number}
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.c2ln"


def taken(pace: ReviewPace, clock: Clock, address: str, identity: str, *, hours: int = 1) -> int:
    count = 0
    for _ in range(hours * 36_000):
        clock.now += 0.1
        count += pace.take(address, identity) == 0.0
    return count


def test_who_makes_tokens_at_will_is_slowed_down_to_the_pace_of_his_identity() -> None:
    clock = Clock()
    pace = ReviewPace(clock)
    assert taken(pace, clock, "10.0.0.1", "shop pod-1") <= IDENTITY_BURST + 3600 * IDENTITY_PER_SECOND + 1
    assert pace.take("10.0.0.1", "slack agent-1") == 0.0, "of another at the same address"
    assert pace.take("10.0.0.2", "shop pod-1") == 0.0, "what another claims to be costs nobody his pace"


def test_who_invents_identities_is_slowed_down_to_the_pace_of_his_address() -> None:
    clock = Clock()
    pace = ReviewPace(clock)
    count = 0
    for number in range(20_000):
        clock.now += 0.01
        count += pace.take("10.0.0.1", f"identity {number}") == 0.0
    assert count <= ADDRESS_BURST + 200 * ADDRESS_PER_SECOND + 1
    assert pace.take("10.0.0.2", "slack agent-1") == 0.0
    assert len(pace._identities._left) <= MOST_CLIENTS
    wait = pace.take("10.0.0.1", "one more")
    assert wait > 0.0
    clock.now += wait
    assert pace.take("10.0.0.1", "one more") == 0.0


def test_all_gates_of_a_node_come_at_once_by_one_address() -> None:
    pace = ReviewPace(Clock())
    assert all(pace.take("10.0.0.1", f"shop pod-{number}") == 0.0 for number in range(500))


def test_new_tokens_of_one_client_are_refused_before_they_cost_a_review() -> None:
    judged: list[str] = []

    async def main() -> int:
        refused = 0
        with ThreadPoolExecutor(2) as executor:
            queue: ReviewQueue[None] = ReviewQueue(executor, 2)
            for number in range(100):
                one = token("system:serviceaccount:shop:api", "u1", number)
                try:
                    await queue.judge(one, "10.0.0.1", partial(judged.append, one))
                except QueueFull as error:
                    refused += "too many different tokens" in str(error)
            agent = token("system:serviceaccount:slack:agent", "a1")
            await queue.judge(agent, "10.0.0.1", lambda: judged.append(agent))
        assert judged[-1] == agent
        return refused

    assert asyncio.run(main()) >= 100 - IDENTITY_BURST - 2
    assert len(judged) <= IDENTITY_BURST + 3


@pytest.mark.parametrize(
    "text", ["", "opaque", "a.b.c", "e30.W10.x", "e30.eyJzdWIiOjF9.x", "e30.eyJrdWJlcm5ldGVzLmlvIjpbXX0.x"]
)
def test_what_claims_nothing_has_no_identity(text: str) -> None:
    assert identity_of(text) == ""
    assert pod_uid_of(claims_of(text)) == ""
    assert kept_seconds(text, 0.0) == 600.0
