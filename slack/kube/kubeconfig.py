"""Where the credentials come from: explicit flags, then KUBECONFIG, then the service account, then ~/.kube/config.

Everything the official loader would say with a traceback is said here in one sentence that names the file or the
context and what would be right. Contents of the files are never part of a message.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import yaml
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

from slack.kube.connection import Connection, OnRequest
from slack.kube.errors import ConnectionFailed

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


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # a home that may not be looked into
        raise ConnectionFailed(f"kubeconfig {path}: cannot be read: {error.strerror}") from error


def _from_files(files: str, context: str | None, configuration: Configuration) -> None:
    contexts, current, users = _read(files)
    wanted = context or current
    known = ", ".join(sorted(contexts)) or "none"
    if not wanted:
        raise ConnectionFailed(f"kubeconfig {files}: no current-context; pass --context (there are: {known})")
    if wanted not in contexts:
        raise ConnectionFailed(f"kubeconfig {files}: no context {wanted!r} (there are: {known})")
    try:
        load_kube_config(  # type: ignore[no-untyped-call]
            files, context=wanted, client_configuration=configuration, persist_config=False
        )
    except (ConfigException, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        # the loader trusts the file's shape; ours was checked as far as names go
        raise ConnectionFailed(f"kubeconfig {files}, context {wanted!r}: {type(error).__name__}: {error}") from error
    user = users.get(contexts[wanted], {})
    if "exec" in user and not configuration.api_key and not configuration.cert_file:
        # the official client only logs this and goes on as anonymous, which ends in a puzzling 403
        command = user["exec"].get("command", "?") if isinstance(user["exec"], dict) else "?"
        raise ConnectionFailed(
            f"kubeconfig {files}, context {wanted!r}: the credential plugin {command!r} gave nothing; run it by hand"
        )


def _read(files: str) -> tuple[dict[str, str], str, dict[str, Mapping[str, object]]]:
    """Contexts with their user's name, the current context, users; merged as kubectl does, the first one wins."""
    contexts: dict[str, str] = {}
    users: dict[str, Mapping[str, object]] = {}
    current = ""
    paths = [Path(part).expanduser() for part in files.split(os.pathsep) if part]
    if not any(_is_there(path) for path in paths):
        raise ConnectionFailed(f"kubeconfig {files}: no such file")
    for path in (path for path in paths if _is_there(path)):
        try:
            document = yaml.safe_load(path.read_text())
        except OSError as error:
            raise ConnectionFailed(f"kubeconfig {path}: cannot be read: {error.strerror}") from error
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ConnectionFailed(f"kubeconfig {path}: not YAML{_place(error)}") from error
        except RecursionError:
            raise ConnectionFailed(f"kubeconfig {path}: no kubeconfig (it is nested too deeply)") from None
        if not isinstance(document, dict):
            raise ConnectionFailed(f"kubeconfig {path}: no kubeconfig (a mapping with contexts was expected)")
        current = current or str(document.get("current-context") or "")
        for name, entry in _named(document, "contexts", "context", path):
            contexts.setdefault(name, str(entry.get("user") or ""))
        for name, entry in _named(document, "users", "user", path):
            users.setdefault(name, entry)
    return contexts, current, users


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
