"""`demand proxy`: what stands beside a user's container, or in its place, and takes messages for it."""

import os
from pathlib import Path

from slack.cli.inputs.process_command import process_command
from slack_operator.demand.proxy.settings import DemandProxySettings


@process_command(DemandProxySettings)
def proxy(flags: dict[str, object], config: Path | None) -> None:
    """Pull messages of a queue, a message a free slot, have them run, and ack them after the run.

    At least once: a message whose run is not acked is given to another. SIGTERM drains: it pulls no more, finishes, and
    ends with 0. Each flag is also an environment variable, such as RESOURCE_SLACK_DEMAND_PROXY_BROKER_URL, and a key of
    --config.

    [bold]Examples[/bold]

        resource-slack demand proxy --broker-url nats://127.0.0.1:4222 --queues act.media.thumbnail.256

        resource-slack demand proxy --broker-url redis://127.0.0.1 --queues act.media.thumbnail.256 --mode process \
          --command 'python3 -m thumbnail'
    """
    from slack.process.settings import load

    load(DemandProxySettings, flags, os.environ, file=config)  # so that mistakes are told here, as everywhere
    from slack_operator.demand.proxy.process import become

    become(flags, config)
