"""The two forms of placeholders for tests of the loop."""

import pytest

from slack.cluster.hold import Hold
from tests.operator.fakes import World


@pytest.fixture(params=[Hold.BOUND, Hold.UNBOUND], ids=str.lower)
def hold(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Hold:
    """The form of placeholders in each world where a policy names none: what asks for it is run in both forms."""
    form = Hold(request.param)
    monkeypatch.setattr(World, "hold", form)
    return form
