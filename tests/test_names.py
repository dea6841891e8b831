"""What names of the product must keep: one class per name, verbs or nouns for functions, and no word that was replaced.

The counts of participles only shrink: whoever renames one lowers the count of its package.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("slack", "operator/slack_operator")

REPLACED: dict[str, str] = {
    "GoesOn": "ShouldSend",
    "Hands": "EvictionWriter",
    "Lanes": "PipelinedClient",
    "Lender": "ReplicaSetSuspender",
    "Loan": "Suspension",
    "Loans": "Suspensions",
    "Patience": "Deadline",
    "Brake": "CreationBlock",
    "brake": "creation_block",
    "Hindrance": "PreemptionBlocker",
    "Parts": "Components",
    "Rhythm": "PeriodicTimer",
    "SparedWaits": "SavedWaits",
    "Then": "TimeoutAction",
    "RoomBuilder": "ClusterCapacityBuilder",
    "Foundation": "ProcessContext",
    "hasten": "flush",
    "begun": "plan_started",
    "Desk": "GrantCoordinator",
    "desk": "grant_coordinator",
    "Book": "DesiredPools",
    "Books": "PoolRegistry",
    "book": "pool_registry",
    "Board": "PageState, TickState, ReportStore",
    "put_up": "publish",
    "Doorbell": "ProbeServer",
    "doorbell": "probe_server",
    "Family": "MetricDefinition",
    "Trouble": "ReadError",
    "Troubles": "ReadErrorCounts",
    "What": "StartEventType",
    "Keeper": "HistoryStore",
    "keeper": "history_store",
    "Teller": "EventReporter",
    "Telling": "BurstReporter, StartListener",
    "telling": "burst_reporter, event_reporter",
    "Seat": "ExpectedPods",
    "Served": "BurstResult",
    "Site": "PolicyScope",
    "Sites": "PolicyScopes",
    "Surroundings": "SchedulerHooks",
    "Taught": "TrainedObjective",
    "Teaching": "Training",
    "Way": "TrackedBurst",
    "Where": "ControllerAddress",
    "burst_ledger": "burst_tracker",
    "hands": "eviction_writer",
    "lanes": "pipelining",
    "lender": "replica_set_suspender",
    "lent": "suspended",
    "rhythm": "periodic_timer",
    "taught": "train",
    "teach": "train",
    "teaching": "training",
    "trusts": "is_allowed",
    "vocabulary": "documents",
}
"""Names that no class, function or module has any more, and what is said in their place."""

PARTICIPLES = {
    "operator/slack_operator/auditor": 16,
    "operator/slack_operator/demand": 35,
    "operator/slack_operator/learning": 3,
    "operator/slack_operator/loadwatcher": 6,
    "operator/slack_operator/placeholders": 44,
    "operator/slack_operator/runtime": 14,
    "operator/slack_operator/scorer": 4,
    "operator/slack_operator/throttler": 33,
    "operator/slack_operator/web": 1,
    "slack/audit": 32,
    "slack/cli": 21,
    "slack/cluster": 39,
    "slack/demand": 10,
    "slack/health": 3,
    "slack/kube": 13,
    "slack/loadtest": 2,
    "slack/loadwatcher": 1,
    "slack/migration": 3,
    "slack/planner": 81,
    "slack/process": 8,
    "slack/scorer": 2,
    "slack/simulator": 47,
    "slack/supervision": 3,
    "slack/throttler": 14,
}
"""How many functions of each package are still named by a bare participle, at most."""

IRREGULAR = frozenset(
    {
        *("asked", "begun", "bound", "broken", "brought", "built", "caught", "chosen", "done", "drawn", "driven"),
        *("found", "given", "gone", "grown", "heard", "held", "hidden", "kept", "known", "learnt", "lent", "lost"),
        *("made", "meant", "met", "paid", "risen", "said", "seen", "sent", "shown", "sold", "spent", "taken"),
        *("told", "torn", "understood", "won", "written"),
    }
)
"""Participles that do not end in -ed."""
WITHOUT_OBJECT = frozenset({"add", "of", "take", "tell", "turn"})
"""No method of a class of ours is called so: it names what it adds, takes or writes."""
MOST_LINES = 60
"""Of a function, with its docstring; its complexity is bounded by ruff (pyproject.toml)."""
NO_PARTICIPLES = frozenset({"exceed", "feed", "heed", "need", "proceed", "seed", "speed"})


@cache
def definitions() -> tuple[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef], ...]:
    """List each class and function of the product with the path of its module."""

    def each() -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
        for folder in PRODUCT:
            for path in sorted((ROOT / folder).rglob("*.py")):
                name = path.relative_to(ROOT).as_posix()
                for node in statements(ast.parse(path.read_text()).body):
                    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                        yield name, node

    return tuple(each())


def statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield all statements at any depth, without the expressions in them, which are most of a tree."""
    for statement in body:
        yield statement
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(statement, field, ()))


def is_participle(name: str) -> bool:
    """Tell whether a function's name is one participle and nothing else."""
    word = name.strip("_")
    return "_" not in word and (word in IRREGULAR or (word.endswith("ed") and word not in NO_PARTICIPLES))


def package_of(path: str) -> str:
    """Name the package of a module: two folders of the library, three of what runs in a cluster."""
    return "/".join(path.split("/")[: 3 if path.startswith("operator/") else 2])


def participles() -> dict[str, list[str]]:
    found = defaultdict(list)
    for path, node in definitions():
        if not isinstance(node, ast.ClassDef) and is_participle(node.name):
            found[package_of(path)].append(f"{path}:{node.lineno} {node.name}")
    return found


@pytest.mark.parametrize(
    ("name", "is_one"), [("told", True), ("_kept", True), ("rejected", True), ("need", False), ("keep_told", False)]
)
def test_a_participle_is_known_as_one(name: str, is_one: bool) -> None:
    assert is_participle(name) is is_one


def test_every_public_class_name_stands_for_one_class() -> None:
    places = defaultdict(list)
    for path, node in definitions():
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            places[node.name].append(f"{path}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_package_gets_more_functions_named_by_a_bare_participle() -> None:
    too_many = {package: names for package, names in participles().items() if len(names) > PARTICIPLES.get(package, 0)}
    assert too_many == {}, "give these a verb, or a noun that says what they return"


def test_a_method_names_its_object() -> None:
    bare = [
        f"{path}:{method.lineno} {node.name}.{method.name}"
        for path, node in definitions()
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.name in WITHOUT_OBJECT
    ]
    assert bare == []


def test_no_function_of_the_product_is_longer_than_a_screen() -> None:
    lengths = {
        f"{path}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path, node in definitions()
        if not isinstance(node, ast.ClassDef)
    }
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def test_words_that_were_replaced_do_not_come_back() -> None:
    defined = Counter(node.name.strip("_") for _, node in definitions())
    modules = {Path(path).stem for path, _ in definitions()}
    assert {old: new for old, new in REPLACED.items() if old in defined or old in modules} == {}
