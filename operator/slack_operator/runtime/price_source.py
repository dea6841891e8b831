"""What nodes cost: what the operator was given, and what OpenCost knows beyond it, asked again each hour.

Given prices win. If OpenCost does not answer, the last prices stay, and the log says so once.
"""

import logging
import threading
from collections.abc import Callable, Iterator

import urllib3

from slack.cluster.node_prices import NO_PRICES, InvalidPrices, NodePrices
from slack.process.outages import Outages
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread
from slack_operator.runtime.opencost import opencost_prices

log = logging.getLogger(__name__)

TIMEOUT = urllib3.Timeout(connect=2.0, read=30.0)
FETCH_SECONDS = 180.0
"""A fetch that takes longer counts as stuck."""
AGAIN_SECONDS, RETRY_SECONDS = 3600.0, 60.0
MOST_BYTES = 256 << 20
"""OpenCost has a line for each container. Lines are read one by one, and few are kept."""
LONGEST_LINE_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 16


class PriceSource:
    """Prices of nodes. `prices` may be read from any thread."""

    def __init__(self, given: NodePrices | None, url: str | None, touch: Callable[[], None] = lambda: None) -> None:
        """Prices as they were given; with a URL, `start` begins to ask OpenCost.

        Args:
            given: by the operator's settings.
            url: of OpenCost's /metrics; None where it is not asked.
            touch: called when prices have changed.
        """
        self._given = NO_PRICES if given is None else given
        self._url = url
        self._touch = touch
        self._prices = self._given or NO_PRICES
        self._outages = Outages()
        self._http = urllib3.PoolManager(retries=False, timeout=TIMEOUT)
        self._ended = threading.Event()
        heart = Heartbeat("the thread that asks OpenCost for prices", FETCH_SECONDS)
        self._thread = SupervisedThread(self._run, name="prices", heart=heart)

    def prices(self) -> NodePrices:
        """Return the prices as they are known now."""
        return self._prices

    def unhealthy(self) -> str | None:
        """Return why OpenCost is no longer asked; None if it is."""
        return self._thread.unhealthy()

    def start(self) -> None:
        """Begin to ask; nothing without an address."""
        if self._url is not None:
            self._thread.start()

    def stop(self, timeout: float = 0.3) -> None:
        """End; nothing where it was never started. A request that hangs is left behind."""
        self._ended.set()
        self._thread.join(timeout)

    def fetch(self) -> bool:
        """Ask once; returns whether prices came."""
        try:
            found = opencost_prices(self._lines(), self._given.currency)
        except (urllib3.exceptions.HTTPError, InvalidPrices) as error:
            problem = f"{self._url}: {error}"
            if self._outages.is_new(problem):
                log.warning("prices stay as they are, for OpenCost gave none: %s", problem)
            return False
        self._outages.end()
        prices = self._given.completed_by(found)
        if prices != self._prices:
            self._prices = prices
            log.info("OpenCost has prices of %d instance types", len(found.instance_types))
            self._touch()
        return True

    def _lines(self) -> Iterator[str]:
        """Yield the lines of the answer, without holding all of it.

        Raises:
            InvalidPrices: it is no answer with 200, or too long.
        """
        answer = self._http.request("GET", str(self._url), redirect=False, preload_content=False)
        try:
            if answer.status != 200:
                raise InvalidPrices(f"the answer is {answer.status}")
            rest, read = b"", 0
            for chunk in answer.stream(_CHUNK_BYTES, decode_content=True):
                read += len(chunk)
                *whole, rest = (rest + chunk).split(b"\n")
                if read > MOST_BYTES or len(rest) > LONGEST_LINE_BYTES:
                    raise InvalidPrices(
                        f"the answer is longer than {MOST_BYTES >> 20} MiB, or has a line that is too long"
                    )
                yield from (line.decode(errors="replace") for line in whole)
            yield rest.decode(errors="replace")
        finally:
            answer.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            came = False
            try:
                came = self.fetch()
                self._thread.heart.worked()
            except Exception as error:
                log.exception("OpenCost could not be asked")
                self._thread.heart.failed(error)
            self._thread.heart.rest(self._ended, AGAIN_SECONDS if came else RETRY_SECONDS)
