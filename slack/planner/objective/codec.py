"""What was learnt as bytes, and back: for an object of ours, a file of `tune`, and a change of leader.

`RSOBJ1` and a zlib stream of MessagePack. Tables are written sparsely and coarsely (16-bit floats), the smallest counts
left out until all of it is under `MOST_BYTES`. Whoever may write the object may write anything: what is read is bounded
before it is unpacked, and checked before it is believed; a learner that cannot be read is started anew.
"""

import zlib
from collections.abc import Mapping

import msgspec
import numpy as np

from slack.errors import InvalidInput
from slack.planner.objective.correction import CREDIT, HIGHEST
from slack.planner.objective.learner import Learner
from slack.planner.objective.mix import MOST_SHAPES
from slack.planner.objective.needs import BINS
from slack.planner.objective.patterns import PATTERNS, ROWS

MAGIC = b"RSOBJ1"
_ANY_MAGIC = b"RSOBJ"
MOST_BYTES = 256 * 1024
"""Of an encoded learner; an object of Kubernetes holds a megabyte."""
_MOST_UNPACKED = 4 * 1024 * 1024
_WIDTH = 2
_LARGEST_NUMBER = 1e17
"""No cluster requests as much, in bytes or millicores; many of it still fit into 64 bits."""
_WINDOWS_AN_HOUR = 30.0
"""Windows in an hour, where they were not counted: of two minutes, as most nodes take."""
_LONGEST_DAY = 25
"""Hours that a day has with the one that has just begun."""


class InvalidState(InvalidInput):
    """Bytes that are no learner's, with what is wrong with them."""


class OtherVersion(InvalidState):
    """Bytes of a learner of another version, which that version may still want."""


class _State(msgspec.Struct):
    hours: float
    started: float
    late: float
    faded: tuple[float, float, float]
    """Hours, pods, and the windows that have as many pods each as that of a usual pod."""
    most_seen: tuple[float, float]
    correction: float
    debts: list[float]
    """Of the patterns."""
    lates: tuple[float, float]
    days: list[tuple[int, int, int]]
    cells: bytes
    """uint32 places in the table of counts, then float16 values."""
    row_hours: bytes
    """float32 [rows]"""
    largest: bytes
    """float32 [R, bins]"""
    contest: tuple[list[float], list[float], list[float], int]
    patterns: list[str]
    mix_day: int
    mix: Mapping[str, bytes]
    """By `cpu,memory`: float16 [24]."""
    windows: float | None = None
    """All that are behind `faded`; older versions have not counted them."""


def encode(learner: Learner) -> bytes:
    """Return all that was learnt, in at most MOST_BYTES."""
    learner.mix.clear_rarest()
    table = learner.needs.pods.ravel()
    smallest = 1e-3
    while True:
        data = MAGIC + zlib.compress(msgspec.msgpack.encode(_state(learner, table, smallest)), 6)
        if len(data) <= MOST_BYTES:
            return data
        smallest *= 4


def _state(learner: Learner, table: np.ndarray[tuple[int], np.dtype[np.float32]], smallest: float) -> _State:
    places = np.flatnonzero(table > smallest)
    values = np.minimum(table[places], 60000.0).astype(np.float16)
    contest, tally = learner.contest, learner.tally
    return _State(
        hours=_bounded(tally.hours),
        started=_bounded(tally.started),
        late=_bounded(tally.late),
        faded=(
            _bounded(tally.faded_hours),
            _bounded(tally.faded_started),
            _bounded(tally.faded_started**2 / max(tally.faded_crowd, 1.0)),
        ),
        most_seen=(_bounded(learner.most_seen[0]), _bounded(learner.most_seen[1])),
        correction=learner.correction.value,
        debts=[modelled.value for modelled in learner.modelled],
        lates=(_bounded(tally.really_late), _bounded(tally.expected_late)),
        days=[(hour, int(_bounded(pods)), int(_bounded(late))) for hour, pods, late in tally.days][-_LONGEST_DAY:],
        cells=places.astype(np.uint32).tobytes() + values.tobytes(),
        row_hours=np.minimum(learner.needs.hours, _LARGEST_NUMBER).astype(np.float32).tobytes(),
        largest=np.minimum(learner.needs.largest, _LARGEST_NUMBER).astype(np.float32).tobytes(),
        contest=(
            contest.weight.ravel().tolist(),
            contest.first.ravel().tolist(),
            contest.second.ravel().tolist(),
            contest.best,
        ),
        patterns=[pattern.name for pattern in PATTERNS],
        mix_day=learner.mix.day,
        mix={
            f"{cpu},{memory}": np.minimum(row, 60000).astype(np.float16).tobytes()
            for (cpu, memory), row in learner.mix.pods.items()
        },
        windows=_bounded(tally.faded_windows),
    )


def _bounded(number: float) -> float:
    """Return what `decode` takes: a past that has been read can be read again however much has come since."""
    return min(float(number), _LARGEST_NUMBER)


def decode(data: bytes) -> Learner:
    """Return the learner that was encoded.

    Raises:
        InvalidState: when the bytes are not one's, or another version's.
    """
    if not data.startswith(MAGIC):
        kind = OtherVersion if data.startswith(_ANY_MAGIC) else InvalidState
        raise kind(f"does not begin with {MAGIC.decode()}: not what was learnt, or another version's")
    if len(data) > MOST_BYTES:
        raise InvalidState(f"has {len(data)} bytes, more than {MOST_BYTES}")
    unpacking = zlib.decompressobj()
    try:
        body = unpacking.decompress(data[len(MAGIC) :], _MOST_UNPACKED)
        if unpacking.unconsumed_tail or not unpacking.eof:
            raise InvalidState("is cut off, or unpacks to more than it may")
        return _learner(msgspec.msgpack.decode(body, type=_State))
    except (zlib.error, msgspec.DecodeError, ValueError, OverflowError) as error:
        if isinstance(error, InvalidState):
            raise
        raise InvalidState(f"cannot be read: {error}") from None


def _learner(state: _State) -> Learner:
    if state.patterns != [pattern.name for pattern in PATTERNS]:
        raise OtherVersion("was learnt by the patterns of another version")
    learner = Learner()
    count, rest = divmod(len(state.cells), 6)
    if rest or count > learner.needs.pods.size:
        raise InvalidState("has a table of another size")
    places = np.frombuffer(state.cells[: 4 * count], dtype=np.uint32)
    values = np.frombuffer(state.cells[4 * count :], dtype=np.float16).astype(np.float64)
    if count and int(places.max()) >= learner.needs.pods.size:
        raise InvalidState("has a place beyond its table")
    learner.needs.pods.ravel()[places] = _sound(values)
    learner.needs.hours[:] = _sound(_floats(state.row_hours, ROWS))
    learner.needs.largest[:] = _sound(_floats(state.largest, _WIDTH * BINS)).reshape(_WIDTH, BINS)
    all_windows = _WINDOWS_AN_HOUR * state.faded[0] if state.windows is None else state.windows
    numbers = _sound(np.array([state.hours, state.started, state.late, *state.faded, *state.most_seen, all_windows]))
    learner.tally.hours, learner.tally.started, learner.tally.late = numbers[:3].tolist()
    learner.tally.faded_hours, learner.tally.faded_started, windows = numbers[3:6].tolist()
    learner.tally.faded_crowd = learner.tally.faded_started**2 / max(windows, 1.0)
    learner.most_seen, learner.tally.faded_windows = numbers[6:8], float(numbers[8])
    if len(state.debts) != len(PATTERNS):
        raise InvalidState("has debts of other patterns")
    for owed, value in zip([learner.correction, *learner.modelled], [state.correction, *state.debts], strict=True):
        if not -CREDIT <= value <= HIGHEST:
            raise InvalidState(f"has a correction of {value:g}")
        owed.value = value
    learner.tally.really_late, learner.tally.expected_late = _sound(np.array(state.lates)).tolist()
    if len(state.days) > _LONGEST_DAY or any(
        not 0 <= late <= started <= _LARGEST_NUMBER for _, started, late in state.days
    ):
        raise InvalidState("has a day of other hours")
    learner.tally.days.extend(state.days)
    *sums, best = state.contest
    width = len(PATTERNS)
    if any(len(numbers) != width**2 for numbers in sums) or not 0 <= best < width:
        raise InvalidState("has a contest of other patterns")
    weight, first, second = np.array(sums, dtype=np.float64).reshape(3, width, width)
    if not np.isfinite([weight, first, second]).all() or (weight < 0).any():
        raise InvalidState("has a contest that was not held")
    contest = learner.contest
    contest.weight, contest.first, contest.second, contest.best = weight, first, second, best
    if len(state.mix) > MOST_SHAPES:
        raise InvalidState(f"has {len(state.mix)} shapes, more than {MOST_SHAPES}")
    learner.mix.day = state.mix_day
    for name, row in state.mix.items():
        cpu, memory = (int(part) for part in name.split(","))
        if not (0 <= cpu < _LARGEST_NUMBER and 0 <= memory < _LARGEST_NUMBER):
            raise InvalidState(f"has a shape {name}")
        learner.mix.put((cpu, memory), _sound(np.frombuffer(row, dtype=np.float16, count=24)).astype(np.float32))
    return learner


def _floats(data: bytes, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    if len(data) != 4 * count:
        raise InvalidState("has a table of another size")
    return np.frombuffer(data, dtype=np.float32).astype(np.float64)


def _sound(
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]] | np.ndarray[tuple[int, ...], np.dtype[np.float16]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return finite numbers of 0 or more, and none that is absurd."""
    found = values.astype(np.float64)
    if not np.isfinite(found).all() or (found < 0).any() or (found > _LARGEST_NUMBER).any():
        raise InvalidState("has numbers that no learner has")
    return found
