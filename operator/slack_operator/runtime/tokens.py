"""Bearer tokens of Kubernetes: what they claim, unverified, and answers about them that are kept for a bounded time.

Nothing here trusts a claim: claims decide on order, pace and how long an answer is kept, never on who may do what. No
token is stored, only its hash.
"""

import base64
import binascii
import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

T = TypeVar("T")
KEPT_SECONDS = 600.0
"""The longest that an accepted token is kept: within this time an account that was deleted counts for nothing."""
REFUSED_SECONDS = 30.0
"""A refusal is kept for less: an account may be made, or a pod seen, a moment later."""


class TokenAnswers(Generic[T]):
    """Answers by token; any thread may call. If too many are kept, the oldest is forgotten."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: OrderedDict[bytes, tuple[T, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, token: str) -> T | None:
        """Return the answer about a token; None if none is kept."""
        with self._lock:
            found = self._answers.get(token_hash(token))
        return found[0] if found is not None and self._clock() < found[1] else None

    def put(self, token: str, answer: T, seconds: float) -> None:
        """Keep an answer for some seconds."""
        key, until = token_hash(token), self._clock() + max(0.0, seconds)
        with self._lock:
            self._answers[key] = answer, until
            self._answers.move_to_end(key)
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)


def token_hash(token: str) -> bytes:
    """Return what stands for a token in memory."""
    return hashlib.sha256(token.encode()).digest()


def claims_of(token: str) -> Mapping[str, Any]:
    """Return what a JSON Web Token claims, unverified; nothing if it is none."""
    parts = token.split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (IndexError, ValueError, RecursionError, binascii.Error):
        return {}
    return claims if isinstance(claims, dict) else {}


def pod_uid_of(claims: Mapping[str, Any]) -> str:
    """Return the uid of the pod that a token claims to be bound to; '' if it names none."""
    bound = claims.get("kubernetes.io")
    pod = bound.get("pod") if isinstance(bound, dict) else None
    uid = pod.get("uid") if isinstance(pod, dict) else None
    return uid if isinstance(uid, str) else ""


def identity_of(token: str) -> str:
    """Return whom a token claims to be of: its account and pod; '' if it claims nothing."""
    claims = claims_of(token)
    subject = claims.get("sub")
    return f"{subject} {pod_uid_of(claims)}" if isinstance(subject, str) and subject else ""


def kept_seconds(token: str, unix_seconds: float) -> float:
    """Return for how long the API server's acceptance of a token is kept: not beyond the token's end."""
    try:
        left = float(claims_of(token)["exp"]) - unix_seconds
    except (KeyError, TypeError, ValueError, OverflowError):
        left = KEPT_SECONDS
    return max(0.0, min(KEPT_SECONDS, left))
