"""A gate's connection for those who are no gate: it is made before they go on."""

import select
import time

from slack_operator.throttler.gate.agent_link import CONNECT_SECONDS, AgentLink, LinkDown


class ConnectedLink(AgentLink):
    """A connection on which the agent knows already who we are."""

    def __init__(
        self, host: str, port: int, server_name: str, authority: str, token_file: str, static_pod: str = ""
    ) -> None:
        """Connect, and wait for it.

        Raises:
            LinkDown: it did not come to that.
        """
        super().__init__(host, port, server_name, authority, token_file, static_pod)
        until = time.monotonic() + CONNECT_SECONDS
        try:
            while not self.established:
                own = [self.socket]
                read, write = ([], own) if self.writes else (own, [])
                if not any(select.select(read, write, [], max(0.0, until - time.monotonic()))):
                    raise LinkDown("no connection in time")
                self.advance()
        except LinkDown:
            self.close()
            raise
