"""Lists page by page: the one loop over `limit` and `continue`, and what a page is decoded to.

Every list of ours is read here: by the reflector, which is told of an object that cannot be read and keeps the rest of
its page, and by those who read a collection once (`list_all`). These are told too, or they fail rather than miss an
object. A page is bounded by its bytes: one that is longer is asked for again with fewer objects.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from slack.kube.errors import BAD_JSON, AnswerTooLong, InvalidAnswer, decode_answer
from slack.kube.object_names import name_in_object, split_list
from slack.kube.watch import Undecodable, reason_of

if TYPE_CHECKING:
    from slack.kube.connection import Connection

T = TypeVar("T")
Query = dict[str, object]

PAGE_SIZE = 500
MOST_PAGE_BYTES = 16 * 1024 * 1024
"""500 pods have 4 MiB, 500 nodes 6. A page of the longest objects that etcd holds has gigabytes."""
MOST_OBJECT_BYTES = 256 * 1024 * 1024
"""Of a page of one object, where nothing smaller can be asked for: etcd holds 1.5 MiB, of which JSON makes 9."""


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


def pages(
    fetch: Callable[[Query, int], bytes | None], decode: Callable[[bytes], P], size: int = PAGE_SIZE
) -> Iterator[P]:
    """Yield each page of a list.

    Args:
        fetch: gets the body of the page that a query asks for, or raises `AnswerTooLong` beyond so many bytes; None to
            read no more.
        decode: reads it.
        size: objects a page at most.
    """
    # with resourceVersion=0 the server ignores the limit and sends everything in one body
    token: str | None = ""
    limit = size
    while token is not None:
        try:
            body = fetch({"limit": limit, "continue": token}, MOST_PAGE_BYTES if limit > 1 else MOST_OBJECT_BYTES)
        except AnswerTooLong:
            if limit == 1:
                raise
            limit = max(1, limit // 4)  # a token may be used again, with another limit too
            continue
        if body is None:
            return
        page = decode(body)
        yield page
        token = page.token
        if len(body) * 4 < MOST_PAGE_BYTES:
            limit = min(2 * limit, size)


def list_all(
    connection: "Connection",
    path: str,
    item_type: type[T],
    *,
    label_selector: str = "",
    field_selector: str = "",
    leave_out: Callable[[Undecodable], None] | None = None,
) -> Iterator[T]:
    """Yield every object of a collection.

    Args:
        connection: to the API server.
        path: of the collection.
        item_type: what an object is decoded to.
        label_selector: which of them.
        field_selector: which of them.
        leave_out: is told of an object that cannot be read; without it such an object is an error.

    Raises:
        KubeError: when there is no answer, no permission, or what comes is no list of such objects.
    """
    selectors: Query = {"labelSelector": label_selector, "fieldSelector": field_selector}
    decoder = PageDecoder(item_type)
    tokens: set[object] = set()

    def fetch(query: Query, most_bytes: int) -> bytes:
        return connection.request("GET", path, query=query | selectors, verb="list", most_bytes=most_bytes)

    def decode(body: bytes) -> DecodedPage[T]:
        try:
            page = decoder.decode(body)
        except BAD_JSON:
            decode_answer(f"GET {path}", body, _RAW_PAGE)  # says in words for people what it is instead
            raise
        if page.token in tokens:
            raise InvalidAnswer(f"GET {path}: the list has no end: its page {page.token!r:.40} is followed by itself")
        tokens.add(page.token)
        return page

    for page in pages(fetch, decode):
        for bad in page.undecodable:
            if leave_out is None:
                raise InvalidAnswer(f"GET {path}: {bad.name} cannot be read: {bad.why}")
            leave_out(bad)
        yield from page.items


_RAW_PAGE = msgspec.json.Decoder(ListPage[msgspec.Raw])
_LIST_META = msgspec.json.Decoder(_ListMeta)


class PageDecoder(Generic[T]):
    """Decodes list pages; one bad item does not cost the page."""

    def __init__(self, item_type: type[T]) -> None:
        # msgspec takes a type made at run time, which mypy cannot follow.
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
        try:
            page = _RAW_PAGE.decode(body)
            metadata, raws = page.metadata, [bytes(raw) for raw in page.items or []]
        except BAD_JSON:  # an object is nested too deeply to be skipped, or the body is no list
            text, raws = split_list(body)
            metadata = _LIST_META.decode(text)
        items: list[T] = []
        undecodable: list[Undecodable] = []
        for raw in raws:
            try:
                items.append(self._items.decode(raw))
            except BAD_JSON as error:
                undecodable.append(Undecodable(name_in_object(raw), reason_of(error)))
        return DecodedPage(items, undecodable, metadata.resource_version, metadata.continue_ or None)
