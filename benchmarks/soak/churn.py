"""Pods that come and go, as many as before in each turn: what the weeks of several companions have in common."""

from abc import ABC, abstractmethod
from collections import deque
from itertools import count
from random import Random
from typing import Final, Generic, TypeVar

TURN_SECONDS: Final = 600.0
P = TypeVar("P")


class Churn(ABC, Generic[P]):
    """The pods, and the time as it was told last."""

    turn_seconds = TURN_SECONDS

    def __init__(self, seed: int, most: int) -> None:
        """Begin without a pod; `most` of them are there at a time."""
        self._random = Random(seed)
        self._most = most
        self._now = 0.0
        self._cleared = False
        self._numbers = count()
        self._pods: deque[P] = deque()

    def clear(self, now_seconds: float) -> None:
        """Delete all pods, with what is there for them only."""
        self._now, self._cleared = now_seconds, True
        while self._pods:
            self._remove()

    def _change(self, now_seconds: float) -> None:
        """Let a pod come, and the oldest one go for it."""
        self._now = now_seconds
        if self._cleared:
            return
        self._add()
        if len(self._pods) > self._most:
            self._remove()

    def _clock(self) -> float:
        return self._now

    @abstractmethod
    def _add(self) -> None:
        """Let a pod come."""

    @abstractmethod
    def _remove(self) -> None:
        """Let the oldest pod go."""
