"""Fixtures of the suites: one cluster a session, and a clean one for every test.

Nothing in these tests may speak to anything but this machine: a connection that leaves loopback is an error.
"""

import ipaddress
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from e2e.harness.autoscalers import cluster_autoscaler as clusterautoscaler
from e2e.harness.cluster.backend import Backend, choose
from e2e.harness.cluster.cleanup import cleaned
from e2e.harness.errors import UnavailableError
from e2e.harness.machine_speed import PATIENCE, describe, time_scale
from e2e.harness.product.browser import Browser, unavailable
from e2e.harness.product.operator import rights_report
from slack.cluster.hold import Hold

_RIGHTS = pytest.StashKey[list[str]]()
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


TEST_SECONDS = 600
"""What a test without a mark of its own may take on the reference machine."""


def pytest_report_header() -> str:
    """Say how long time limits are here."""
    return describe()


def pytest_configure() -> None:
    """Let SIGTERM end a session as Ctrl-C does: what it has started is taken away then."""

    def ended(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # who ends a whole group may do it twice
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, ended)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test the time that real components need on this machine; what judges the whole session comes last."""
    items.sort(key=lambda item: item.path.stem == "test_chart_rights")
    stretched = time_scale() / PATIENCE
    for item in items:
        marker = item.get_closest_marker("timeout")
        seconds = marker.args[0] if marker is not None else TEST_SECONDS
        item.add_marker(pytest.mark.timeout(seconds * stretched), append=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which of the operator's rights this session did not use, and what it was refused."""
    lines = config.stash.get(_RIGHTS, [])
    if lines:
        terminalreporter.section("the operator's rights, by this session's audit log")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session", autouse=True)
def _loopback_only() -> Iterator[None]:
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in {socket.AF_INET, socket.AF_INET6} and not _is_loopback(address[0]):
            raise PermissionError(f"a suite tried to connect to {address[0]}, which is not this machine")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        for name in _PROXIES:
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session")
def backend(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, _loopback_only: None
) -> Iterator[Backend]:
    """The session's cluster, up and running; tests want `cluster`."""
    started = choose(tmp_path_factory.mktemp("cluster")).start()
    yield started
    try:
        request.config.stash[_RIGHTS] = rights_report(started)
    finally:
        started.stop()


@pytest.fixture
def cluster(backend: Backend) -> Iterator[Backend]:
    """The session's cluster; what a test makes there is taken away after it."""
    with cleaned(backend.api):
        yield backend
        backend.restart_missing()  # a test that failed may have left the API server down
    backend.begin_kwok_anew()


@pytest.fixture(params=[Hold.BOUND, pytest.param(Hold.UNBOUND, marks=pytest.mark.unbound)], ids=str.lower)
def hold(request: pytest.FixtureRequest) -> Hold:
    """The form of placeholders, for `spec.hold`: what asks for it is run in both forms."""
    return Hold(request.param)


@pytest.fixture(scope="module")
def browser(_loopback_only: None) -> Iterator[Browser]:
    """A Chromium; without one the test is skipped, with what is missing."""
    missing = unavailable()
    if missing:
        pytest.skip(missing)
    with Browser() as opened:
        yield opened


@pytest.fixture
def cluster_autoscaler_binary() -> Path:
    """The stock Cluster Autoscaler; without it the test is skipped, with the way to run it."""
    try:
        return clusterautoscaler.binary()
    except UnavailableError as error:
        pytest.skip(str(error))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
