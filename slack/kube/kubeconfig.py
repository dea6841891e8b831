"""Where the credentials come from: explicit flags, then KUBECONFIG, then the service account, then ~/.kube/config.

Everything the official loader would say with a traceback is said here in one sentence that names the file or the
context and what would be right. Contents of the files are never part of a message.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

from slack.kube.access import ClusterAccess
from slack.kube.connection import Connection, OnRequest
from slack.kube.errors import ConnectionFailed
from slack.kube.kubeconfig_files import KubeconfigContext, find_files, is_service_account, read_kubeconfig

_LONGEST_SHOWN = 80
_OVERRIDE = "resource-slack-flags"
"""Name of the context that `--cluster`, `--user` and `--token` make."""


def connect(kubeconfig: Path | None, context: str | None, *, on_request: OnRequest | None = None) -> Connection:
    """Return a connection as two flags say; as `connect_with`."""
    return connect_with(ClusterAccess(kubeconfig, context), on_request=on_request)


def connect_with(access: ClusterAccess, *, on_request: OnRequest | None = None) -> Connection:
    """Return a connection as the flags say; without flags as the surroundings say.

    Nothing is sent yet: `Connection.server_version` is the call that shows whether the server is there.

    Args:
        access: A kubeconfig in it wins over everything; a context, cluster or user is never the service account.
        on_request: Counter of requests.

    Raises:
        ConnectionFailed: Naming the file or context, and what would be right.
    """
    configuration = Configuration()
    files = find_files(access)
    if files is not None:
        _from_files(files, access, configuration)
    elif is_service_account(access):
        try:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            _check_server("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT", configuration.host)
        except (ConfigException, OSError) as error:
            raise ConnectionFailed(
                f"in-cluster service account: {error} Mount its token, or give --kubeconfig"
            ) from error
    else:
        raise ConnectionFailed(
            "no cluster given: pass --kubeconfig FILE, set KUBECONFIG, create ~/.kube/config, or run in a pod"
        )
    if access.token is not None:
        configuration.api_key = {"BearerToken": f"Bearer {access.token}"}
        configuration.refresh_api_key_hook = None
        configuration.cert_file = configuration.key_file = None  # a certificate would win over the token
    return Connection(
        configuration,
        on_request=on_request,
        impersonate=_impersonation(access),
        request_seconds=access.request_timeout_seconds,
    )


def _impersonation(access: ClusterAccess) -> list[tuple[str, str]]:
    if access.as_user is None:
        if access.as_groups:
            raise ConnectionFailed("--as-group: needs --as USER; the API server impersonates no group alone")
        return []
    return [("Impersonate-User", access.as_user), *(("Impersonate-Group", group) for group in access.as_groups)]


def _check_server(source: str, server: str) -> None:
    """Refuse what is no address before a library meets it, with a warning or an error of its own."""
    try:
        parts = urlsplit(server)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # half an IPv6 address; a port that is no number, or beyond 65535
        good = False
    if not good:
        raise ConnectionFailed(f"{source}: {_short(server)!r} is no address such as https://10.0.0.1:6443")


def _short(server: str) -> str:
    place = server.rpartition("@")[2]  # what stands before it is a password
    return place if len(place) <= _LONGEST_SHOWN else f"{place[:_LONGEST_SHOWN]}..."


def _from_files(files: str, access: ClusterAccess, configuration: Configuration) -> None:
    merged = read_kubeconfig(files)
    wanted, context = merged.context(files, access)
    if context.cluster in merged.servers:
        _check_server(f"kubeconfig {files}: server of cluster {context.cluster!r}", merged.servers[context.cluster])
    overridden = access.cluster is not None or access.user is not None or access.token is not None
    try:
        with _overriding_context(files, context, access) if overridden else _as_it_is(files, wanted) as (paths, name):
            load_kube_config(  # type: ignore[no-untyped-call]  # the client has no types
                paths, context=name, client_configuration=configuration, persist_config=False
            )
    except (ConfigException, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        # the loader trusts the file's shape; ours was checked as far as names go
        raise ConnectionFailed(f"kubeconfig {files}, context {wanted!r}: {type(error).__name__}: {error}") from error
    credentials = merged.users.get(context.user, {})
    silent = not configuration.api_key and not configuration.cert_file
    if access.token is None and "exec" in credentials and silent:
        # the official client only logs this and goes on as anonymous, which ends in a puzzling 403
        plugin = credentials["exec"]
        command = plugin.get("command", "?") if isinstance(plugin, dict) else "?"
        raise ConnectionFailed(
            f"kubeconfig {files}, context {wanted!r}: the credential plugin {command!r} gave nothing; run it by hand"
        )


@contextmanager
def _as_it_is(files: str, name: str) -> Iterator[tuple[str, str]]:
    yield files, name


@contextmanager
def _overriding_context(files: str, context: KubeconfigContext, access: ClusterAccess) -> Iterator[tuple[str, str]]:
    """Yield the files with one more, which has a context of the names that the flags say; with a token without a user.

    The official loader takes a file and a context, and nothing in place of a part of it.
    """
    made = {"cluster": context.cluster} | ({} if access.token is not None else {"user": context.user})
    document = {"apiVersion": "v1", "kind": "Config", "contexts": [{"name": _OVERRIDE, "context": made}]}
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(document, file)
        file.flush()
        yield os.pathsep.join([files, file.name]), _OVERRIDE
