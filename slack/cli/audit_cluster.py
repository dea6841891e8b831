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
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from slack.cfs.cadvisor import Scrape, Scraped
from slack.cfs.sample import NodeFacts, Sample, Sampled, Trouble
from slack.cli.problems import UserError
from slack.cli.progress import Steps

if TYPE_CHECKING:
    from slack.kube.connection import Connection, Stream

CONCURRENCY = 16
_MOST_CONCURRENCY = 32
"""As many connections as one `Connection` keeps."""
_TIMEOUT_SECONDS = (5.0, 30.0)
_NAMED = 5


class _Metadata(msgspec.Struct):
    name: str = ""


class _NodeInfo(msgspec.Struct, rename="camel"):
    kernel_version: str = ""


class _Status(msgspec.Struct, rename="camel"):
    capacity: dict[str, str] = msgspec.field(default_factory=dict)
    node_info: _NodeInfo = msgspec.field(default_factory=_NodeInfo)


class Node(msgspec.Struct):
    """What is needed of a Node."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: _Status = msgspec.field(default_factory=_Status)


class _Answer(NamedTuple):
    scraped: Scraped | None
    trouble: Trouble | None = None
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
        self.silent: Mapping[str, str] = {}
        """Nodes that gave nothing at the last call, and why."""

    def sample(self) -> Sampled:
        """Scrape every node once.

        Raises:
            UserError: a wanted node is not there, or no node may be scraped.
            KubeError: the list of nodes cannot be had.
        """
        nodes = self._nodes()
        answers = self._answers(nodes)
        forbidden = [name for name, answer in answers.items() if answer.trouble is Trouble.FORBIDDEN]
        if forbidden and len(forbidden) == len(answers):
            raise UserError(
                f"{answers[forbidden[0]].why}\n"
                "scraping through the API server needs `get` on nodes/proxy. That is a strong right: it reaches "
                "everything that a kubelet offers, commands in pods among it. With --prometheus none is needed"
            )
        self.silent = {name: answer.why for name, answer in answers.items() if answer.scraped is None}
        return _together(nodes, answers)

    def close(self) -> None:
        """End what is still being read, and the connection."""
        self._abort()
        self._connection.close()

    def _nodes(self) -> dict[str, Node]:
        from slack.cli.cluster import Page, listed

        found = {node.metadata.name: node for node in listed(self._connection, "v1", "nodes", Page[Node])}
        if missing := [name for name in self._wanted if name not in found]:
            known = ", ".join(sorted(found)[:_NAMED]) + (" ..." if len(found) > _NAMED else "")
            raise UserError(f"--node: there is no node {missing[0]!r} (there are: {known or 'none'})")
        if not found:
            raise UserError("the cluster has no nodes")
        return {name: found[name] for name in self._wanted} if self._wanted else found

    def _answers(self, nodes: Mapping[str, Node]) -> dict[str, _Answer]:
        """Return each node's answer, in the order of `nodes`."""
        self._stopping = False
        answers: dict[str, _Answer] = {}
        threads = ThreadPoolExecutor(min(self._concurrency, len(nodes)), thread_name_prefix="scrape")
        try:
            with Steps() as steps:
                tell = steps.add(f"scraping {len(nodes)} node{'s' if len(nodes) != 1 else ''}")
                under_way: dict[Future[_Answer], str] = {threads.submit(self._scrape, name): name for name in nodes}
                for done in as_completed(under_way):
                    answers[under_way[done]] = done.result()
                    tell(len(answers) / len(nodes))
        except BaseException:
            # Ctrl-C, too: nobody waits half a minute for kubelets that do not answer.
            threads.shutdown(wait=False, cancel_futures=True)
            self._abort()
            raise
        threads.shutdown()
        return {name: answers[name] for name in nodes}

    def _scrape(self, name: str) -> _Answer:
        from slack.kube.errors import ApiError, Unreachable
        from slack.kube.paths import resource_path

        path = resource_path("v1", "nodes", name=name) + "/proxy/metrics/cadvisor"
        scrape = Scrape(name, self._clock())
        try:
            with self._connection.stream(path, timeout=_TIMEOUT_SECONDS, gzip=True) as stream:
                with self._lock:
                    if self._stopping:
                        return _Answer(None, Trouble.NO_ANSWER, f"{name}: given up")
                    self._streams.add(stream)
                try:
                    for chunk in stream.chunks():
                        scrape.feed(chunk)
                finally:
                    with self._lock:
                        self._streams.discard(stream)
        except ApiError as error:
            refused = error.status in (401, 403)
            return _Answer(None, Trouble.FORBIDDEN if refused else Trouble.NO_ANSWER, f"{name}: {error}")
        except Unreachable as error:
            # What came before it broke off is no whole scrape: half of a node's cgroups would look gone.
            return _Answer(None, Trouble.NO_ANSWER, f"{name}: {error}")
        return _Answer(scrape.finish())

    def _abort(self) -> None:
        with self._lock:
            self._stopping = True
            streams = list(self._streams)
        for stream in streams:
            stream.abort()


def _together(nodes: Mapping[str, Node], answers: Mapping[str, _Answer]) -> Sampled:
    samples: list[Sample] = []
    facts: dict[str, NodeFacts] = {}
    troubles: Counter[Trouble] = Counter()
    examples: dict[Trouble, str] = {}
    failed: dict[Trouble, list[str]] = {}
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


def _facts(node: Node, scraped: Scraped | None) -> NodeFacts:
    """Return what the Node says; where it says nothing, what the kubelet's cAdvisor does."""
    seen = scraped or Scraped((), {}, {}, None, "", "")
    return NodeFacts(
        _cpus(node.status.capacity.get("cpu", "")) or seen.cpus,
        node.status.node_info.kernel_version or seen.kernel_release,
        hierarchy=seen.hierarchy,
    )


def _cpus(quantity: str) -> int | None:
    """Return whole CPUs of a Node's capacity; None where it is none."""
    from slack.cluster.quantity import QuantityError, thousandths

    try:
        return thousandths(quantity) // 1000 or None
    except QuantityError:
        return None
