"""One Docker a session, and one cluster of two workers for the suites that can share it.

Those that look at what a Docker leaves behind come first, before there is one; then those that make a cluster of their
own, as docs/first-burst.md does: two clusters would share the machine's cores. Faults come last: a Docker that was
restarted under a cluster is not what the others are about.
"""

from collections.abc import Iterator

import pytest

from e2e.harness.cluster.cleanup import cleaned
from e2e.harness.cluster.kind import Kind
from e2e.harness.docker import engine
from e2e.harness.docker.engine import Engine
from e2e.harness.errors import UnavailableError
from e2e.kind import workers


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put them in the order that is said above."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    used = getattr(item, "fixturenames", ())
    return ("docker" in used) + ("shared" in used) + (item.path.stem == "test_faults_on_kind")


@pytest.fixture(scope="session")
def docker(_loopback_only: None) -> Iterator[Engine]:
    """The session's Docker."""
    try:
        with engine.of_this_machine() as found:
            yield found
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def shared(docker: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kind]:
    """The session's cluster; suites want `cluster`."""
    try:
        cluster = workers.start(docker, tmp_path_factory.mktemp("kind"))
    except UnavailableError as error:
        pytest.skip(str(error))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def cluster(shared: Kind) -> Iterator[Kind]:
    """The cluster with both workers up; what a suite makes there is taken away after it."""
    workers.restore(shared)
    with cleaned(shared.api):
        yield shared
