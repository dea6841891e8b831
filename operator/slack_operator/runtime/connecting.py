"""The first word with an API server: a process that finds none at its start ends, later ones are asked for ever.

Apart from `process`, which knows kopf: who only watches does without.
"""

import logging
import threading

from slack.kube.connection import Connection, OnRequest
from slack.kube.deadline import Deadline
from slack.kube.errors import ApiError, ConnectionFailed, InvalidAnswer, KubeError
from slack.kube.kubeconfig import connect
from slack.process.logs import fields
from slack.process.running import CannotStart
from slack.process.shared_settings import ApiServerSettings

log = logging.getLogger(__name__)


def connected(settings: ApiServerSettings, on_request: OnRequest) -> Connection:
    """Connect to the API server, which must answer once; later it is asked for ever.

    Raises:
        CannotStart: nobody says where it is, it does not answer, or something else does.
    """
    try:
        connection = connect(settings.kubeconfig, settings.context, on_request=on_request)
    except ConnectionFailed as error:
        raise CannotStart(str(error)) from None
    must_answer(connection)
    return connection


def must_answer(connection: Connection) -> None:
    """Ask the API server who it is.

    Raises:
        CannotStart: it does not answer, or something else does.
    """
    connection.deadline = Deadline(f"the API server at {connection.address}", log.warning)
    try:
        log.info("connected", extra=fields(server=connection.host, version=connection.server_version()))
    except InvalidAnswer as error:
        raise CannotStart(f"cannot start: {connection.address}: {error}") from None
    except KubeError as error:
        raise CannotStart(f"cannot start: {connection.address}: {error}", exit_code=1) from None
    connection.deadline = None


def answers(connection: Connection, seconds: float) -> bool:
    """Return whether the API server answers within some seconds, whatever it says."""
    answered, done = threading.Event(), threading.Event()

    def ask() -> None:
        try:
            connection.request("GET", "/version", timeout=seconds)
            answered.set()
        except ApiError:
            answered.set()
        except KubeError as error:
            log.debug("no answer: %s", error)
        finally:
            done.set()

    threading.Thread(target=ask, name="one question", daemon=True).start()
    done.wait(seconds)
    return answered.is_set()
