"""The cAdvisor of every node through the API server: no agent, no Prometheus, two scrapes a minute apart.

GET /api/v1/nodes/NAME/proxy/metrics/cadvisor needs get on nodes/proxy, a right for people rather than programs: it
reaches everything that the kubelet offers, running commands in pods among it. Each body is read as it comes and
dropped; what stays of a node is a sample a cgroup. Samples carry the times at which cAdvisor read the cgroups, so two
calls within its 10 to 15 s may find the same ones: a window needs a minute.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, NamedTuple

from slack.audit.findings.sample import CgroupNodeFacts, ReadError, Sample, Sampled
from slack.audit.sources.cadvisor import CadvisorScrape, Scraped
from slack.audit.sources.node_objects import AuditedNode
from slack.cli.terminal.problems import UserError
from slack.cli.terminal.progress import ProgressSteps

if TYPE_CHECKING:
    from slack.kube.connection import Connection, Stream

CONCURRENCY = 16
_MOST_CONCURRENCY = 32
"""As many connections as one `Connection` keeps."""
_TIMEOUT_SECONDS = (5.0, 15.0)
_GLANCE_SECONDS = 0.5
_NAMED = 5
_SILENT = "no more of an answer"


class _Answer(NamedTuple):
    scraped: Scraped | None
    trouble: ReadError | None = None
    why: str = ""


class ClusterSource:
    """All nodes of a cluster, or some, through their API server.

    Usage:

        with contextlib.closing(ClusterSource(connect(None, None))) as source:
            before = source.sample()
            time.sleep(60)
            windows = compare(before, source.sample())
    """

    def __init__(
        self,
        connection: "Connection",
        nodes: Sequence[str] = (),
        *,
        concurrency: int = CONCURRENCY,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Take over a connection.

        Args:
            connection: Closed by `close`.
            nodes: Names; all nodes when empty.
            concurrency: How many nodes at once, at most 32.
            clock: Unix seconds.
        """
        self._connection = connection
        self._wanted = tuple(dict.fromkeys(nodes))
        self._concurrency = max(1, min(concurrency, _MOST_CONCURRENCY))
        self._clock = clock
        self._streams: set[Stream] = set()
        self._lock = threading.Lock()
        self._stopping = False
        self._read = False
        """Some node has answered once."""
        self.silent: Mapping[str, str] = {}
        """Nodes that gave nothing at the last call, and why."""

    def sample(self) -> Sampled:
        """Scrape every node once.

        Raises:
            UserError: a wanted node is not there, no node may be scraped, or none has ever answered.
            KubeError: the list of nodes cannot be had.
        """
        nodes = self._nodes()
        answers = self._answers(nodes)
        forbidden = [name for name, answer in answers.items() if answer.trouble is ReadError.FORBIDDEN]
        if forbidden and len(forbidden) == len(answers):
            raise UserError(
                f"{answers[forbidden[0]].why}\n"
                "scraping through the API server needs `get` on nodes/proxy. That is a strong right: it reaches "
                "everything that a kubelet offers, commands in pods among it. With --prometheus none is needed"
            )
        self._read = self._read or any(answer.scraped is not None for answer in answers.values())
        if not self._read:
            first = next(iter(answers.values()))
            raise UserError(f"no node's cAdvisor can be read, of {len(answers)}: {first.why}")
        self.silent = {name: answer.why for name, answer in answers.items() if answer.scraped is None}
        return _together(nodes, answers)

    def close(self) -> None:
        """End what is still being read, and the connection."""
        self._abort()
        self._connection.close()

    def _nodes(self) -> dict[str, AuditedNode]:
        from slack.kube.paging import list_all
        from slack.kube.paths import resource_path

        found = {
            node.metadata.name: node for node in list_all(self._connection, resource_path("v1", "nodes"), AuditedNode)
        }
        if missing := [name for name in self._wanted if name not in found]:
            known = ", ".join(sorted(found)[:_NAMED]) + (" ..." if len(found) > _NAMED else "")
            raise UserError(f"--node: there is no node {missing[0]!r} (there are: {known or 'none'})")
        if not found:
            raise UserError("the cluster has no nodes")
        if self._wanted:
            if others := [name for name in self._wanted if not found[name].is_linux]:
                raise UserError(f"--node: {others[0]} is no Linux node, and so has no CFS quotas")
            return {name: found[name] for name in self._wanted}
        judged = {name: node for name, node in found.items() if node.is_linux}
        if not judged:
            raise UserError("the cluster has no Linux nodes, and only these have CFS quotas")
        return judged

    def _answers(self, nodes: Mapping[str, AuditedNode]) -> dict[str, _Answer]:
        """Return each node's answer, in the order of `nodes`."""
        self._stopping = False
        answers: dict[str, _Answer] = {}
        threads = ThreadPoolExecutor(min(self._concurrency, len(nodes)), thread_name_prefix="scrape")
        try:
            with ProgressSteps() as steps:
                tell = steps.add_step(f"scraping {len(nodes)} node{'s' if len(nodes) != 1 else ''}")
                under_way: dict[Future[_Answer], str] = {threads.submit(self._scrape, name): name for name in nodes}
                began = time.monotonic()
                while under_way:
                    for done in wait(under_way, timeout=_GLANCE_SECONDS, return_when=FIRST_COMPLETED).done:
                        answers[under_way.pop(done)] = done.result()
                    tell(len(answers) / len(nodes))
                    if under_way and self._silent_since(began):
                        for name in under_way.values():
                            answers[name] = _Answer(None, ReadError.NO_ANSWER, f"{name}: {_SILENT}")
                        self._abort()
                        break
        except BaseException:
            # Ctrl-C, too: nobody waits half a minute for kubelets that do not answer.
            threads.shutdown(wait=False, cancel_futures=True)
            self._abort()
            raise
        threads.shutdown(wait=not under_way, cancel_futures=True)
        return {name: answers[name] for name in nodes}

    def _silent_since(self, began: float) -> bool:
        """Whether no node says anything any more: who is left would be waited for one after the other."""
        deadline = self._connection.deadline
        return deadline is not None and deadline.over(began) >= 0

    def _scrape(self, name: str) -> _Answer:
        from slack.kube.errors import ApiError, Unreachable
        from slack.kube.paths import resource_path

        path = resource_path("v1", "nodes", name=name) + "/proxy/metrics/cadvisor"
        scrape = CadvisorScrape(name, self._clock())
        try:
            with self._connection.stream(path, timeout=_TIMEOUT_SECONDS, gzip=True) as stream:
                with self._lock:
                    if self._stopping:
                        return _Answer(None, ReadError.NO_ANSWER, f"{name}: given up")
                    self._streams.add(stream)
                try:
                    for chunk in stream.chunks():
                        scrape.feed(chunk)
                finally:
                    with self._lock:
                        self._streams.discard(stream)
        except ApiError as error:
            refused = error.status in (401, 403)
            return _Answer(None, ReadError.FORBIDDEN if refused else ReadError.NO_ANSWER, f"{name}: {error}")
        except Unreachable as error:
            # What came before it broke off is no whole scrape: half of a node's cgroups would look gone.
            return _Answer(None, ReadError.NO_ANSWER, f"{name}: {error}")
        return _Answer(scrape.finish())

    def _abort(self) -> None:
        with self._lock:
            self._stopping = True
            streams = list(self._streams)
        for stream in streams:
            stream.abort()


def _together(nodes: Mapping[str, AuditedNode], answers: Mapping[str, _Answer]) -> Sampled:
    samples: list[Sample] = []
    facts: dict[str, CgroupNodeFacts] = {}
    troubles: Counter[ReadError] = Counter()
    examples: dict[ReadError, str] = {}
    failed: dict[ReadError, list[str]] = {}
    for name, answer in answers.items():
        facts[name] = _facts(nodes[name], answer.scraped)
        if answer.scraped is not None:
            samples += answer.scraped.samples
            troubles.update(answer.scraped.troubles)
            examples = dict(answer.scraped.examples) | examples
        elif answer.trouble is not None:
            troubles[answer.trouble] += 1
            examples.setdefault(answer.trouble, answer.why)
            failed.setdefault(answer.trouble, []).append(name)
    for trouble, names in failed.items():
        if len(names) > 1:
            more = f" and {len(names) - 1 - _NAMED} more" if len(names) - 1 > _NAMED else ""
            examples[trouble] += f" (also {', '.join(names[1 : 1 + _NAMED])}{more})"
    return Sampled(tuple(samples), facts, dict(troubles), examples)


def _facts(node: AuditedNode, scraped: Scraped | None) -> CgroupNodeFacts:
    """Return what the Node says; where it says nothing, what the kubelet's cAdvisor does."""
    seen = scraped or Scraped((), {}, {}, None, "", "")
    return CgroupNodeFacts(
        node.cpus or seen.cpus,
        node.kernel_release or seen.kernel_release,
        hierarchy=seen.hierarchy,
    )
