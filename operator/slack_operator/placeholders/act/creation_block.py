"""Stops a ReplicaSet controller that makes placeholders nobody wants: a ResourceQuota of none, for seconds.

A controller that was told to make 500 pods makes them all before it looks at the count again, and each may bring a
node; what it does look at is a refusal. The quota counts pods of the placeholders' PriorityClass in our namespace
only, so nothing else is refused. It goes as soon as nothing is beyond the plan and the controller has had time to
notice; one that an earlier process has left goes as well. A quota of its name that somebody else has made is left
alone. What becomes of the brake is nothing to the rest of a turn. Owned by the planning loop.
"""

import logging
from collections.abc import Callable, Collection

from slack.cluster.labels import CREATION_BLOCK, LABEL_MANAGED_BY, MANAGED_BY
from slack.kube.apply import Json, Writer
from slack.kube.errors import WRITE_FAILURES, ApiError
from slack.kube.paths import resource_path
from slack.process.logs import fields
from slack_operator.runtime.leading import NotLeading

log = logging.getLogger(__name__)

HOLD_SECONDS = 3.0
"""Requests that the controller has under way when it is refused end within that, at its usual rate."""
REFUSED_SECONDS = 5.0
"""Before a request that was refused is made again."""
AGAIN_SECONDS = 60.0
LONG_HOLD_SECONDS = 15.0
"""Where it had to be put on again within AGAIN_SECONDS: a controller with a slow client."""
LONGEST_SECONDS = 60.0
"""Refills wait while it is on, so never longer, and then not again for as long."""
_NONE = {"pods": "0"}


class CreationBlock:
    """See the module's docstring; `switch_block` is called in each reconciliation."""

    def __init__(
        self, writer: Writer, *, namespace: str, may_write: Callable[[], bool], clock: Callable[[], float]
    ) -> None:
        self._writer = writer
        self._namespace = namespace
        self._may_write = may_write
        self._clock = clock
        self._on: bool | None = None
        """None: nobody has looked yet."""
        self._uid: str | None = None
        """Of the quota that is on."""
        self._since = float("-inf")
        self._surplus_at = float("-inf")
        self._off_at = float("-inf")
        self._not_before = float("-inf")
        self._asked_again_at = float("-inf")
        self._hold = HOLD_SECONDS

    def switch_block(self, running_away: Collection[str], *, surplus: bool) -> bool:
        """Put it on or take it off; returns whether it is on, and soon to be taken off.

        Args:
            running_away: PriorityClasses of placeholders of which too many are being made.
            surplus: whether placeholders are pending beyond the plan.

        Raises:
            NotLeading: the gate is closed.
        """
        now = self._clock()
        if running_away or surplus:
            self._surplus_at = now
        if now < self._asked_again_at:
            return False
        try:
            self._turn(sorted(running_away), now)
        except WRITE_FAILURES as error:
            self._asked_again_at = now + REFUSED_SECONDS
            log.warning("the brake is refused: %s", error, extra=fields(name=CREATION_BLOCK))
            return False
        return bool(self._on)

    def _turn(self, running_away: list[str], now: float) -> None:
        if self._on is None:
            self._on = self._is_there()
        if running_away and not self._on and now >= self._not_before:
            self._hold = LONG_HOLD_SECONDS if now - self._off_at < AGAIN_SECONDS else HOLD_SECONDS
            self._put_on(running_away, now)
        elif self._on and (now - self._surplus_at >= self._hold or now - self._since >= LONGEST_SECONDS):
            self._not_before = now + LONGEST_SECONDS if now - self._since >= LONGEST_SECONDS else now
            self._take_off(now)

    def _is_there(self) -> bool:
        """Whether a brake is on; a quota of another form by this name is somebody else's."""
        try:
            found = self._writer.get(self._path)
        except ApiError as error:
            if not (error.not_found or error.status == 403):
                raise
            return False
        metadata, spec = found.get("metadata") or {}, found.get("spec") or {}
        ours = (metadata.get("labels") or {}).get(LABEL_MANAGED_BY) == MANAGED_BY and spec.get("hard") == _NONE
        self._uid = metadata.get("uid") if ours else None
        return ours

    def _put_on(self, priority_classes: list[str], now: float) -> None:
        self._check()
        collection = resource_path("v1", "resourcequotas", namespace=self._namespace)
        try:
            self._uid = self._writer.create(collection, quota(self._namespace, priority_classes))["metadata"]["uid"]
        except ApiError as error:
            # It may be there: by an earlier process, or by a first try whose answer was lost.
            if not (error.conflict and self._is_there()):
                self._not_before = now + LONGEST_SECONDS
                log.warning("the brake is refused: %s", error, extra=fields(name=CREATION_BLOCK))
                return
        self._on, self._since = True, now
        log.warning(
            "no placeholders are made for some seconds, for too many are under way", extra=fields(name=CREATION_BLOCK)
        )

    def _take_off(self, now: float) -> None:
        self._check()
        try:
            self._writer.delete(self._path, uid=self._uid)
        except ApiError as error:
            if not error.conflict:  # another one has its name by now
                raise
        self._on, self._off_at = False, now
        log.info("placeholders are made again", extra=fields(name=CREATION_BLOCK))

    def _check(self) -> None:
        if not self._may_write():
            raise NotLeading

    @property
    def _path(self) -> str:
        return resource_path("v1", "resourcequotas", namespace=self._namespace, name=CREATION_BLOCK)


def quota(namespace: str, priority_classes: list[str]) -> Json:
    """Return the ResourceQuota that admits no pod of these classes."""
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": priority_classes}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": CREATION_BLOCK, "namespace": namespace, "labels": {LABEL_MANAGED_BY: MANAGED_BY}},
        "spec": {"hard": dict(_NONE), "scopeSelector": {"matchExpressions": [scope]}},
    }
