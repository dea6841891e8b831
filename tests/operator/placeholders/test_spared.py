"""What slack spares: pods that took a placeholder's place, and what they would have waited for a node."""

from slack_operator.placeholders.report.saved_waits import SavedWait, SavedWaits
from slack_operator.placeholders.view.instant_starts import Start


def start(at: float, *, in_slack: bool = True, waited_seconds: float = 0.1) -> tuple[str, Start]:
    return "web", Start("n", waited_seconds, in_slack, at)


def test_pods_that_took_a_placeholders_place_would_have_waited_for_a_node() -> None:
    waits = SavedWaits()
    assert waits.saved_wait("web", 100.0) is None
    waits.add_starts([start(5.0), start(6.0), start(7.0, in_slack=False)], 100.0)
    assert waits.saved_wait("web", 100.0) == SavedWait(2, 112.0)
    assert waits.saved_wait("data", 100.0) is None


def test_the_day_ends_with_the_latest_start_and_a_quiet_cluster_says_the_same() -> None:
    waits = SavedWaits()
    waits.add_starts([start(0.0), start(80_000.0), start(100_000.0)], 100.0)
    found = waits.saved_wait("web", 100.0)
    assert found is not None
    assert found.pods == 2  # the first is of the day before


def test_a_pod_that_waited_as_long_as_for_a_node_was_spared_nothing() -> None:
    waits = SavedWaits()
    waits.add_starts([start(5.0, waited_seconds=112.0)], 100.0)
    assert waits.saved_wait("web", 100.0) is None
    waits.add_starts([start(6.0, waited_seconds=111.0)], 100.0)
    assert waits.saved_wait("web", 100.0) == SavedWait(1, 112.0)


def test_what_was_spared_is_said_in_pods_seconds_and_hours() -> None:
    assert str(SavedWait(2, 12.0)) == "2 pods of a day would have waited about 10 s each for a node, 20 s in all"
    assert str(SavedWait(1, 132.0)) == "1 pod of a day would have waited about 130 s for a node, 2 min in all"
    assert (
        str(SavedWait(300, 132.0)) == "300 pods of a day would have waited about 130 s each for a node, 11.0 h in all"
    )
