"""A run that was written down is decided the same when it is played again, and is told apart where it is not."""

import json
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as replaced

from benchmarks.demand.simulation.events import Events
from benchmarks.demand.simulation.load import PublishedLoad, Traffic
from benchmarks.demand.simulation.pools import NAMESPACE, PoolRules, SimulatedPools
from benchmarks.demand.simulation.world import World
from slack.demand.model import Guards, PoolSettings, QuotaSettings
from slack.demand.tick import PoolScheduler, TickInput, TickResult
from slack.demand.trace import (
    MOST_LINE_BYTES,
    InvalidRecording,
    Line,
    SettingsLine,
    TickLine,
    TraceWriter,
    decode,
    encode,
    read,
    replay,
)
from tests.cases import run_for_each
from tests.demand.build import key, lag, pool, ready, seen


@dataclass
class Recorded:
    """A scheduler whose ticks are written down; where containers go is not part of a recording, so none is pinned."""

    scheduler: PoolScheduler
    lines: list[Line]
    writer: TraceWriter = field(default_factory=TraceWriter)
    creations: int = 0

    def tick(self, observation: TickInput) -> TickResult:
        observation = replace(observation, nodes=())
        result = self.scheduler.tick(observation)
        self.lines.append(self.writer.tick(observation, (), result))
        self.creations += len(result.creations)
        return result


def recorded(seed: int, actions: int, rate: float, slots: int = 4) -> Recorded:
    """A run of the simulation, with its lines."""
    load = PublishedLoad(actions=actions, rate_per_second=rate, seconds=15.0, cut_seconds=0.0)
    events, random = Events(), Random(seed)
    traffic = Traffic(load, events, random)
    pools = SimulatedPools(World(nodes=1, slots=slots), PoolRules(guards=Guards()), events, random, traffic)
    settings = [
        PoolSettings(key=at, subject=subject, revision="r1", max_containers=slots, creation_timeout_seconds=20.0)
        for at, subject in zip(pools.keys, pools.subjects, strict=True)
    ]
    run = Recorded(PoolScheduler(epoch="s"), [SettingsLine(epoch="s", guards="all", pools=tuple(settings), fresh=True)])
    run.scheduler.configure(settings)
    pools.scheduler = run  # type: ignore[assignment]  # a tick is all that is asked of it
    traffic.taker = pools
    traffic.begin()
    events.run(20.0)
    return run


@given(seed=st.integers(0, 1000), actions=st.integers(1, 6), rate=st.floats(1.0, 60.0))
def test_a_run_that_is_written_and_read_is_decided_the_same(seed: int, actions: int, rate: float) -> None:
    run = recorded(seed, actions, rate)
    lines = list(read(b"".join(encode(line) for line in run.lines).splitlines(keepends=True)))
    assert lines == run.lines
    totals = replay(lines)
    assert totals.ticks == len(lines) - 1 > 100
    assert totals.created == run.creations == sum(totals.totals_of(at).created for at in totals.pools)
    assert totals.differing_ticks == 0
    assert all(at.namespace == NAMESPACE for at in totals.pools)


def test_a_container_is_told_once_and_what_failed_is_tried_later() -> None:
    writer, scheduler = TraceWriter(), PoolScheduler(epoch="x")
    scheduler.configure([pool()])
    lines: list[Line] = [SettingsLine(epoch="x", guards="all", pools=(pool(),), fresh=True)]
    failed: list[tuple[str, str]] = []
    created = []
    for tick in range(40):
        for name, reason in failed:
            scheduler.failed(name, 1.0 + tick / 10, reason)
        observation = seen(1.0 + tick / 10, {"thumb": lag(5)})
        result = scheduler.tick(observation)
        lines.append(writer.tick(observation, tuple(failed), result))
        failed = [(creation.id, "forbidden") for creation in result.creations]
        created += [creation.id for creation in result.creations]
    assert all(line.containers is None for line in lines[2:] if isinstance(line, TickLine)), "as it was before"
    totals = replay(lines)
    assert 1 < len(created) == totals.created < 40, "tried again, and not each time"
    assert totals.differing_ticks == 0
    without = [replaced(line, failed=()) if isinstance(line, TickLine) else line for line in lines]
    assert replay(without).differing_ticks > 0, "nobody heard that they failed"
    assert replay(lines).totals_of(key()).queued == 5


def test_other_guards_and_settings_answer_otherwise() -> None:
    run = recorded(1, 6, 60.0, slots=3)
    assert replay(run.lines, guards=Guards.parse("none")).differing_ticks > 0
    fewer = replay(run.lines, changes={"max_containers": 1})
    assert fewer.differing_ticks > 0
    with pytest.raises(InvalidRecording, match="the changed settings of sim/a0: max_containers: Expected `int`"):
        replay(run.lines, changes={"max_containers": "many"})


def test_a_broker_that_is_gone_and_refusals_are_in_the_recording() -> None:
    writer, scheduler = TraceWriter(), PoolScheduler(epoch="x")
    full = pool(max_messages=3)
    scheduler.configure([full])
    lines: list[Line] = [SettingsLine(epoch="x", guards="all", pools=(full,), fresh=True)]
    for tick in range(6):
        observation = seen(1.0 + tick / 10, None if tick == 2 else {"thumb": lag(9)})
        lines.append(writer.tick(observation, (), scheduler.tick(observation)))
    totals = replay(decode(encode(line), 1) for line in lines)
    assert totals.differing_ticks == 0
    assert totals.refused_ticks == totals.totals_of(key()).refused_ticks == 5, "each but the one without a broker"
    assert totals.seconds == pytest.approx(0.5)


@run_for_each(
    ("line", "at", "value", "complaint"),
    [
        (0, ("pools", 0, "concurrency"), 0, "line 1: pools[0].concurrency: Expected `int` >= 1"),
        (0, ("pools", 0, "stale_seconds"), 0, "line 1: pools[0].stale_seconds: Expected `float` >= 0.001"),
        (0, ("pools", 0, "max_containers"), -1, "line 1: pools[0].max_containers: Expected `int` >= 0"),
        (0, ("pools", 0, "demand", "horizon_seconds"), 1e308, "line 1: pools[0].demand.horizon_seconds: Expected"),
        (0, ("quotas", 0, "over_provision_ratio"), 1e308, "line 1: quotas[0].over_provision_ratio: Expected"),
        (0, ("quotas", 0, "max_containers"), -1, "line 1: quotas[0].max_containers: Expected `int` >= 0"),
        (0, ("quotas", 0, "weights"), {"thumb": -1}, "line 1: quotas[0].weights[...]: Expected `float` >= 1e-06"),
        (1, ("lags", "q", "backlog"), -50, "line 2: lags[...].backlog: Expected `int` >= 0"),
        (1, ("containers", 0, "memory_bytes"), -1, "line 2: containers[0].memory_bytes: Expected `int` >= 0"),
        (1, ("durations_ms", 0, 1, 0), 1e308, "line 2: durations_ms[0][1][0]: Expected `float` <= "),
        (1, ("incoming", 0, 1), -1, "line 2: incoming[0][1]: Expected `int` >= 0"),
        (1, ("now_seconds",), 1e308, "line 2: now_seconds: Expected `float` <= "),
    ],
)
def test_figures_that_no_run_has_are_refused_with_line_and_field(
    line: int, at: tuple[str | int, ...], value: object, complaint: str
) -> None:
    quota = QuotaSettings(namespace="media", max_containers=3)
    settings = SettingsLine(epoch="x", guards="all", pools=(pool(),), quotas=(quota,), fresh=True)
    tick = TickLine(
        now_seconds=1.0,
        lags={"q": lag(1)},
        containers=(ready("c1"),),
        durations_ms=((key(), (1.0,)),),
        incoming=((key(), 1),),
    )
    lines = [encode(settings), encode(tick)]
    assert replay(read(lines)).ticks == 1
    document = found = json.loads(lines[line])
    for part in at[:-1]:
        found = found[part]
    found[at[-1]] = value
    lines[line] = json.dumps(document).encode()
    with pytest.raises(InvalidRecording) as refused:
        replay(read(lines))
    assert str(refused.value).startswith(complaint)


def test_what_is_no_line_is_told_with_its_number() -> None:
    good = encode(SettingsLine(epoch="x", guards="all"))
    with pytest.raises(InvalidRecording, match="line 3: "):
        list(read([good, b"\n", b'{"type":"nothing"}\n']))
    with pytest.raises(InvalidRecording, match="line 1: is longer than 64 MiB"):
        decode(b" " * (MOST_LINE_BYTES + 1), 1)
    with pytest.raises(InvalidRecording, match="line 4: guards: G9 is no guard"):
        decode(good.replace(b"all", b"G9"), 4)
    with pytest.raises(InvalidRecording, match="the settings are missing"):
        replay([TraceWriter().tick(seen(1.0, {}), (), TickResult())])
