"""Where the credentials come from: explicit flags, then KUBECONFIG, then the service account, then ~/.kube/config.

Everything the official loader would say with a traceback is said here in one sentence that names the file or the
context and what would be right. Contents of the files are never part of a message.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import yaml
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

from slack.cluster.yaml_bounds import UnboundedYaml, check_bounds
from slack.kube.connection import Connection, OnRequest
from slack.kube.errors import ConnectionFailed

_LONGEST_SHOWN = 80
_MOST_BYTES = 16 << 20
DEFAULT_KUBECONFIG = Path("~/.kube/config")


def connect(kubeconfig: Path | None, context: str | None, *, on_request: OnRequest | None = None) -> Connection:
    """A connection as the flags say; without flags as the surroundings say.

    Nothing is sent yet: `Connection.server_version` is the call that shows whether the server is there.

    Args:
        kubeconfig: `--kubeconfig`; wins over everything.
        context: `--context` in that file, in KUBECONFIG's files or in ~/.kube/config; never the service account.
        on_request: Counter of requests.

    Raises:
        ConnectionFailed: Naming the file or context, and what would be right.
    """
    configuration = Configuration()
    if kubeconfig is not None:
        _from_files(str(kubeconfig), context, configuration)
    elif os.environ.get("KUBECONFIG"):
        _from_files(os.environ["KUBECONFIG"], context, configuration)
    elif context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        try:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            _check_server("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT", configuration.host)
        except (ConfigException, OSError) as error:
            raise ConnectionFailed(
                f"in-cluster service account: {error} Mount its token, or give --kubeconfig"
            ) from error
    elif _is_there(DEFAULT_KUBECONFIG.expanduser()):
        _from_files(str(DEFAULT_KUBECONFIG.expanduser()), context, configuration)
    else:
        raise ConnectionFailed(
            "no cluster given: pass --kubeconfig FILE, set KUBECONFIG, create ~/.kube/config, or run in a pod"
        )
    return Connection(configuration, on_request=on_request)


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


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # a home that may not be looked into
        raise ConnectionFailed(f"kubeconfig {path}: cannot be read: {error.strerror}") from error


def _from_files(files: str, context: str | None, configuration: Configuration) -> None:
    contexts, current, users, servers = _read(files)
    wanted = context or current
    known = ", ".join(sorted(contexts)) or "none"
    if not wanted:
        raise ConnectionFailed(f"kubeconfig {files}: no current-context; pass --context (there are: {known})")
    if wanted not in contexts:
        raise ConnectionFailed(f"kubeconfig {files}: no context {wanted!r} (there are: {known})")
    user, cluster = contexts[wanted]
    if cluster in servers:
        _check_server(f"kubeconfig {files}: server of cluster {cluster!r}", servers[cluster])
    try:
        load_kube_config(  # type: ignore[no-untyped-call]
            files, context=wanted, client_configuration=configuration, persist_config=False
        )
    except (ConfigException, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        # the loader trusts the file's shape; ours was checked as far as names go
        raise ConnectionFailed(f"kubeconfig {files}, context {wanted!r}: {type(error).__name__}: {error}") from error
    credentials = users.get(user, {})
    if "exec" in credentials and not configuration.api_key and not configuration.cert_file:
        # the official client only logs this and goes on as anonymous, which ends in a puzzling 403
        plugin = credentials["exec"]
        command = plugin.get("command", "?") if isinstance(plugin, dict) else "?"
        raise ConnectionFailed(
            f"kubeconfig {files}, context {wanted!r}: the credential plugin {command!r} gave nothing; run it by hand"
        )


class _Kubeconfig(NamedTuple):
    """What is looked at before the official loader does; merged as kubectl does, the first one of a name wins."""

    contexts: dict[str, tuple[str, str]]
    """User and cluster, by name."""
    current: str
    users: dict[str, Mapping[str, object]]
    servers: dict[str, str]
    """By cluster, those that are texts."""


def _read(files: str) -> _Kubeconfig:
    contexts: dict[str, tuple[str, str]] = {}
    users: dict[str, Mapping[str, object]] = {}
    servers: dict[str, str] = {}
    current = ""
    paths = [Path(part).expanduser() for part in files.split(os.pathsep) if part]
    if not any(_is_there(path) for path in paths):
        raise ConnectionFailed(f"kubeconfig {files}: no such file")
    for path in (path for path in paths if _is_there(path)):
        try:
            with path.open("rb") as file:
                text = file.read(_MOST_BYTES + 1)
            if len(text) > _MOST_BYTES:
                raise ConnectionFailed(f"kubeconfig {path}: is longer than {_MOST_BYTES >> 20} MiB")
            check_bounds(text)
            document = yaml.safe_load(text)
        except OSError as error:
            raise ConnectionFailed(f"kubeconfig {path}: cannot be read: {error.strerror}") from error
        except UnboundedYaml as error:
            raise ConnectionFailed(f"kubeconfig {path}: {error}") from None
        except (yaml.YAMLError, ValueError) as error:
            raise ConnectionFailed(f"kubeconfig {path}: not YAML{_place(error)}") from error
        except RecursionError:
            raise ConnectionFailed(f"kubeconfig {path}: no kubeconfig (it is nested too deeply)") from None
        if not isinstance(document, dict):
            raise ConnectionFailed(f"kubeconfig {path}: no kubeconfig (a mapping with contexts was expected)")
        current = current or str(document.get("current-context") or "")
        for name, entry in _named(document, "contexts", "context", path):
            contexts.setdefault(name, (str(entry.get("user") or ""), str(entry.get("cluster") or "")))
        for name, entry in _named(document, "users", "user", path):
            users.setdefault(name, entry)
        for name, entry in _named(document, "clusters", "cluster", path):
            if isinstance(entry.get("server"), str):
                servers.setdefault(name, str(entry["server"]))
    return _Kubeconfig(contexts, current, users, servers)


def _named(document: dict[str, object], key: str, inner: str, path: Path) -> list[tuple[str, dict[str, object]]]:
    entries = document.get(key) or []
    if not isinstance(entries, list) or not all(
        isinstance(e, dict) and isinstance(e.get("name"), str) for e in entries
    ):
        raise ConnectionFailed(f"kubeconfig {path}: {key} must be a list of entries with a name")
    return [(e["name"], e[inner] if isinstance(e.get(inner), dict) else {}) for e in entries]


def _place(error: Exception) -> str:
    # only the place: a YAML error's own text quotes the line, which may be a token
    mark = getattr(error, "problem_mark", None)
    return f" (line {mark.line + 1})" if mark is not None else ""
