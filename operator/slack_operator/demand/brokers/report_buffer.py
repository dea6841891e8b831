"""Reports that came and were not read yet: bounded, and the oldest go first, for the newest says more."""

import asyncio
from collections import deque
from typing import Self

from slack.demand.broker import MAX_REPORT_BYTES, RawReport

_MOST = 10_000


class ReportBuffer:
    """Filled by a broker's callback, read by one reader, on one event loop."""

    def __init__(self, most: int = _MOST) -> None:
        self._reports: deque[RawReport] = deque(maxlen=most)
        self._wakes = asyncio.Event()
        self._closed = False
        self.dropped = 0
        """Too long, or pushed out."""

    def put(self, queue: str, body: bytes) -> None:
        """Keep a report until it is read."""
        if len(body) > MAX_REPORT_BYTES or self._closed:
            self.dropped += 1
            return
        self.dropped += len(self._reports) == self._reports.maxlen
        self._reports.append(RawReport(queue=queue, body=body))
        self._wakes.set()

    def close(self) -> None:
        """End the reader once it has read what is there."""
        self._closed = True
        self._wakes.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RawReport:
        while not self._reports:
            if self._closed:
                raise StopAsyncIteration
            self._wakes.clear()
            await self._wakes.wait()
        return self._reports.popleft()
