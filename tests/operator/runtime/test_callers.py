"""Who may report, and about which node."""

import base64
import json
from typing import Any

import pytest

from slack.kube.errors import Unreachable
from slack_operator.runtime.callers import MAX_REFUSED, CallerRefused, Callers, bearer
from slack_operator.runtime.tokens import KEPT_SECONDS, REFUSED_SECONDS
from tests.operator.fakes import Clock

ACCOUNT = "system:serviceaccount:slack:agent"
NODE = "authentication.kubernetes.io/node-name"
POD = "authentication.kubernetes.io/pod-name"


class Reviews:
    """An API server that knows tokens."""

    def __init__(self) -> None:
        self.users: dict[str, Any] = {}
        self.asked: list[str] = []
        self.away = False

    def request(self, method: str, path: str, *, body: Any, verb: str) -> bytes:
        assert (method, path, verb) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", "create")
        assert body["spec"]["audiences"] == ["resource-slack-audit"]
        self.asked.append(body["spec"]["token"])
        if self.away:
            raise Unreachable("refused")
        user = self.users.get(body["spec"]["token"])
        status = {"authenticated": True, "audiences": ["resource-slack-audit"], "user": user} if user else {}
        return json.dumps({"status": status}).encode()


def user(name: str = ACCOUNT, node: str = "n1", pod: str = "agent-1") -> dict[str, Any]:
    extra = {key: [value] for key, value in ((NODE, node), (POD, pod)) if value}
    return {"username": name, "extra": extra}


@pytest.fixture
def reviews() -> Reviews:
    return Reviews()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def callers(reviews: Reviews, clock: Clock) -> Callers:
    nodes = {("slack", "agent-2"): "n2"}
    return Callers(
        reviews,  # type: ignore[arg-type]  # all that it is asked for
        ACCOUNT,
        "resource-slack-audit",
        lambda namespace, name, _: nodes.get((namespace, name)),
        clock=clock,
        wall=lambda: 5000.0,
    )


def refusal(callers: Callers, token: str) -> tuple[int, str]:
    with pytest.raises(CallerRefused) as found:
        callers.who(token)
    return found.value.status, str(found.value)


def test_a_token_says_the_node_and_is_asked_about_once(callers: Callers, reviews: Reviews, clock: Clock) -> None:
    reviews.users["good"] = user()
    assert callers.who("good").node == "n1"
    assert callers.who("good").node == "n1"
    assert reviews.asked == ["good"]
    clock.now += KEPT_SECONDS + 1
    callers.who("good")
    assert len(reviews.asked) == 2


def test_a_token_is_not_kept_beyond_its_end(callers: Callers, reviews: Reviews, clock: Clock) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 5060}).encode()).decode().rstrip("=")
    token = f"head.{claims}.tail"
    reviews.users[token] = user()
    callers.who(token)
    clock.now += 61
    del reviews.users[token]
    assert refusal(callers, token)[0] == 401


def test_where_the_api_server_does_not_say_the_node_the_pods_do(callers: Callers, reviews: Reviews) -> None:
    reviews.users["older"] = user(node="", pod="agent-2")
    assert callers.who("older").node == "n2"
    reviews.users["unknown"] = user(node="", pod="agent-3")
    assert refusal(callers, "unknown") == (403, "the node of pod agent-3 is not known yet")


def test_strangers_are_refused_with_the_reason(callers: Callers, reviews: Reviews) -> None:
    reviews.users |= {"other": user("system:serviceaccount:shop:api"), "unbound": user(node="", pod="")}
    assert refusal(callers, "bad") == (401, "the token is not valid for the audience resource-slack-audit")
    assert refusal(callers, "other") == (
        403,
        f"system:serviceaccount:shop:api may not report; reports are taken from {ACCOUNT}",
    )
    assert refusal(callers, "unbound")[0] == 403


def test_refusals_are_kept_for_a_moment_and_failures_to_ask_are_not(
    callers: Callers, reviews: Reviews, clock: Clock
) -> None:
    refusal(callers, "bad")
    refusal(callers, "bad")
    assert len(reviews.asked) == 1
    clock.now += REFUSED_SECONDS + 1
    reviews.away = True
    assert refusal(callers, "bad")[0] == 503
    reviews.away = False
    reviews.users["bad"] = user()
    assert callers.who("bad").node == "n1"


def test_refusals_are_bounded_and_push_out_no_caller(callers: Callers, reviews: Reviews) -> None:
    reviews.users["good"] = user()
    callers.who("good")
    for number in range(MAX_REFUSED + 5):
        with pytest.raises(CallerRefused):
            callers.who(str(number))
    assert len(callers._refused) == MAX_REFUSED
    assert callers.known("good") is not None


def test_an_invented_token_costs_one_review_and_claims_decide_on_the_order_only(
    callers: Callers, reviews: Reviews
) -> None:
    for _ in range(3):
        with pytest.raises(CallerRefused):
            callers.who("invented")
    assert reviews.asked == ["invented"]
    claims = {"sub": callers._account, "aud": [callers._audience], "exp": callers._wall() + 60}
    assert callers.expects(jwt(claims))
    assert not callers.expects(jwt(claims | {"exp": callers._wall() - 1}))
    assert not callers.expects(jwt(claims | {"sub": "system:serviceaccount:other:agent"}))
    assert not callers.expects(jwt(claims | {"aud": "all"}))
    assert not callers.expects("a.b.c")
    assert not callers.expects("opaque")


def jwt(claims: dict[str, object]) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.c2ln"


@pytest.mark.parametrize(
    "header", [None, "", "Basic abc", "Bearer", "Bearer   ", "Bearer \u00e4", "Bearer " + "x" * 20_000]
)
def test_a_header_without_a_token_is_401(header: str | None) -> None:
    with pytest.raises(CallerRefused) as found:
        bearer(header)
    assert found.value.status == 401
