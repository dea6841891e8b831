"""The chart grants what the operator uses, and nothing else; judged last, by the whole session's audit log."""

import pytest

from e2e.harness.cluster import access, rbac
from e2e.harness.cluster.backend import Backend
from e2e.harness.product.operator import MANIFESTS, USER

# Between them these make the operator do all that it can.
NEEDED = {"test_main_job", "test_faults", "test_rescue", "test_giving_up"}


@pytest.fixture
def whole_session(request: pytest.FixtureRequest) -> None:
    missing = NEEDED - {item.path.stem for item in request.session.items}
    if missing:
        pytest.skip(f"judges a session with {', '.join(sorted(missing))} in it too")


@pytest.mark.usefixtures("whole_session")
def test_every_right_was_used_or_has_its_reason(backend: Backend) -> None:
    rights = rbac.granted(access.read_manifests(MANIFESTS))
    unused = rights - rbac.used(rights, backend.audit_entries(user=USER))
    assert {str(right) for right in unused if (right.resource, right.verb) not in rbac.UNUSED_IN_SUITES} == set()


@pytest.mark.usefixtures("whole_session")
def test_nothing_was_asked_without_the_right_to(backend: Backend) -> None:
    rights = rbac.granted(access.read_manifests(MANIFESTS))
    assert {str(right) for right in rbac.refused(rights, backend.audit_entries(user=USER))} == set()
