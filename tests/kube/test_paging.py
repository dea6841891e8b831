"""The one loop over a list's pages."""

import json
from typing import Any

import msgspec
import pytest

from slack.kube.errors import InvalidAnswer
from slack.kube.paging import ListPage, Query, list_all, pages


def body(names: str, token: str = "") -> bytes:
    metadata = {"resourceVersion": "7"} | ({"continue": token} if token else {})
    return json.dumps({"metadata": metadata, "items": [{"name": name} for name in names] or None}).encode()


class Server:
    """Answers with one page after the other, and keeps what it was asked."""

    def __init__(self, *bodies: bytes) -> None:
        self.bodies = list(bodies)
        self.asked: list[dict[str, Any]] = []

    def request(self, method: str, path: str, *, query: dict[str, Any], verb: str, most_bytes: int) -> bytes:
        self.asked.append(query)
        return self.bodies.pop(0)


def names(server: Server, **selectors: str) -> list[str]:
    return [item["name"] for item in list_all(server, "/api/v1/pods", dict[str, str], **selectors)]  # type: ignore[arg-type]


def test_every_object_of_every_page_comes_in_order_and_the_selectors_go_with_each_request() -> None:
    server = Server(body("ab", "more"), body("", "last"), body("c"))
    assert names(server, field_selector="spec.nodeName=n") == ["a", "b", "c"]
    assert [query["continue"] for query in server.asked] == ["", "more", "last"]
    assert {(query["limit"], query["fieldSelector"]) for query in server.asked} == {(500, "spec.nodeName=n")}


def test_an_object_that_cannot_be_read_is_an_error_and_never_left_out() -> None:
    server = Server(b'{"metadata": {}, "items": [{"name": "a"}, {"name": 1}]}')
    with pytest.raises(InvalidAnswer, match="cannot be read"):
        names(server)


def test_who_fetches_no_more_gets_no_more() -> None:
    bodies = iter([body("ab", "more"), None])

    def fetch(query: Query, most_bytes: int) -> bytes | None:
        return next(bodies)

    found = list(pages(fetch, msgspec.json.Decoder(ListPage[dict[str, str]]).decode))
    assert [page.token for page in found] == ["more"]
