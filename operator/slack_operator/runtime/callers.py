"""Who sends a report, and about which node it may speak: bearer tokens, judged by the API server's TokenReview.

A caller must be the agents' service account, with a token for our audience that is bound to a pod; it may report only
on the node of that pod. Where the API server does not say the node (before 1.32 it may not), the pods view does.
Answers are kept by the token's hash until the token ends or ten minutes are over. No token is ever logged or stored.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slack.kube.connection import Connection
from slack.kube.errors import KubeError
from slack.kube.paths import resource_path
from slack_operator.runtime.tokens import REFUSED_SECONDS, TokenAnswers, claims_of, kept_seconds

MAX_KEPT = 20_000
MAX_REFUSED = 4096
"""Refusals are kept apart from callers: invented tokens push out no caller."""
MAX_TOKEN_CHARACTERS = 16_384
_NODE, _POD, _POD_UID = (f"authentication.kubernetes.io/{name}" for name in ("node-name", "pod-name", "pod-uid"))


class CallerRefused(Exception):
    """A request that is not served; the text is for the caller's log and has no secrets."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Caller:
    """An agent that the API server knows."""

    pod: str
    node: str


NodeOf = Callable[[str, str, str], str | None]
"""Namespace, name and uid of a pod to its node, None when it is not known."""


class Callers:
    """Answers `who`, from any thread."""

    def __init__(
        self,
        connection: Connection,
        account: str,
        audience: str,
        node_of: NodeOf | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Nobody is known yet.

        Args:
            connection: to the API server.
            account: the agents' user name, `system:serviceaccount:NAMESPACE:NAME`.
            audience: whom their tokens are for.
            node_of: asked where the token does not say the node; None: whoever is of the account may call, its token
                need not be bound to a pod, and its node is nobody's business.
            clock: monotonic seconds.
            wall: Unix seconds, for the end of tokens.
        """
        self._connection = connection
        self._account = account
        self._audience = audience
        self._node_of = node_of
        self._wall = wall
        self._kept = TokenAnswers[Caller](MAX_KEPT, clock)
        self._refused = TokenAnswers[CallerRefused](MAX_REFUSED, clock)

    def known(self, token: str) -> Caller | None:
        """Return who it is if that is known already, without asking anybody.

        Raises:
            Refused: it is known that the token is no good.
        """
        found = self._kept.get(token)
        if found is None and (refused := self._refused.get(token)) is not None:
            raise CallerRefused(refused.status, str(refused))
        return found

    def expects(self, token: str) -> bool:
        """Return whether a token claims to be one that is accepted. Claims are not verified: they decide on order."""
        claims = claims_of(token)
        audiences = claims.get("aud")
        expires = claims.get("exp")
        return (
            claims.get("sub") == self._account
            and isinstance(audiences, list)
            and self._audience in audiences
            and isinstance(expires, int | float)
            and expires > self._wall()
        )

    def who(self, token: str) -> Caller:
        """Return who sends this token.

        Raises:
            Refused: 401 or 403 with the reason, 503 when the API server cannot be asked.
        """
        known = self.known(token)
        if known is not None:
            return known
        try:
            caller = self._review(token)
        except CallerRefused as refusal:
            if refusal.status != 503:
                self._refused.put(token, CallerRefused(refusal.status, str(refusal)), REFUSED_SECONDS)
            raise
        self._kept.put(token, caller, kept_seconds(token, self._wall()))
        return caller

    def _review(self, token: str) -> Caller:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [self._audience]},
        }
        try:
            body = self._connection.request(
                "POST", resource_path("authentication.k8s.io/v1", "tokenreviews"), body=review, verb="create"
            )
        except KubeError as error:
            raise CallerRefused(503, f"the API server cannot be asked about the token: {error}") from None
        status: Mapping[str, Any] = json.loads(body).get("status") or {}
        if not status.get("authenticated") or self._audience not in (status.get("audiences") or ()):
            raise CallerRefused(401, f"the token is not valid for the audience {self._audience}")
        user = status.get("user") or {}
        name, extra = str(user.get("username", "")), user.get("extra") or {}
        if name != self._account:
            may = "may not look; tokens are taken" if self._node_of is None else "may not report; reports are taken"
            raise CallerRefused(403, f"{name} {may} from {self._account}")
        pod, uid = _first(extra, _POD), _first(extra, _POD_UID)
        if self._node_of is None:
            return Caller(pod, "")
        if not pod:
            raise CallerRefused(403, "the token is not bound to a pod; use a projected service account token")
        node = _first(extra, _NODE) or self._node_of(self._account.split(":")[2], pod, uid)
        if not node:
            raise CallerRefused(403, f"the node of pod {pod} is not known yet")
        return Caller(pod, node)


def bearer(header: str | None) -> str:
    """Return the token of an Authorization header.

    Raises:
        Refused: 401, there is none.
    """
    scheme, _, token = (header or "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN_CHARACTERS or not token.isascii():
        raise CallerRefused(401, "needs a bearer token: Authorization: Bearer TOKEN")
    return token


def _first(extra: Mapping[str, Any], key: str) -> str:
    values = extra.get(key) or ()
    return str(values[0]) if values else ""
