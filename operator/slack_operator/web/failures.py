"""Wrong tokens: each answer to one is held back, and the log has one line an interval for all of them.

Who has the right token is never held back by those who guess: a lock-out would hand them the page's off switch. Guesses
are slow and few at a time; what keeps them from ever being right is the length of the token. Owned by the server's
event loop, and of the same size however many there are.
"""

import asyncio
import logging

from slack.process.logs import fields

log = logging.getLogger(__name__)

WRONG_TOKEN_SECONDS = 0.5
"""How long the answer to a wrong token is held back."""
MAX_HELD = 16
"""Answers held back at a time; more wrong tokens are told to come again."""
LOG_SECONDS = 60.0


class TokenFailures:
    """Counts wrong tokens. Only for use in a running event loop."""

    def __init__(self) -> None:
        self._held = 0
        self._unlogged = 0
        self._peer = ""
        self._quiet: asyncio.TimerHandle | None = None

    async def hold(self, peer: str) -> bool:
        """Take one wrong token, and wait as its answer must; False when there are too many to wait."""
        self._unlogged += 1
        self._peer = peer
        if self._quiet is None:
            self._log()
        if self._held >= MAX_HELD:
            return False
        self._held += 1
        try:
            await asyncio.sleep(WRONG_TOKEN_SECONDS)
        finally:
            self._held -= 1
        return True

    def _log(self) -> None:
        """Log what has come since the last line, and again after an interval in which more came."""
        self._quiet = None
        if self._unlogged:
            log.warning("web page: a wrong token was given", extra=fields(times=self._unlogged, last_peer=self._peer))
            self._unlogged = 0
            self._quiet = asyncio.get_running_loop().call_later(LOG_SECONDS, self._log)
