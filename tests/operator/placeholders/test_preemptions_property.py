"""Whatever happens on two nodes, the pods that hang are those that the definition names, read off the whole history."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from slack_operator.placeholders.view.hangs import PATIENCE_SECONDS
from slack_operator.placeholders.view.preemptions import AROUND_SECONDS
from tests.operator.placeholders.test_preemptions import Cluster, pod, preemptor, victim

NODES, PODS, VICTIMS = ("n1", "n2"), ("a", "b"), ("v", "w")
PRIORITIES = {"a": 0, "b": 5, "v": -10, "w": 3}
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["create", "bind", "delete", "unpromise"]), st.sampled_from(PODS), st.just("n1")),
        st.tuples(st.sampled_from(["promise", "assume"]), st.sampled_from(PODS), st.sampled_from(NODES)),
        st.tuples(st.sampled_from(["mark", "unmark", "leave"]), st.sampled_from(VICTIMS), st.sampled_from(NODES)),
        st.tuples(st.just("wait"), st.sampled_from(["1", "14", "16", "50"]), st.just("")),
    ),
    max_size=25,
)


@dataclass
class History:
    """All that happened, and the definition of a hang over it."""

    now: float = 0.0
    created: dict[str, float] = field(default_factory=dict)
    promised: dict[str, tuple[str, float, bool]] = field(default_factory=dict)
    """Node, since when, and whether the scheduler's last word is that the pod does not fit."""
    marked: dict[str, str] = field(default_factory=dict)
    left: list[tuple[float, str, int]] = field(default_factory=list)

    def hangs(self) -> list[str]:
        return sorted(name for name in self.promised if self._hangs(name))

    def _hangs(self, name: str) -> bool:
        node, since, unschedulable = self.promised[name]
        earliest = max(self.created[name], since - AROUND_SECONDS)
        leaves = [(at, priority) for at, where, priority in self.left if where == node and at >= earliest]
        return (
            unschedulable
            and node not in self.marked.values()
            and any(priority < PRIORITIES[name] for _, priority in leaves)
            and self.now - max(since, *(at for at, _ in leaves)) >= PATIENCE_SECONDS
        )


def play(cluster: Cluster, history: History, step: str, name: str, node: str) -> None:
    spec = {"priority": PRIORITIES.get(name, 0)}
    match step:
        case "wait":
            cluster.clock.now += float(name)
            history.now += float(name)
        case "create" if name not in history.created:
            cluster.see(pod(name, spec=spec))
            history.created[name] = history.now
        case "promise" | "assume" if name in history.created:
            conditions: list[dict[str, str]] = [{}] if step == "assume" else []
            cluster.see(preemptor(name, node, *conditions, spec=spec))
            before = history.promised.get(name)
            since = before[1] if before is not None and before[0] == node else history.now
            history.promised[name] = (node, since, step == "promise")
        case "unpromise" if name in history.created:
            cluster.see(pod(name, spec=spec))
            history.promised.pop(name, None)
        case "bind" | "delete" if name in history.created:
            if step == "bind":
                cluster.see(pod(name, node, spec=spec))
            cluster.lose(pod(name, node if step == "bind" else "", spec=spec))
            history.promised.pop(name, None)
            del history.created[name]
        case "mark":
            cluster.see(victim(name, node, PRIORITIES[name]))
            history.marked[name] = node
        case "unmark":
            cluster.see(pod(name, node, spec=spec))
            history.marked.pop(name, None)
        case "leave":
            node = history.marked.pop(name, node)
            cluster.lose(victim(name, node, PRIORITIES[name]))
            history.left.append((history.now, node, PRIORITIES[name]))
        case _:
            pass


@given(STEPS)
def test_those_hang_whom_the_definition_names(steps: list[tuple[str, str, str]]) -> None:
    cluster, history = Cluster(), History()
    for step in steps:
        play(cluster, history, *step)
        assert cluster.hangs() == history.hangs()
