"""Opens a broker by its URL: as a source of lag, or as one whose messages are taken.

Usage:
    broker = await open_message_queue("nats://nats.media:4222", Path("/var/run/secrets/broker/credentials"))

The module beside this one that is named like the URL's kind opens it. It is loaded when a URL asks for it, for its
library is an extra.
"""

import importlib
from collections.abc import Awaitable, Callable
from pathlib import Path

from slack.demand.broker import BrokerRefused, LagSource, MessageQueue, message_queue_of
from slack_operator.demand.brokers.broker_url import BrokerUrl, parse_broker_url
from slack_operator.demand.brokers.credentials import BrokerCredentials, read_credentials

_OURS = ("slack", "slack_operator")


OpenBroker = Callable[[BrokerUrl, BrokerCredentials, str], Awaitable[LagSource]]
"""`open_broker` of a broker's module, with the name that the broker's own tools show.

The broker is a `MessageQueue` unless its kind is lag only. One that is not there is connected to once it is.
`BrokerRefused` says that the URL or the credentials are no good.
"""


async def open_lag_source(url: str, credentials_file: Path | None = None, *, name: str = "resource-slack") -> LagSource:
    """Open a broker, and wait a moment for its connection; one that is not there is connected to once it is.

    Args:
        url: as `parse_broker_url` takes it.
        credentials_file: see `credentials`.
        name: who we are, as the broker's own tools show it.

    Raises:
        BrokerRefused: the URL or the file is no good, or the broker's library is not installed.
    """
    parsed = parse_broker_url(url)
    credentials = read_credentials(credentials_file)
    try:
        module = importlib.import_module(f"slack_operator.demand.brokers.{parsed.kind}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in _OURS:
            raise
        raise BrokerRefused(
            f"broker URL: {parsed.scheme}:// needs a library that is not installed: "
            f"pip install 'resource-slack[{parsed.kind}]'"
        ) from None
    open_broker: OpenBroker = module.open_broker
    return await open_broker(parsed, credentials, name)


async def open_message_queue(
    url: str, credentials_file: Path | None = None, *, name: str = "resource-slack"
) -> MessageQueue:
    """Open a broker whose messages are taken; as `open_lag_source` otherwise.

    Raises:
        BrokerRefused: as `open_lag_source`, or only the broker's lag can be read.
    """
    return message_queue_of(await open_lag_source(url, credentials_file, name=name), "take messages")
