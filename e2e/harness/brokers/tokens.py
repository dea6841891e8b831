"""NATS in operator mode: an operator and an account that sign JWTs of users, as `nsc` does; and the server's file.

The form is that of github.com/nats-io/jwt version 2: header, claims and an Ed25519 signature, each in base64url.
"""

import base64
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import nkeys

_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}


def _key(prefix: int) -> tuple[nkeys.KeyPair, str]:
    seed = nkeys.encode_seed(os.urandom(32), prefix)
    return nkeys.from_seed(seed), bytes(seed).decode()


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _public(key: nkeys.KeyPair) -> str:
    found: bytes = key.public_key
    return bytes(found).decode()


def _signed(issuer: nkeys.KeyPair, subject: str, name: str, kind: dict[str, Any], expires_at: float | None) -> str:
    claims: dict[str, Any] = {"iat": int(time.time()), "iss": _public(issuer), "name": name, "sub": subject}
    if expires_at is not None:
        claims["exp"] = int(expires_at)
    claims["nats"] = {"version": 2, **kind}
    digest = hashlib.sha512(json.dumps(claims, sort_keys=True).encode()).digest()[:32]
    claims["jti"] = base64.b32encode(digest).decode().rstrip("=")
    text = f"{_encoded(json.dumps(_HEADER).encode())}.{_encoded(json.dumps(claims).encode())}"
    return f"{text}.{_encoded(issuer.sign(text.encode()))}"


class Account:
    """An operator with one account that may use JetStream."""

    def __init__(self) -> None:
        self._operator, _ = _key(nkeys.PREFIX_BYTE_OPERATOR)
        self._account, _ = _key(nkeys.PREFIX_BYTE_ACCOUNT)
        limits = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
        limits |= dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), -1) | {"wildcards": True}
        self._of_account = self._signed_account(self._account, "media", limits)
        self._system, _ = _key(nkeys.PREFIX_BYTE_ACCOUNT)
        self._of_system = self._signed_account(self._system, "system", dict.fromkeys(("subs", "conn", "data"), -1))
        self._of_operator = _signed(self._operator, _public(self._operator), "operator", {"type": "operator"}, None)

    def _signed_account(self, key: nkeys.KeyPair, name: str, limits: dict[str, Any]) -> str:
        return _signed(self._operator, _public(key), name, {"type": "account", "limits": limits}, None)

    def configuration(self) -> str:
        """Return what the server's file says of operator and account."""
        return (
            f"operator: {self._of_operator}\nsystem_account: {_public(self._system)}\nresolver: MEMORY\n"
            f"resolver_preload: {{\n{_public(self._account)}: {self._of_account}\n"
            f"{_public(self._system)}: {self._of_system}\n}}\n"
        )

    def write_user(self, file: Path, *, lasts_seconds: float | None) -> None:
        """Write credentials of a new user, valid for so long; None: for ever."""
        user, seed = _key(nkeys.PREFIX_BYTE_USER)
        rights = {"type": "user", "subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {}}
        expires_at = None if lasts_seconds is None else time.time() + lasts_seconds
        token = _signed(self._account, _public(user), "worker", rights, expires_at)
        new = file.with_suffix(".new")
        new.write_text(
            f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n",
            encoding="utf-8",
        )
        new.replace(file)  # in one step, as the kubelet does it
