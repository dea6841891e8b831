"""Policy objects from the API server into `Desired`. kopf is used here and nowhere else.

kopf runs in a thread and event loop of its own, with its own registry and settings and one `on.event` handler: no
finalizer, no annotation, no Event is ever written by it. A plain list every 15 s stands behind it, because a kopf
watcher can die while the process lives (nolar/kopf#1145), because kopf has no "the list is whole" signal, and because a
list is what tells that the CRD is absent; kopf starts when the CRD appears.
"""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import kopf

from slack.kube.connection import Connection
from slack.kube.errors import ApiError, KubeError
from slack.kube.paths import resource_path
from slack.planner.policy import API_VERSION, KIND
from slack_operator.desired import Desired

log = logging.getLogger(__name__)

GROUP = API_VERSION.partition("/")[0]
PLURAL = "slackpolicies"
LIST_SECONDS = 15.0
ABSENT_SECONDS = 10.0
"""How soon a CRD that was installed later is found."""
ERROR_SECONDS = 2.0
CONFIRM_SECONDS = 5.0
"""How long the CRD must have been absent before that is believed."""
PAGE_SIZE = 500


@dataclass(frozen=True, slots=True)
class Kind:
    """Which objects are watched."""

    api_version: str
    kind: str
    plural: str
    without: str
    """What is said when there is no CRD of it."""

    @property
    def path(self) -> str:
        """The collection, cluster-wide."""
        return resource_path(self.api_version, self.plural)


SLACK_POLICY = Kind(
    API_VERSION,
    KIND,
    PLURAL,
    "there is no SlackPolicy CRD: the built-in policy is used; install the CRD to write policies",
)


def kopf_settings() -> kopf.OperatorSettings:
    """Give settings under which kopf only watches, and notices a dead watch (references/python-operator.md 2.2)."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True  # never look for a KopfPeering; two equals would freeze each other
    settings.posting.enabled = False  # we write our own Events
    settings.scanning.disabled = True  # no watch of CRDs and namespaces: fewer rights; the list finds the CRD
    settings.watching.server_timeout = 600
    settings.watching.connect_timeout = 5
    settings.watching.inactivity_timeout = 180  # bookmarks come every 121 s at the latest
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.persistence.finalizer = f"{GROUP}/never-used"  # were one ever added, it should say whose it is
    settings.queueing.worker_limit = 20
    settings.execution.max_workers = 4
    return settings


def hide_missing_crd() -> None:
    """Keep kopf's tracebacks of a 404 out of the log, but at debug level; may be called again.

    When the CRD is deleted under its watch, kopf logs the same 404 twice, from its watcher and from the task above it.
    The lister sees the same, says it in one line, and starts kopf again when the CRD is back.
    """
    for name in ("orchestration", "running"):
        logging.getLogger(f"kopf._core.reactor.{name}").addFilter(_worth_a_line)


def _worth_a_line(record: logging.LogRecord) -> bool:
    return not _is_missing_crd(record.exc_info[1] if record.exc_info else None) or logging.getLogger(
        "kopf"
    ).isEnabledFor(logging.DEBUG)


def _is_missing_crd(error: BaseException | None) -> bool:
    """Whether it is kopf's error for a 404; it watches nothing but our kind, and does not export the class."""
    return getattr(error, "status", None) == 404


def kopf_registry(desired: Desired[Any], connection: Connection, kind: Kind = SLACK_POLICY) -> kopf.OperatorRegistry:
    """Give a registry with the one handler and our own way to log in."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf_credentials(connection)

    group, _, version = kind.api_version.partition("/")

    @kopf.on.event(group, version, kind.plural, id=kind.kind.lower(), registry=registry)
    async def seen(event: Any, **_: Any) -> None:
        if event["type"] == "DELETED":
            desired.drop(event["object"])
        else:
            desired.apply(event["object"])

    return registry


def kopf_credentials(connection: Connection) -> kopf.ConnectionInfo:
    """Translate the connection's credentials, freshly read: kopf asks again after each 401."""
    credentials = connection.credentials()
    return kopf.ConnectionInfo(
        server=connection.host,
        ca_path=credentials.authority_path,
        insecure=not credentials.verify,
        scheme=credentials.scheme,
        token=credentials.token,
        certificate_path=credentials.certificate_path,
        private_key_path=credentials.key_path,
    )


class PolicySource:
    """Keeps `desired` equal to the objects of a kind, from two threads: the lister and kopf's."""

    def __init__(
        self,
        connection: Connection,
        desired: Desired[Any],
        clock: Callable[[], float] = time.monotonic,
        *,
        kind: Kind = SLACK_POLICY,
    ) -> None:
        self.crd_present = False
        self._kind = kind
        self._clock = clock
        self._absent_since: float | None = None
        self._connection = connection
        self._desired = desired
        self._stopping = threading.Event()
        self._absence_said = False
        self._lister: threading.Thread | None = None
        self._kopf: threading.Thread | None = None
        self._kopf_stop = threading.Event()

    def start(self) -> None:
        """Begin to list; kopf follows when there is a CRD to watch."""
        self._lister = threading.Thread(target=self._run, name="policies", daemon=True)
        self._lister.start()

    def stop(self, timeout: float = 5.0) -> None:
        """End both threads."""
        self._stopping.set()
        self._kopf_stop.set()
        for thread in (self._lister, self._kopf):
            if thread is not None:
                thread.join(timeout)

    @property
    def alive(self) -> bool:
        """Whether the lister runs, which restarts kopf when that has died."""
        return self._lister is None or self._lister.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            until = self._clock() + self.turn()
            while (left := until - self._clock()) > 0 and not self._stopping.wait(min(left, ERROR_SECONDS)):
                if self._kopf_died():
                    break  # its events are missed from here on: list at once

    def turn(self) -> float:
        """List once and look after kopf; returns the seconds until the next turn."""
        before = self._desired.events
        try:
            documents = self._list()
        except ApiError as error:
            if not error.not_found:
                log.warning("%s cannot be listed: %s", self._kind.plural, error)
                return ERROR_SECONDS
            # an API server that is just starting may not serve the CRD yet; believing it would cost all slack
            if self._absent_since is None:
                self._absent_since = self._clock()
            if self._clock() - self._absent_since < CONFIRM_SECONDS:
                return ERROR_SECONDS
            self.crd_present = False
            if not self._absence_said:
                self._absence_said = True
                log.info("%s", self._kind.without)
            self._stop_kopf()
            return ABSENT_SECONDS if self._desired.replace_all((), events_before=self._desired.events) else 0.1
        except (KubeError, ValueError) as error:
            log.warning("%s cannot be listed: %s", self._kind.plural, error)
            return ERROR_SECONDS
        self.crd_present, self._absence_said, self._absent_since = True, False, None
        taken = self._desired.replace_all(documents, events_before=before)
        if taken and self._desired.changed_by_list and self._kopf is not None and self._kopf.is_alive():
            # seen with 1.45.2: after a 404 its watcher is dead and the operator goes on
            log.warning("kopf has missed a change of %s; starting it again", self._kind.plural)
            self._stop_kopf()
            self._kopf.join(ERROR_SECONDS)
        self._watch_with_kopf()
        return LIST_SECONDS if taken else 0.1

    def _list(self) -> list[dict[str, Any]]:
        documents: list[dict[str, Any]] = []
        token = ""
        while True:
            query = {"limit": PAGE_SIZE, "continue": token}
            body = self._connection.request("GET", self._kind.path, query=query, verb="list")
            page = json.loads(body)
            # items of a list carry neither apiVersion nor kind
            documents += [
                {"apiVersion": self._kind.api_version, "kind": self._kind.kind} | item for item in page["items"]
            ]
            token = page.get("metadata", {}).get("continue") or ""
            if not token:
                return documents

    def _kopf_died(self) -> bool:
        return self._kopf is not None and not self._kopf.is_alive() and not self._kopf_stop.is_set()

    def _watch_with_kopf(self) -> None:
        if self._stopping.is_set() or (self._kopf is not None and self._kopf.is_alive()):
            return
        if self._kopf_died():
            log.warning("kopf's watcher of %s had ended; starting it again", self._kind.plural)
        self._kopf_stop = threading.Event()
        self._kopf = threading.Thread(target=self._run_kopf, args=(self._kopf_stop,), name="kopf", daemon=True)
        self._kopf.start()

    def _run_kopf(self, stop: threading.Event) -> None:
        # it warns that signals are not its business outside the main thread, which is what we want
        logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
        hide_missing_crd()
        try:
            asyncio.run(
                kopf.operator(
                    registry=kopf_registry(self._desired, self._connection, self._kind),
                    settings=kopf_settings(),
                    clusterwide=True,
                    stop_flag=stop,
                )
            )
        except Exception as error:
            if not stop.is_set() and not _is_missing_crd(error):
                log.exception("kopf ended")

    def _stop_kopf(self) -> None:
        self._kopf_stop.set()
