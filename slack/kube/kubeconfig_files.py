"""The kubeconfig files as they are written, merged as kubectl merges them; and the namespace of the current context.

The official loader reads them again for credentials. Here they are only looked into, without the client: for names in
messages, and for the default of `--namespace`. Contents are never part of a message.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slack.kube.access import ClusterAccess
from slack.kube.errors import ConnectionFailed

DEFAULT_KUBECONFIG = Path("~/.kube/config")
_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_MOST_BYTES = 16 << 20
_FALLBACK = "default"


@dataclass(frozen=True, slots=True)
class KubeconfigContext:
    """Names that a context puts together."""

    user: str
    cluster: str
    namespace: str = ""


@dataclass(slots=True)
class Kubeconfig:
    """All files as one; the first entry of a name wins."""

    contexts: dict[str, KubeconfigContext] = field(default_factory=dict)
    current: str = ""
    users: dict[str, Mapping[str, object]] = field(default_factory=dict)
    servers: dict[str, str] = field(default_factory=dict)
    """By cluster, those that are texts."""
    clusters: set[str] = field(default_factory=set)

    def context(self, files: str, access: ClusterAccess) -> tuple[str, KubeconfigContext]:
        """Return the context that is meant, with `--cluster` and `--user` in place of its own.

        Raises:
            ConnectionFailed: there is none of that name, or a cluster or user is missing.
        """
        name = access.context or self.current
        known = ", ".join(sorted(self.contexts)) or "none"
        if not name:
            raise ConnectionFailed(f"kubeconfig {files}: no current-context; pass --context (there are: {known})")
        if name not in self.contexts:
            raise ConnectionFailed(f"kubeconfig {files}: no context {name!r} (there are: {known})")
        found = self.contexts[name]
        for flag, chosen, there in (("cluster", access.cluster, self.clusters), ("user", access.user, self.users)):
            if chosen is not None and chosen not in there:
                known = ", ".join(sorted(there)) or "none"
                raise ConnectionFailed(f"--{flag}: kubeconfig {files} has no {flag} {chosen!r} (there are: {known})")
        return name, KubeconfigContext(access.user or found.user, access.cluster or found.cluster, found.namespace)


def find_files(access: ClusterAccess) -> str | None:
    """Return the files that kubectl would take, joined as in KUBECONFIG; None where there are none.

    Raises:
        ConnectionFailed: the home directory may not be looked into.
    """
    if access.kubeconfig is not None:
        return str(access.kubeconfig)
    if os.environ.get("KUBECONFIG"):
        return os.environ["KUBECONFIG"]
    if is_service_account(access):
        return None
    home = DEFAULT_KUBECONFIG.expanduser()
    return str(home) if _is_there(home) else None


def is_service_account(access: ClusterAccess) -> bool:
    """Whether the pod's own account is meant: without a kubeconfig, and without a flag that needs one."""
    named = access.is_chosen or os.environ.get("KUBECONFIG")
    return not named and bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


def current_namespace(access: ClusterAccess) -> str:
    """Return the namespace that commands work in without `--namespace`: the context's, in a pod the pod's, or default.

    A kubeconfig that cannot be read gives the default too: the connection tells what is wrong with it.
    """
    try:
        files = find_files(access)
        if files is not None:
            return read_kubeconfig(files).context(files, access)[1].namespace or _FALLBACK
        return _POD_NAMESPACE.read_text().strip() if is_service_account(access) else _FALLBACK
    except (ConnectionFailed, OSError, UnicodeDecodeError):
        return _FALLBACK


def read_kubeconfig(files: str) -> Kubeconfig:
    """Read and merge the files.

    Raises:
        ConnectionFailed: naming the file, and what would be right.
    """
    found = Kubeconfig()
    paths = [Path(part).expanduser() for part in files.split(os.pathsep) if part]
    if not any(_is_there(path) for path in paths):
        raise ConnectionFailed(f"kubeconfig {files}: no such file")
    for path in (path for path in paths if _is_there(path)):
        document = _document(path)
        found.current = found.current or str(document.get("current-context") or "")
        for name, entry in _named(document, "contexts", "context", path):
            user, cluster, namespace = (str(entry.get(key) or "") for key in ("user", "cluster", "namespace"))
            found.contexts.setdefault(name, KubeconfigContext(user, cluster, namespace))
        for name, entry in _named(document, "users", "user", path):
            found.users.setdefault(name, entry)
        for name, entry in _named(document, "clusters", "cluster", path):
            found.clusters.add(name)
            if isinstance(entry.get("server"), str):
                found.servers.setdefault(name, str(entry["server"]))
    return found


def _document(path: Path) -> dict[str, object]:
    import yaml

    from slack.cluster.yaml_bounds import UnboundedYaml, check_bounds

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
    return document


def _named(document: dict[str, object], key: str, inner: str, path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    entries = document.get(key) or []
    if not isinstance(entries, list) or not all(
        isinstance(e, dict) and isinstance(e.get("name"), str) for e in entries
    ):
        raise ConnectionFailed(f"kubeconfig {path}: {key} must be a list of entries with a name")
    return ((e["name"], e[inner] if isinstance(e.get(inner), dict) else {}) for e in entries)


def _place(error: Exception) -> str:
    # only the place: a YAML error's own text quotes the line, which may be a token
    mark = getattr(error, "problem_mark", None)
    return f" (line {mark.line + 1})" if mark is not None else ""


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # a home that may not be looked into
        raise ConnectionFailed(f"kubeconfig {path}: cannot be read: {error.strerror}") from error
