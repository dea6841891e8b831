"""How old a status is while the load moves, and how often it is written: `STATUS_SECONDS=600` prints the figures.

Two watches of one process see the placeholder pods change and the status follow. What the API server and this machine
take for a write and its event is measured in the same minutes, by a write of the suite's own, and allowed for.
"""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from e2e.harness.api import Api, Json
from e2e.harness.cluster import audit_log, kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, deployment, scale, wait_for_running, wait_until
from e2e.harness.pod_times import percentile
from e2e.harness.product.figure_ages import Counts, Promise, Seen
from e2e.harness.product.operator import (
    NAMESPACE,
    PLACEHOLDERS,
    POLICIES,
    Operator,
    placeholders,
    policy,
    status,
    wait_until_placed,
)
from slack_operator.placeholders.report.status import COUNTERS_SECONDS, MOVING_SECONDS

SECONDS = float(os.environ.get("STATUS_SECONDS", "60"))
PROMISED_SECONDS = 3.0
FLAGS = os.environ.get("STATUS_FLAGS", "--interval=10s").split()
"""As users start it: the interval is the product's, not the suites'."""
PROBE = "/api/v1/namespaces/default/configmaps/probe"


@contextmanager
def watched(api: Api, path: str, take: Callable[[Json], None], **query: str) -> Iterator[None]:
    """Read a watch on a thread of its own."""
    watch = api.watch(path, seconds=3600, **query)

    def read() -> None:
        try:
            for event in watch:
                take(event)
        except Exception:
            if not stopped.is_set():
                raise

    stopped = threading.Event()
    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        watch.stop()
        thread.join(10)


@contextmanager
def probed(api: Api) -> Iterator[list[float]]:
    """Write an object every half second, and note how long it takes until a watch shows it."""
    api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}, "data": {"at": "-1"}})
    took, written, stopped = list[float](), list[float](), threading.Event()

    def shown(event: Json) -> None:
        number = int(event["object"]["data"]["at"])
        if number >= 0 and event["type"] == "MODIFIED":
            took.append(time.monotonic() - written[number])

    def write() -> None:
        while not stopped.wait(0.5):
            written.append(time.monotonic())
            api.patch(PROBE, {"data": {"at": str(len(written) - 1)}})

    name = {"fieldSelector": "metadata.name=probe"}
    with watched(api, PROBE.removesuffix("/probe"), shown, **name):
        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        try:
            yield took
        finally:
            stopped.set()
            thread.join(30)


def counts_of(told: Json) -> Counts:
    return sum(shape["bound"] for shape in told.get("shapes", ())), int(told.get("pending", 0))


class Follower:
    """Fills `seen` from the two watches."""

    def __init__(self) -> None:
        self.seen = Seen()
        self._on_node = dict[str, bool]()

    def pod_event(self, event: Json) -> None:
        pod = event["object"]
        uid, gone = pod["metadata"]["uid"], "deletionTimestamp" in pod["metadata"] or event["type"] == "DELETED"
        self._on_node.pop(uid, None)
        if not gone:
            self._on_node[uid] = bool(pod["spec"].get("nodeName"))
        bound = sum(self._on_node.values())
        self.seen.now_true(time.monotonic(), (bound, len(self._on_node) - bound))

    def policy_event(self, event: Json) -> None:
        self.seen.told.append((time.monotonic(), counts_of(event["object"].get("status") or {})))


def move(api: Api, seconds: float) -> float:
    """Scale a load up and down for so long; returns for how long it was."""
    began, dice = time.monotonic(), random.Random(7)
    while time.monotonic() - began < seconds:
        scale(api, "burst", dice.randint(0, 30))
        time.sleep(dice.uniform(0.3, 3.0))
    return time.monotonic() - began


def test_while_the_load_moves_a_status_is_of_three_seconds_ago_at_most_and_is_not_written_more_than_once_in_two(
    cluster: Backend,
) -> None:
    api = cluster.api
    create_all(api, [kwok.node(f"node-{i}") for i in range(6)])
    api.create(deployment("api", 12, cpu="400m", memory="512Mi"))
    wait_for_running(api, 12, 60)
    follower = Follower()
    with Operator(cluster, *FLAGS) as operator, ExitStack() as open_while_it_moves:
        operator.wait_until_ready()
        api.create(policy("web", extraCapacity={"minRate": 0.5}))
        wait_until_placed(api, "web", 60)
        api.create(deployment("burst", 0, cpu="700m", memory="512Mi"))
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        open_while_it_moves.enter_context(watched(api, pods, follower.pod_event, labelSelector=PLACEHOLDERS))
        open_while_it_moves.enter_context(watched(api, POLICIES, follower.policy_event))
        took = open_while_it_moves.enter_context(probed(api))
        mark, began = cluster.audit_mark(), time.monotonic()
        moved = move(api, SECONDS)
        writes = cluster.audit_entries(user=operator.user, verbs=audit_log.WRITES, since=mark)
        scale(api, "burst", 0)

        def agreed() -> bool:
            there = len(placeholders(api, bound=True)), len(placeholders(api, bound=False))
            return counts_of(status(api, "web")) == there

        wait_until(agreed, COUNTERS_SECONDS / 2, "a status that says what is there")
    statuses = [entry for entry in writes if entry.resource == "resource-slack.io/slackpolicies/status"]
    changes = follower.seen.change_ages(began, began + moved)
    shown = follower.seen.shown_ages(began, began + moved)
    promise = Promise(PROMISED_SECONDS, percentile(took, 99))
    print(
        f"\n{len(changes)} changes in {moved:.0f} s; in the status after p50 {percentile(changes, 50):.2f} s, "
        f"p99 {percentile(changes, 99):.2f} s, at most {changes[-1]:.2f} s; what is shown was true p99 "
        f"{percentile(shown, 99):.2f} s ago; {len(statuses)} writes of it; a write of the suite's is in a watch after "
        f"p99 {promise.server_seconds:.2f} s, so that {promise.bound_seconds:.2f} s are allowed"
    )
    assert len(changes) > SECONDS / 3, "the load must have moved placeholders"
    assert 3 < len(statuses) <= moved / MOVING_SECONDS + 2
    assert promise.kept_by(changes)
    assert promise.kept_by(shown)
