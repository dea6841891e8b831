"""Which servers' schedulers forget preemptors."""

import pytest

from slack_operator.placeholders.act.hang_versions import may_hang
from tests.cases import run_for_each


@run_for_each(
    ("version", "hangs"),
    [
        ("v1.31.14", False),
        ("v1.29.6-eks-1-29-5", False),
        ("1.31+", False),
        ("v1.32.0", True),
        ("v1.33.5-eks-1-33-9", True),
        ("v1.34.1+k3s1", True),
        ("v1.35.8", True),
        ("v1.36.3", True),
        ("v1.36.4-gke.100", True),
        ("v1.37.0-alpha.1.23+0123456789abcd-dirty", True),
        ("v1.99.0", True),
        ("v2.0.0", True),
        ("unknown", True),
        ("", True),
        ("v1", True),
        ("v1.999999999999999999999.1", True),
        ("v0.0.0-master+$Format:%H$", False),
    ],
)
def test_the_rescue_is_off_only_where_there_is_no_asynchronous_preemption(version: str, hangs: bool) -> None:
    assert may_hang(version) is hangs


@pytest.mark.parametrize(
    ("version", "hangs"),
    [
        ("v1.37.3", True),
        ("v1.37.4-rc.0", True),
        ("v1.37.4", False),
        ("v1.37.4-gke.100", False),
        ("v1.38.0", False),
        ("v1.36.9", True),
        ("v1.35.0", True),
        ("v1.31.0", False),
        ("nonsense", True),
    ],
)
def test_from_the_release_that_mends_it_the_rescue_is_off(version: str, hangs: bool) -> None:
    assert may_hang(version, mended={(1, 37): 4}) is hangs
