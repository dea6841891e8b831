"""How many different tokens of one client are reviewed first, and that nobody waits for those beyond that."""

import asyncio
import base64
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event

import pytest

from slack_operator.runtime.review_queue import (
    ADDRESS_BURST,
    ADDRESS_PER_SECOND,
    IDENTITY_BURST,
    IDENTITY_PER_SECOND,
    MOST_CLIENTS,
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
        count += pace.allow_review(address, identity)
    return count


def test_who_makes_tokens_at_will_is_beyond_the_pace_of_his_identity() -> None:
    clock = Clock()
    pace = ReviewPace(clock)
    assert taken(pace, clock, "10.0.0.1", "shop pod-1") <= IDENTITY_BURST + 3600 * IDENTITY_PER_SECOND + 1
    assert pace.allow_review("10.0.0.1", "slack agent-1"), "of another at the same address"
    assert pace.allow_review("10.0.0.2", "shop pod-1"), "what another claims to be costs nobody his pace"


def test_who_invents_identities_is_beyond_the_pace_of_his_address() -> None:
    clock = Clock()
    pace = ReviewPace(clock)
    count = 0
    for number in range(20_000):
        clock.now += 0.01
        count += pace.allow_review("10.0.0.1", f"identity {number}")
    assert count <= ADDRESS_BURST + 200 * ADDRESS_PER_SECOND + 1
    assert pace.allow_review("10.0.0.2", "slack agent-1")
    assert len(pace._identities._left) <= MOST_CLIENTS
    assert not pace.allow_review("10.0.0.1", "one more")
    clock.now += 1.0
    assert pace.allow_review("10.0.0.1", "one more")


def test_all_gates_of_a_node_come_at_once_by_one_address() -> None:
    pace = ReviewPace(Clock())
    assert all(pace.allow_review("10.0.0.1", f"shop pod-{number}") for number in range(500))


def test_tokens_beyond_the_pace_wait_for_all_others_and_never_have_all_reviewers() -> None:
    judged: list[str] = []
    hold = Event()

    async def main() -> None:
        burst = asyncio.Semaphore(0)
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(4) as executor:
            queue: ReviewQueue[None] = ReviewQueue(executor, 4)

            def ask(subject: str, number: int = 0) -> "asyncio.Task[None]":
                def judge() -> None:
                    hold.wait(10 if subject == "stranger" and number >= IDENTITY_BURST else 0)
                    judged.append(subject)
                    loop.call_soon_threadsafe(burst.release)

                return asyncio.create_task(queue.judge(token(subject, "u1", number), "10.0.0.1", judge))

            tasks = [ask("stranger", number) for number in range(200)]
            for _ in range(IDENTITY_BURST):
                await burst.acquire()
            await asyncio.wait_for(ask("agent"), 5)
            assert judged == ["stranger"] * IDENTITY_BURST + ["agent"], "nothing of the stranger's is in the way"
            hold.set()
            await asyncio.gather(*tasks)
        assert len(judged) == 201, "one review a token, and none is refused"

    asyncio.run(main())


@pytest.mark.parametrize("claims", [True, False])
def test_a_valid_token_is_soon_judged_beside_a_flood_from_its_address(claims: bool) -> None:
    """From one address, with the same claims or with none, nothing tells a valid token from an invented one."""
    judged: list[str] = []

    async def main() -> None:
        with ThreadPoolExecutor(4) as executor:
            queue: ReviewQueue[None] = ReviewQueue(executor, 4)

            async def ask(number: int) -> None:
                one = token("agent", f"u{number}", number) if claims else f"opaque-{number}"
                await queue.judge(one, "10.0.0.1", partial(judged.append, one), likely=claims)

            await asyncio.gather(*(ask(number) for number in range(ADDRESS_BURST)))
            flood = [asyncio.create_task(ask(ADDRESS_BURST + number)) for number in range(300)]
            await asyncio.sleep(0)
            await ask(-1)
            assert len(judged) <= ADDRESS_BURST + 16, "it is the newest, which comes first in turn"
            await asyncio.gather(*flood)

    asyncio.run(main())


@pytest.mark.parametrize(
    "text", ["", "opaque", "a.b.c", "e30.W10.x", "e30.eyJzdWIiOjF9.x", "e30.eyJrdWJlcm5ldGVzLmlvIjpbXX0.x"]
)
def test_what_claims_nothing_has_no_identity(text: str) -> None:
    assert identity_of(text) == ""
    assert pod_uid_of(claims_of(text)) == ""
    assert kept_seconds(text, 0.0) == 600.0
