"""An API server of our own on a free port, and a connection to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slack.kube.connection import Connection
from tests.kube.fake_api import FakeApi


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as fake:
        yield fake


@pytest.fixture
def connection(api: FakeApi) -> Iterator[Connection]:
    connection = api.connection()
    yield connection
    connection.close()
