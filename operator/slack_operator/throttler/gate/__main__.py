"""`python -m slack_operator.throttler.gate`: what the sidecar runs."""

import gc
import signal
import sys

from slack_operator.throttler.gate.gate import Gate
from slack_operator.throttler.gate.settings import InvalidGateSettings, from_environment


def main() -> int:
    """Run until SIGTERM; 2 when the settings or the doorbell's address are no good."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        settings = from_environment()
        gate = Gate(settings)
    except (InvalidGateSettings, OSError) as problem:
        print(problem, file=sys.stderr)
        return 2
    gc.freeze()
    while True:
        gate.run_next()


if __name__ == "__main__":
    sys.exit(main())
