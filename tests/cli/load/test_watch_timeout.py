"""When a load no longer waits for nodes to go: an API server that has gone is not watched to the end."""

from dataclasses import dataclass, field

from slack.cli.load.watch_timeout import WatchTimeout
from slack.kube.sink import ReflectorCounters


@dataclass
class Watch:
    counters: ReflectorCounters = field(default_factory=ReflectorCounters)
    last_error: str | None = None
    heard_at: float = 0.0

    def last_heard_age(self, now: float) -> float:
        return now - self.heard_at

    def fails(self) -> None:
        self.counters.errors += 1
        self.last_error = "Connection refused"


def test_a_server_that_has_gone_is_watched_no_longer() -> None:
    watch = Watch()
    silence = WatchTimeout(watch)
    for second in range(1, 32):
        if second in (1, 3, 7, 15, 31):
            watch.fails()
        found = silence.ends(float(second))
        assert (found is None) == (second < 31)
    assert found == "nothing is heard for 31 s: Connection refused"


def test_a_quiet_watch_that_has_come_back_is_watched_on() -> None:
    watch = Watch()
    silence = WatchTimeout(watch)
    for second in range(1, 900):
        if second < 10:
            watch.fails()
        assert silence.ends(float(second)) is None


def test_failures_before_the_last_word_do_not_count() -> None:
    watch = Watch()
    silence = WatchTimeout(watch)
    for second in range(1, 20):
        watch.fails()
        assert silence.ends(float(second)) is None
    watch.heard_at = 20.0
    assert silence.ends(20.0) is None
    watch.fails()
    assert silence.ends(60.0) is None
