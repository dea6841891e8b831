"""Bursts that the controller orders: cpu.cfs_burst_us (v1) or cpu.max.burst (v2) of single containers, reversibly.

What was there before is on disk before anything is written, so that a new agent can put it back. The kubelet has no
field for bursts and does not touch them, but kernels before 6.10 scramble the burst whenever cpu.max is written
(49217ea147df), and the kernel refuses a quota below the burst (tg_set_cfs_bandwidth): so each turn looks at the file
itself, and an order has to end before a limit is lowered. Only cgroups that this agent or one before it has sampled are
touched. A burst that somebody else writes over again and again is left to him for a while, longer each time
(`slack.process.contests`).
"""

import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slack.audit.api.messages import MAX_TEXT, BurstOrder, BurstState, text
from slack.audit.findings.sample import CgroupLevel, Sample
from slack.audit.sources.mounts import CpuMounts, InvalidMounts, find_mounts
from slack.process.atomic_write import write_atomically
from slack.process.contests import Contests, Verdict
from slack.process.logs import fields
from slack.process.outages import Outages

log = logging.getLogger(__name__)

STATE_FILE = "bursts.json"
GRACE_SECONDS = 900.0
"""How long a new agent waits for orders before it puts back what the agent before it wrote."""
_MOST_STATE_BYTES = 4 << 20

WRITTEN, REVERTED, FAILED = "written", "reverted", "failed"
BURST, SOMEBODY = "burst", "somebody"
"""What of a cgroup may be written over, and by whom: the file does not say it."""
OUTCOMES = (WRITTEN, REVERTED, FAILED)
Outcome = Callable[[str], None]


class NotWritten(Exception):
    """A burst that could not be read or written; the text says why."""


@dataclass(frozen=True, slots=True)
class WrittenBurst:
    """What is remembered of one container's burst."""

    pod_uid: str
    container_id: str
    former_us: int
    written_us: int


class BurstFiles:
    """Reads and writes the one file of a cgroup."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._mounts: CpuMounts | None = None

    def read_us(self, path: str) -> int | None:
        """Return a cgroup's burst; None where the cgroup is gone.

        Raises:
            NotWritten: it cannot be read.
        """
        try:
            descriptor = self._open(path, os.O_RDONLY)
            if descriptor is None:
                return None
            with os.fdopen(descriptor, "rb") as file:
                return int(file.read(64))
        except FileNotFoundError:
            raise NotWritten("this kernel has no CPU bursts; Linux 5.14 or newer has") from None
        except OSError as error:
            raise NotWritten(f"the burst cannot be read: {error.strerror}") from None
        except ValueError:
            raise NotWritten("the burst cannot be read: it is no number") from None

    def write_us(self, path: str, burst_us: int) -> None:
        """Set a cgroup's burst.

        Raises:
            NotWritten: the kernel, or the file system, does not let it.
        """
        try:
            descriptor = self._open(path, os.O_WRONLY)
            if descriptor is None:
                raise NotWritten("the cgroup is gone")
            try:
                os.write(descriptor, b"%d\n" % burst_us)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise NotWritten(f"the burst cannot be written: {error.strerror}") from None

    def _open(self, path: str, flags: int) -> int | None:
        if self._mounts is None:
            try:
                self._mounts = find_mounts(self._root)
            except InvalidMounts as error:
                raise NotWritten(str(error)) from None
        mount = self._mounts.cpu
        shown = path if mount.root == "/" else path.removeprefix(mount.root)
        directory = Path(mount.directory + shown)
        if not directory.is_dir():
            return None
        name = "cpu.max.burst" if mount.is_v2 else "cpu.cfs_burst_us"
        # never a link, never a new file: what is not the kernel's is not written
        return os.open(directory / name, flags | os.O_NOFOLLOW | os.O_CLOEXEC)


class BurstWriter:
    """Makes the node's bursts what the orders say. Owned by the agent's main thread."""

    def __init__(
        self,
        files: BurstFiles,
        state_dir: Path,
        *,
        clock: Callable[[], float],
        count: Outcome,
    ) -> None:
        self._files = files
        self._file = state_dir / STATE_FILE
        self._clock = clock
        self._count = count
        self._outages = Outages(clock)
        self._contests = Contests[str]()
        self._kept = self._load()
        self._orders: dict[tuple[str, str], tuple[BurstOrder, float]] = {}
        self._grace_until = clock() + GRACE_SECONDS if self._kept else float("-inf")
        self._unsaved = False
        self.states: tuple[BurstState, ...] = ()
        """What became of the orders, and of what could not be put back, at the last turn."""

    @property
    def remembers(self) -> bool:
        """Whether something that was written is still to be put back one day."""
        return bool(self._kept)

    def order(self, orders: Iterable[BurstOrder]) -> None:
        """Take in an answer's orders; those of earlier answers end."""
        now = self._clock()
        self._orders = {(order.pod_uid, order.container_id): (order, now + order.seconds) for order in orders}
        self._grace_until = float("-inf")

    def reconcile(self, samples: Iterable[Sample]) -> None:
        """Write what is ordered, put back what is not ordered any more; errors are in `states`, none is raised."""
        now = self._clock()
        self._orders = {key: order for key, order in self._orders.items() if order[1] > now}
        if not self._orders and not self._kept and not self._unsaved:
            self.states = ()
            return
        present = {
            (sample.target.pod_uid, sample.target.container_id): sample
            for sample in samples
            if sample.target.level is CgroupLevel.CONTAINER and sample.target.container_id
        }
        if self._unsaved:
            self._save(self._kept)
        states = [self._obey(order, present.get(key)) for key, (order, _) in self._orders.items()]
        if now >= self._grace_until:
            states += self._put_back(keep=self._orders.keys())
        self.states = tuple(states)

    def revert(self) -> None:
        """Forget all orders and put back everything that can be put back now."""
        self._orders = {}
        self.states = tuple(self._put_back(keep=()))

    def _obey(self, order: BurstOrder, sample: Sample | None) -> BurstState:
        burst_us, error = 0, ""
        try:
            if sample is None:
                raise NotWritten("no such container on this node")
            if sample.quota_us is None:
                raise NotWritten("the container has no CPU limit")
            burst_us = self._written(order, sample.target.path, min(order.burst_us, sample.quota_us))
        except NotWritten as problem:
            error = str(problem)
            self._failed(order.pod_uid, order.container_id, error)
        return BurstState(
            pod_uid=order.pod_uid, container_id=order.container_id, burst_us=burst_us, error=text(error, MAX_TEXT)
        )

    def _written(self, order: BurstOrder, path: str, wanted_us: int) -> int:
        """Make the file say what is wanted, the former value safely on disk before."""
        present_us = self._files.read_us(path)
        if present_us is None:
            raise NotWritten("the cgroup is gone")
        if present_us == wanted_us:
            return wanted_us
        kept = self._kept.get(path)
        if kept is not None and kept.written_us == wanted_us:
            self._take_back(path)
        former_us = kept.former_us if kept is not None else present_us
        remembered = WrittenBurst(order.pod_uid, order.container_id, former_us, wanted_us)
        if kept != remembered and not self._save({**self._kept, path: remembered}) and kept is None:
            raise NotWritten(f"what was there before cannot be remembered in {self._file}")
        self._kept[path] = remembered
        self._files.write_us(path, wanted_us)
        self._count(WRITTEN)
        said = fields(path=path, burst_us=wanted_us, before_us=present_us)
        log.info("wrote a CPU burst", extra=said)
        return wanted_us

    def _take_back(self, path: str) -> None:
        """Count a burst that somebody has written over.

        Raises:
            NotWritten: it is left to him now.
        """
        now = self._clock()
        if self._contests.written(path, BURST, SOMEBODY, now) is not Verdict.LEAVE:
            return
        contest = next(contest for contest in self._contests.standing(now) if contest.subject == path)
        minutes = round(contest.pause_seconds / 60)
        raise NotWritten(f"somebody else writes the burst over each time: it is left alone for {minutes} min at a time")

    def _put_back(self, keep: Iterable[tuple[str, str]]) -> list[BurstState]:
        """Put back what has no order; returns what could not be."""
        ordered, stuck, done = set(keep), [], []
        for path, kept in self._kept.items():
            if (kept.pod_uid, kept.container_id) in ordered:
                continue
            try:
                present_us = self._files.read_us(path)
                if present_us is not None and self._is_ours(present_us, kept):
                    self._files.write_us(path, kept.former_us)
                    self._count(REVERTED)
                    log.info("put a CPU burst back", extra=fields(path=path, burst_us=kept.former_us))
                done.append(path)
            except NotWritten as problem:
                self._failed(kept.pod_uid, kept.container_id, str(problem))
                error = text(str(problem), MAX_TEXT)
                stuck.append(
                    BurstState(
                        pod_uid=kept.pod_uid, container_id=kept.container_id, burst_us=kept.written_us, error=error
                    )
                )
        if done:
            self._kept = {path: kept for path, kept in self._kept.items() if path not in done}
            self._save(self._kept)
        return stuck

    @staticmethod
    def _is_ours(present_us: int, kept: WrittenBurst) -> bool:
        """Whether a burst is what was written here, or that after the kernel scrambled it; else it is another's."""
        return present_us != kept.former_us and present_us <= kept.written_us

    def _failed(self, pod_uid: str, container_id: str, problem: str) -> None:
        self._count(FAILED)
        if self._outages.is_new(problem):
            log.warning("a CPU burst: %s", problem, extra=fields(pod_uid=pod_uid, container_id=container_id))

    def _save(self, kept: Mapping[str, WrittenBurst]) -> bool:
        document = {
            path: {
                "pod_uid": burst.pod_uid,
                "container_id": burst.container_id,
                "former_us": burst.former_us,
                "written_us": burst.written_us,
            }
            for path, burst in kept.items()
        }
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(
                self._file, json.dumps({"bursts": document}, indent=1).encode(errors="surrogatepass") + b"\n"
            )
        except OSError as error:
            self._unsaved = True
            if self._outages.is_new(f"state {error.errno}"):
                log.warning("state file %s: cannot be written: %s", self._file, error.strerror)
            return False
        self._unsaved = False
        return True

    def _load(self) -> dict[str, WrittenBurst]:
        try:
            with self._file.open("rb") as file:
                document = json.loads(file.read(_MOST_STATE_BYTES))
            return {
                str(path): WrittenBurst(
                    str(burst["pod_uid"]), str(burst["container_id"]), int(burst["former_us"]), int(burst["written_us"])
                )
                for path, burst in document["bursts"].items()
            }
        except FileNotFoundError:
            return {}
        except OSError as error:
            log.warning("state file %s: cannot be read: %s", self._file, error.strerror)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            log.warning("state file %s: is not what was written there; nothing of it is put back", self._file)
        return {}
