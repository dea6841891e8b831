"""Lists page by page: the one loop over `limit` and `continue`, and what a page is decoded to.

Every list of ours is read here: by the reflector, which keeps a page of which one object cannot be read, and by those
who read a collection once (`listed`), who would rather fail than miss an object.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from slack.kube.errors import BAD_JSON, BadAnswer, decoded
from slack.kube.watch import Undecodable, object_name

if TYPE_CHECKING:
    from slack.kube.connection import Connection

T = TypeVar("T")
Query = dict[str, object]

PAGE_SIZE = 500


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class ListPage(msgspec.Struct, Generic[T]):
    """One page of a list, as the API server sends it."""

    metadata: _ListMeta
    items: list[T] | None = None

    @property
    def token(self) -> str | None:
        """Where the next page begins; None on the last."""
        return self.metadata.continue_ or None


class DecodedPage(NamedTuple, Generic[T]):
    """One page of a list with what could not be read of it set apart."""

    items: list[T]
    undecodable: list[Undecodable]
    resource_version: str
    token: str | None


class _Page(Protocol):
    @property
    def token(self) -> str | None:
        """Where the next page begins; None on the last."""


P = TypeVar("P", bound=_Page)


def pages(fetch: Callable[[Query], bytes | None], decode: Callable[[bytes], P], size: int = PAGE_SIZE) -> Iterator[P]:
    """Yield each page of a list.

    Args:
        fetch: gets the body of the page that a query asks for; None to read no more.
        decode: reads it.
        size: objects a page at most.
    """
    # with resourceVersion=0 the server ignores the limit and sends everything in one body
    token: str | None = ""
    while token is not None:
        body = fetch({"limit": size, "continue": token})
        if body is None:
            return
        page = decode(body)
        yield page
        token = page.token


def listed(
    connection: "Connection", path: str, item_type: type[T], *, label_selector: str = "", field_selector: str = ""
) -> Iterator[T]:
    """Yield every object of a collection.

    Raises:
        KubeError: when there is no answer, no permission, or what comes is no list of such objects.
    """
    selectors: Query = {"labelSelector": label_selector, "fieldSelector": field_selector}
    # msgspec takes a type made at run time, which mypy cannot follow; `PageDecoder` does the same.
    decoder: msgspec.json.Decoder[ListPage[T]] = msgspec.json.Decoder(ListPage[item_type])  # type: ignore[valid-type]

    sent: set[object] = {""}

    def fetch(query: Query) -> bytes:
        token = query["continue"]
        if token in sent and token:
            raise BadAnswer(f"GET {path}: the list has no end: its page {token!r:.40} is followed by itself")
        sent.add(token)
        return connection.request("GET", path, query=query | selectors, verb="list")

    for page in pages(fetch, lambda body: decoded(f"GET {path}", body, decoder)):
        yield from page.items or ()


_RAW_PAGE = msgspec.json.Decoder(ListPage[msgspec.Raw])


class PageDecoder(Generic[T]):
    """Decodes list pages; one bad item does not cost the page."""

    def __init__(self, item_type: type[T]) -> None:
        self._pages: msgspec.json.Decoder[ListPage[T]] = msgspec.json.Decoder(ListPage[item_type])  # type: ignore[valid-type]
        self._items: msgspec.json.Decoder[T] = msgspec.json.Decoder(item_type)

    def decode(self, body: bytes) -> DecodedPage[T]:
        """Read a page.

        Raises:
            msgspec.DecodeError: The body is no list at all.
        """
        try:
            page = self._pages.decode(body)
        except BAD_JSON:
            return self._item_by_item(body)
        return DecodedPage(page.items or [], [], page.metadata.resource_version, page.token)

    def _item_by_item(self, body: bytes) -> DecodedPage[T]:
        page = _RAW_PAGE.decode(body)
        items: list[T] = []
        undecodable: list[Undecodable] = []
        for raw in page.items or []:
            try:
                items.append(self._items.decode(raw))
            except BAD_JSON as error:
                undecodable.append(Undecodable(object_name(b'{"object":' + bytes(raw) + b"}"), str(error)))
        return DecodedPage(items, undecodable, page.metadata.resource_version, page.token)
