"""kopf, which watches objects of ours into `Desired`. It is used here and nowhere else.

It sees no pods and nodes: an event costs it 0.7 ms of CPU and an object tens of KiB, its indices grow with the square
of the objects, and handlers of deletions put finalizers on them. Our reflector reads those (`slack.kube`); of our own
objects there are few, and kopf's watch, its login and its reconnecting serve them well.

It runs in a thread and event loop of its own (`kopf_watch`), with its own registry and settings and one `on.event`
handler: no finalizer, no annotation, no Event is ever written by it.
"""

import threading
from typing import Any, cast

import kopf

from slack.cluster.labels import API_VERSION
from slack.kube.connection import Connection
from slack_operator.runtime.desired import Desired
from slack_operator.runtime.kopf_watch import Kind


def kopf_settings() -> kopf.OperatorSettings:
    """Give settings under which kopf only watches, and notices a dead watch."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True  # never look for a KopfPeering; two equals would freeze each other
    settings.posting.enabled = False  # we write our own Events
    settings.scanning.disabled = True  # no watch of CRDs and namespaces: fewer rights; the list finds the CRD
    settings.watching.server_timeout = 600
    settings.watching.connect_timeout = 5
    settings.watching.inactivity_timeout = 180  # bookmarks come every 121 s at the latest
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    # were a finalizer ever added, it should say whose it is
    settings.persistence.finalizer = f"{API_VERSION.partition('/')[0]}/never-used"
    settings.queueing.worker_limit = 20
    settings.execution.max_workers = 4
    return settings


def kopf_registry(desired: Desired[Any], connection: Connection, kind: Kind) -> kopf.OperatorRegistry:
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


async def watch(desired: Desired[Any], connection: Connection, kind: Kind, ending: threading.Event) -> None:
    """Watch until `ending` is set; it is set, too, if kopf ends by itself."""
    try:
        await kopf.operator(
            registry=kopf_registry(desired, connection, kind),
            settings=kopf_settings(),
            clusterwide=not kind.namespaces,
            namespaces=kind.namespaces,
            # Without one it asks for the user's name, and an image's number has none. Nobody peers here.
            identity=cast(Any, "resource-slack"),
            stop_flag=ending,
        )
    finally:
        ending.set()  # kopf waits for it in a worker thread, and asyncio waits for that one, for ever
