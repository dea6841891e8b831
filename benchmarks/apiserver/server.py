"""A local server that answers as an API server does, over TLS, with a generated cluster of any size behind it.

Pages with continue tokens, WatchList, watches with bookmarks and in-band 410, server-side apply, leases, discovery as
far as kopf asks for it. A real etcd does not take 150,000 pods in minutes; this one has them at once. Single-process:
run what is to be measured in a process of its own.

Usage:
    with Server(Path(folder), scaled(1)) as server:
        subprocess.Popen(["resource-slack", "operator", f"--kubeconfig={server.kubeconfig}"])
    python -m benchmarks.apiserver.server --share 0.2     # prints the kubeconfig's path and serves until Ctrl-C
"""

import argparse
import contextlib
import json
import ssl
import sys
import tempfile
import threading
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Self

from benchmarks.apiserver.handler import NAMESPACED, RESOURCES, Break, Handler, Http
from benchmarks.apiserver.store import Key, Phase, Store
from benchmarks.apiserver.watch_history import Refused
from benchmarks.generator import Json, Size, scaled
from e2e.harness.cluster.access import write_kubeconfig
from e2e.harness.cluster.certificates import Authority

__all__ = ["Break", "Server"]

_LISTS = 16
"""How many paged lists may be under way at once; the oldest is forgotten, with a 410."""


class _List:
    """One paged list; the page that was sent last can be asked for again."""

    def __init__(self, items: Iterator[bytes], version: int) -> None:
        self.version = version
        self._items = items
        self._ahead = next(items, None)
        self._number = -1
        self._page: list[bytes] = []

    def page(self, number: int, limit: int) -> tuple[list[bytes], bool]:
        """Return a page's items, and whether more follow."""
        if number == self._number + 1:
            self._number = number
            self._page = []
            if self._ahead is not None:
                self._page = [self._ahead, *islice(self._items, limit - 1 if limit else None)]
                self._ahead = next(self._items, None)
        elif number != self._number:
            raise Refused(410, "Expired", "the provided continue parameter is too old")
        return self._page, self._ahead is not None


class Server:
    """Serves on loopback while its context is open. Faults: `break_watches`, `compact`, `watch_list = False`."""

    def __init__(self, folder: Path, size: Size, seed: int = 1) -> None:
        self.store = Store(size, seed)
        self.watch_list = True
        self.read_only = False
        """Refuse all writes but of leases: the cluster stands still, and its leader stays leader."""
        self.watches = 0
        """How many watches are open."""
        self.opened: dict[str, int] = {}
        """Lists, watches and WatchLists that were begun, by verb and plural."""
        self._folder = folder
        self._breaks: list[Break] = []
        self._lists: dict[str, _List] = {}
        self._numbers = count(1)
        authority = Authority.create(folder / "pki")
        pair = authority.issue("kube-apiserver", hosts=["127.0.0.1", "localhost"])
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(pair.certificate, pair.key)
        server = self

        class Bound(Handler):
            api = server

        self._http = Http(("127.0.0.1", 0), Bound, self._tls)
        self.url = f"https://127.0.0.1:{self._http.server_address[1]}"
        self.kubeconfig = write_kubeconfig(
            folder / "kubeconfig", self.url, authority.certificate_path, {"token": "benchmark"}
        )
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self.break_watches(Break.RESET)

    def break_watches(self, how: Break) -> None:
        """End all open watches."""
        with self.store.changed:
            self._breaks.append(how)
            self.store.changed.notify_all()

    def compact(self) -> None:
        """Forget all history, so that a watch that was just broken must list again."""
        with self.store.changed:
            for plural in ("pods", "nodes"):
                self.store.history(("v1", plural)).compact(self.store.version)

    def begin_list(self, key: Key, phase: Phase) -> str:
        """Freeze a collection and return what its first page is asked with."""
        name = str(self.number())
        while len(self._lists) >= _LISTS:
            del self._lists[next(iter(self._lists))]
        self._lists[name] = _List(self.store.items(key, phase), self.store.version)
        return f"{name}:0"

    def list_page(self, key: Key, token: str, limit: int) -> bytes:
        """Return the body of one page."""
        name, _, number = token.partition(":")
        found = self._lists.get(name)
        if found is None:
            raise Refused(410, "Expired", "the provided continue parameter is too old")
        items, more = found.page(int(number), limit)
        metadata = {"resourceVersion": str(found.version)} | ({"continue": f"{name}:{int(number) + 1}"} if more else {})
        kind = f"{self.kind_of(key)}List"
        head = json.dumps({"kind": kind, "apiVersion": key.api_version, "metadata": metadata}, separators=(",", ":"))
        return b'%s,"items":[%s]}\n' % (head[:-1].encode(), b",".join(items))

    def kind_of(self, key: Key) -> str:
        """Return the kind of a collection's objects."""
        return RESOURCES[key.api_version][key.plural]

    def number(self) -> int:
        """Return one that nobody has had."""
        return next(self._numbers)

    @property
    def breaks(self) -> list[Break]:
        """Return how watches were ended, so far."""
        return self._breaks

    def discovery(self, path: str) -> Json | None:
        """Return what /api and /apis say, as far as anybody asks."""
        if path == "/version":
            return {"major": "1", "minor": "36", "gitVersion": "v1.36.3"}
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            groups = [version.split("/") for version in RESOURCES if "/" in version]
            return {
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": [
                    {"name": group, "versions": [found], "preferredVersion": found}
                    for group, version in groups
                    for found in ({"groupVersion": f"{group}/{version}", "version": version},)
                ],
            }
        version = path.removeprefix("/apis/").removeprefix("/api/")
        if version not in RESOURCES:
            return None
        verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
        resources = [
            {
                "name": name,
                "singularName": kind.lower(),
                "namespaced": plural in NAMESPACED,
                "kind": kind,
                "verbs": verbs,
            }
            for plural, kind in RESOURCES[version].items()
            for name in (plural, f"{plural}/status")
        ]
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}


def main() -> int:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Serve a generated cluster as an API server would.")
    parser.add_argument("--share", type=float, default=1 / 25, help="of 5,000 nodes and 150,000 pods")
    parser.add_argument("--seed", type=int, default=1, help="of the generator")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="resource-slack-server-") as folder,
        Server(Path(folder), scaled(arguments.share), arguments.seed) as server,
        contextlib.suppress(KeyboardInterrupt),
    ):
        print(json.dumps({"kubeconfig": str(server.kubeconfig), "url": server.url}), flush=True)
        threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
