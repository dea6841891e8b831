"""Gates of static pods: they can have no service account token, so the node itself vouches for them.

The agent keeps a secret in a folder that only root of the node can read, anew with each boot. A static pod, whose
manifest only root of the node can write, mounts that folder, and its gate says the secret and its pod's name. That
speaks for mirror pods of this node alone: for all others there is the API server.
"""

import contextlib
import hmac
import logging
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

from slack_operator.throttler.agent.gate_server import Judge, NotLetIn

log = logging.getLogger(__name__)

PREFIX: Final = "static:"
"""Begins what such a gate says in a token's place: static:NAMESPACE/NAME:SECRET."""
FOLDER: Final = "static"
FILE: Final = "token"
_BYTES = 32


class StaticPods:
    """Judges what gates say they are; tokens go to another judge."""

    def __init__(self, tokens: Judge, folder: Path, find: Callable[[str, str], str | None]) -> None:
        """Nothing is written yet.

        Args:
            tokens: judges service account tokens.
            folder: of the secret; static pods mount it.
            find: the uid of this node's mirror pod of that namespace and name.
        """
        self._tokens = tokens
        self._path = folder / FILE
        self._find = find
        self._secret = ""

    def prepare(self) -> None:
        """Find the secret of an agent before this one, or make one."""
        with contextlib.suppress(OSError, UnicodeDecodeError):
            self._secret = self._path.read_text(encoding="ascii").strip()
        if len(self._secret) >= _BYTES:
            return
        self._secret = ""
        made = secrets.token_urlsafe(_BYTES)
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.parent.chmod(0o700)  # the kubelet may have made it for a static pod
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(made)
        except OSError as error:
            log.warning("static pods cannot say who they are: %s: %s", self._path, error.strerror)
            return
        self._secret = made

    def __call__(self, token: str) -> str:
        """Return the uid of the pod that a gate speaks for.

        Raises:
            NotLetIn: with the reason.
        """
        if not token.startswith(PREFIX):
            return self._tokens(token)
        who, _, secret = token.removeprefix(PREFIX).rpartition(":")
        if not self._secret or not hmac.compare_digest(secret.encode(), self._secret.encode()):
            raise NotLetIn("the node's secret for static pods is another one")
        namespace, _, name = who.partition("/")
        uid = self._find(namespace, name)
        if uid is None:
            raise NotLetIn("no mirror pod of that name is known on this node yet")
        return uid
