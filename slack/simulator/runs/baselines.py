"""What a comparison sets side by side: the scenario with another slack, named in one word each.

none                            no slack
own                             the slack that the scenario names
rate=0.1                        the operator, with this rate
rate=auto                       the operator, with the constant rate that costs what the variant before it costs
objective=0.99                  the operator, with this objective in place of a rate
cover=Everything                the operator, with this cover; combines: rate=0.1+cover=Everything
hold=Unbound                    the operator, with this form of placeholders; combines: rate=0.1+hold=Bound
static=10x500m/1Gi              a Deployment of pause pods
static=auto                     the same, as many as cost what the operator costs: the variant of it that stands before
proportional=1x500m/1Gi/16cores cluster-proportional-autoscaler: so many pods for every so many cores (or nodes)
proportional=auto               the same, for as many cores each as it takes to cost what the operator costs

A variant's label is its word, and in brackets what the word leaves open: own (rate=0.6), cover=Everything (rate=0.1).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from slack.cluster.hold import Hold
from slack.cluster.quantity import QuantityError, amount, format_cpu, format_memory
from slack.errors import InvalidInput
from slack.planner.policy.spec import CoverMode, Objective
from slack.simulator.scenario import validation_errors
from slack.simulator.scenario.inventory import ScenarioWorkload
from slack.simulator.scenario.scenario import Scenario, problems_of
from slack.simulator.scenario.slack_kinds import NoSlack, Policies, Proportional, Slack, Static

CORE_HOURS = "core hours"
NODE_HOURS = "node hours"
Overprovisioner = TypeVar("Overprovisioner", Static, Proportional)
Sized = Static | Proportional | Policies
"""Slack whose size can be found by what it costs."""
_STATIC = re.compile(r"(?P<count>\d+)x(?P<cpu>[^/]+)/(?P<memory>[^/]+)")
_PROPORTIONAL = re.compile(r"(?P<count>\d+)x(?P<cpu>[^/]+)/(?P<memory>[^/]+)/(?P<every>\d+(\.\d+)?)(?P<of>cores|nodes)")
_MOST_FILLERS = 100_000
_FIRST_RATE, _LARGEST_RATE, _RATE_DIGITS = 0.1, 10.0, 4
_MOST_RATES = 6
"""So many rates are tried at most."""
_NEAR = 0.02
"""A rate is as dear as wanted if it is so near: a share of what slack costs."""
_AUTO = ("rate=auto", "static=auto", "proportional=auto")
_CORES = 1000.0
"""The size of a proportional overprovisioner is its pods for so many cores: more is more, as of a static one."""
_NAMES_SHOWN = 2
_SAME_SIZE = 1.05
"""Nodes whose cores differ by less are alike."""


class InvalidVariant(InvalidInput):
    """A word of a comparison that cannot be read, with what would be right."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One column of a comparison."""

    word: str
    """As it was asked for."""
    scenario: Scenario
    equal_cost: bool = False
    """Its size is to be found by `equal_cost`; until then it is 1."""

    @property
    def label(self) -> str:
        """The word, and what it leaves open; for `static=auto` only once its size is known."""
        if self.word == "own":
            return f"own ({slack_word(self.scenario)})"
        if not isinstance(self.scenario.slack, Policies):
            return self.word
        open_ = [part for part in slack_word(self.scenario).split("+") if part.partition("=")[0] not in self.word]
        return f"{self.word} ({', '.join(open_)})" if open_ else self.word


def with_known_prices(scenario: Scenario) -> tuple[Scenario, str]:
    """Return the scenario with a price on every node, and what it is in: '' for a currency that nobody has named.

    Where no group has a price, cost is in node hours; of nodes of several sizes in core hours, which compare as well.
    """
    groups = scenario.node_groups
    if any(group.price_per_hour for group in groups):
        return scenario, scenario.currency
    cores = [group.allocatable["cpu"] / 1000 for group in groups]
    alike = max(cores) <= _SAME_SIZE * min(cores)
    prices = [1.0] * len(groups) if alike else cores
    known = tuple(
        group.model_copy(update={"price_per_hour": price}) for group, price in zip(groups, prices, strict=True)
    )
    return scenario.model_copy(update={"node_groups": known}), NODE_HOURS if alike else CORE_HOURS


def with_rate(scenario: Scenario, rate: float) -> Scenario:
    """Return the scenario with every policy at one constant rate; all else of the policies stays."""
    return _with_policies(scenario, rate=rate)


def with_hold(scenario: Scenario, hold: Hold) -> Scenario:
    """Return the scenario with an operator whose policies have this form where they name none."""
    return scenario.model_copy(update={"operator": scenario.operator.model_copy(update={"hold": hold})})


def with_objective(scenario: Scenario, instant_start: float) -> Scenario:
    """Return the scenario with this objective in every policy, in place of a rate."""
    return _with_policies(scenario, objective=instant_start)


def variants(words: str, scenario: Scenario) -> tuple[Variant, ...]:
    """Read a comma-separated list.

    Raises:
        InvalidVariant: for a word that is none of those above.
    """
    found = tuple(variant(word.strip(), scenario) for word in words.split(",") if word.strip())
    if not found:
        raise InvalidVariant("it names nothing; write for example none,rate=0.1,static=auto")
    # static=auto means another one behind another variant of the operator
    keys = [(variant.word, reference_of(i, found) if variant.equal_cost else None) for i, variant in enumerate(found)]
    twice = next((word for word, reference in keys if keys.count((word, reference)) > 1), None)
    if twice:
        raise InvalidVariant(f"{twice!r} is given twice")
    return found


def reference_of(index: int, asked: Sequence[Variant]) -> int | None:
    """Return which variant of the operator a `static=auto` is to cost as much as, by its place in the list.

    The nearest one that stands before it; where none does, the scenario's own policies if they are asked for, then the
    first one after it. None: no variant of the operator is asked for.
    """
    operators = [
        i for i, other in enumerate(asked) if isinstance(other.scenario.slack, Policies) and not other.equal_cost
    ]
    before = [i for i in operators if i < index]
    if before:
        return before[-1]
    return next((i for i in operators if asked[i].word == "own"), operators[0] if operators else None)


def default_reference(scenario: Scenario) -> Variant:
    """Return what a `static=auto` costs as much as where no variant of the operator is asked for.

    The scenario's own policies; the built-in one where the scenario names another kind of slack.
    """
    if isinstance(scenario.slack, Policies):
        return Variant("own", scenario)
    return variant(f"rate={scenario.operator.default_rate:g}", scenario)


def variant(word: str, scenario: Scenario) -> Variant:
    """Read one word.

    Raises:
        InvalidVariant: when it is none of those above, or its pods fit no node group.
    """
    key, _, value = word.partition("=")
    if word == "none":
        return Variant(word, _with_slack(scenario, NoSlack(kind="none")))
    if word == "own":
        return Variant(word, scenario)
    if word == "rate=auto":
        return Variant(word, with_rate(scenario, _FIRST_RATE), equal_cost=True)
    if word in _AUTO:
        return Variant(word, _with_slack(scenario, _like_largest(scenario, key)), equal_cost=True)
    if key == "static":
        slack: Slack = _static(word, value)
    elif key == "proportional":
        slack = _proportional(word, value)
    elif key in ("rate", "cover", "objective", "hold"):
        return Variant(word, _of_operator(word, scenario))
    else:
        raise InvalidVariant(
            f"{word!r} is none of none, own, rate=0.1, rate=auto, objective=0.99, cover=Everything, hold=Unbound, "
            f"static=10x500m/1Gi, static=auto, proportional=1x500m/1Gi/16cores, proportional=auto"
        )
    changed = _with_slack(scenario, slack)
    problems = [problem for problem in problems_of(changed) if problem.startswith("slack")]
    if problems:
        raise InvalidVariant(f"{word!r}: {problems[0].removeprefix('slack.requests: ')}")
    return Variant(word, changed)


def equal_cost(scenario: Scenario, cost: float, cost_of: Callable[[Sized], float]) -> Sized:
    """Return the slack of one kind that costs most nearly as much as given.

    Args:
        scenario: of a `rate=auto`, `static=auto` or `proportional=auto`.
        cost: what it should cost.
        cost_of: makes the runs; called once a size.

    Returns:
        The operator with a constant rate, or an overprovisioner of one filler at least, however little it should cost.
    """
    slack = scenario.slack
    if isinstance(slack, Policies):
        return _with_constant(scenario, _equal_rate(cost, lambda rate: cost_of(_with_constant(scenario, rate))))
    assert isinstance(slack, Static | Proportional)
    return _sized(slack, _equal_count(cost, lambda count: cost_of(_sized(slack, count))))


def _with_constant(scenario: Scenario, rate: float) -> Policies:
    slack = with_rate(scenario, rate).slack
    assert isinstance(slack, Policies)
    return slack


def rate_of(slack: Sized) -> float:
    """Return the constant rate that a `rate=auto` came to."""
    assert isinstance(slack, Policies)
    rate = slack.policies[0].spec.extra_capacity.min_rate
    assert rate is not None
    return rate


def _equal_count(cost: float, cost_of: Callable[[int], float]) -> int:
    """Find a number of fillers: doubling, then bisection."""
    costs: dict[int, float] = {}

    def cheaper(count: int) -> bool:
        costs[count] = cost_of(count)
        return costs[count] < cost

    low, high = 1, 2
    if cheaper(low):
        while cheaper(high) and high < _MOST_FILLERS:
            low, high = high, min(high * 2, _MOST_FILLERS)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if cheaper(middle) else (low, middle)
    return min(costs, key=lambda count: (abs(costs[count] - cost), count))


def _equal_rate(cost: float, cost_of: Callable[[float], float]) -> float:
    """Find a rate: a cost is nearly a line over rates, so the next is where the line meets the wanted cost."""
    costs = {0.0: cost_of(0.0)}
    near, rate = _NEAR * abs(cost - costs[0.0]), _FIRST_RATE
    for _ in range(_MOST_RATES if cost > costs[0.0] else 0):
        costs[rate] = cost_of(rate)
        if abs(costs[rate] - cost) <= near:
            break
        rate = _next_rate(cost, costs)
        if rate in costs:
            break
    return min(costs, key=lambda tried: (abs(costs[tried] - cost), tried))


def _next_rate(cost: float, costs: Mapping[float, float]) -> float:
    """Return where a line through the nearest tries on both sides meets a cost; through the last two, if none is."""
    low = max(rate for rate in costs if costs[rate] <= cost)
    above = [rate for rate in costs if costs[rate] > cost and rate > low]
    if above:
        high = min(above)
    else:
        low, high = sorted(costs)[-2:]
    slope = (costs[high] - costs[low]) / (high - low)
    meets = low + (cost - costs[low]) / slope if slope > 0 else 2 * high
    return round(min(meets, 4 * high, _LARGEST_RATE), _RATE_DIGITS)


def _sized(slack: Static | Proportional, count: int) -> Static | Proportional:
    """Return a static overprovisioner with so many pods, or a proportional one with so many for a thousand cores."""
    if isinstance(slack, Static):
        return slack.model_copy(update={"count": count})
    return slack.model_copy(update={"cores_per_replica": _CORES / count})


def slack_word(scenario: Scenario) -> str:
    """Return a scenario's slack in one word, as `variant` would read it where that is possible."""
    slack = scenario.slack
    if isinstance(slack, Static):
        return f"static={slack.count}x{_box(slack.requests)}"
    if isinstance(slack, Proportional):
        return f"proportional=1x{_box(slack.requests)}/{_per_replica(slack)}"
    if isinstance(slack, Policies):
        return _operator_word(slack, scenario.operator.default_rate)
    return slack.kind


def _per_replica(slack: Proportional) -> str:
    found = ((slack.cores_per_replica, "cores"), (slack.nodes_per_replica, "nodes"))
    return "/".join(f"{every:g}{of}" for every, of in found if every is not None)


def _operator_word(slack: Policies, default_rate: float) -> str:
    """Return `rate=0.1`, `rate=0.1+cover=Largest`; where policies differ or have no constant rate, their names."""
    words = set()
    for policy in slack.policies:
        extra, mode = policy.spec.extra_capacity, policy.spec.cover.mode
        if policy.spec.objective is not None:
            cover = "" if mode is CoverMode.FREQUENT else f"+cover={mode}"
            words.add(f"objective={policy.spec.objective.instant_start:g}{cover}")
            continue
        constant = extra.replicas is None and extra.nodes is None and not extra.ladder and not extra.schedule
        rate = default_rate if extra.min_rate is None else extra.min_rate
        cover = "" if mode is CoverMode.FREQUENT else f"+cover={mode}"
        words.add(f"rate={rate:g}{cover}" if constant else "")
    if len(words) == 1 and "" not in words:
        return words.pop()
    names = [policy.name for policy in slack.policies]
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"{'policy' if len(names) == 1 else 'policies'} {', '.join(names[:_NAMES_SHOWN])}{more}"


def _box(requests: Mapping[str, int]) -> str:
    return f"{format_cpu(requests.get('cpu', 0))}/{format_memory(requests.get('memory', 0))}"


def _with_slack(scenario: Scenario, slack: Slack) -> Scenario:
    return scenario.model_copy(update={"slack": slack})


_NO_SIZE: Mapping[str, object] = {"min_rate": None, "replicas": None, "nodes": None, "ladder": (), "schedule": ()}
"""Of a policy whose size is another's to say."""


def _with_policies(
    scenario: Scenario,
    *,
    rate: float | None = None,
    cover: CoverMode | None = None,
    objective: float | None = None,
    hold: Hold | None = None,
) -> Scenario:
    base = scenario.slack if isinstance(scenario.slack, Policies) else Policies()
    policies = []
    for policy in base.policies:
        spec = policy.spec
        if rate is not None:
            constant = {**_NO_SIZE, "min_rate": rate}
            spec = spec.model_copy(
                update={"extra_capacity": spec.extra_capacity.model_copy(update=constant), "objective": None}
            )
        if objective is not None:
            extra = spec.extra_capacity.model_copy(update=_NO_SIZE)
            spec = spec.model_copy(update={"objective": Objective(instant_start=objective), "extra_capacity": extra})
        if cover is not None:
            spec = spec.model_copy(update={"cover": spec.cover.model_copy(update={"mode": cover})})
        if hold is not None:
            spec = spec.model_copy(update={"hold": hold})
        policies.append(policy.model_copy(update={"spec": spec}))
    return _with_slack(scenario, base.model_copy(update={"policies": tuple(policies)}))


def _of_operator(word: str, scenario: Scenario) -> Scenario:
    rate: float | None = None
    cover: CoverMode | None = None
    objective: float | None = None
    hold: Hold | None = None
    for part in word.split("+"):
        key, _, value = part.partition("=")
        if key == "rate":
            rate = _rate(word, value)
        elif key == "objective":
            objective = _share_of_starts(word, value)
        elif key == "cover" and value in list(CoverMode):
            cover = CoverMode(value)
        elif key == "hold" and value in list(Hold):
            hold = Hold(value)
        else:
            known = f"rate=0.1, objective=0.99, cover={'|'.join(CoverMode)} and hold={'|'.join(Hold)}"
            raise InvalidVariant(f"{word!r}: {part!r} is none of {known}")
    if rate is not None and objective is not None:
        raise InvalidVariant(f"{word!r}: an objective is in place of a rate; name one of them")
    return _with_policies(scenario, rate=rate, cover=cover, objective=objective, hold=hold)


def _share_of_starts(word: str, text: str) -> float:
    try:
        return Objective(instant_start=float(text)).instant_start
    except ValueError:
        raise InvalidVariant(f"{word!r}: {text!r} is not a share of pods from 0.5 to 0.999; 0.99 is 99 %") from None


def _rate(word: str, text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 10:
        raise InvalidVariant(f"{word!r}: {text!r} is not a rate from 0 to 10; 0.1 is ten percent")
    return rate


def _static(word: str, text: str) -> Static:
    match = _STATIC.fullmatch(text)
    if match is None:
        raise InvalidVariant(f"{word!r}: write the count, cpu and memory as in static=10x500m/1Gi, or static=auto")
    return _checked(word, Static, kind="static", count=int(match["count"]), requests=_requests(word, match))


def _proportional(word: str, text: str) -> Proportional:
    match = _PROPORTIONAL.fullmatch(text)
    if match is None:
        raise InvalidVariant(
            f"{word!r}: write pods, cpu, memory and for how much, as in proportional=1x500m/1Gi/16cores"
        )
    count, every = int(match["count"]), float(match["every"])
    if not count or not every:
        raise InvalidVariant(f"{word!r}: both numbers must be more than 0")
    field = "coresPerReplica" if match["of"] == "cores" else "nodesPerReplica"
    values = {"kind": "proportional", "requests": _requests(word, match), field: every / count}
    return _checked(word, Proportional, **values)


def _requests(word: str, match: "re.Match[str]") -> dict[str, str]:
    for resource in ("cpu", "memory"):
        try:
            amount(resource, match[resource])
        except QuantityError as error:
            raise InvalidVariant(f"{word!r}: {error}") from None
    return {"cpu": match["cpu"], "memory": match["memory"]}


def _checked(word: str, model: type[Overprovisioner], **values: Any) -> Overprovisioner:
    try:
        return model(**values)
    except ValidationError as error:
        raise InvalidVariant(f"{word!r}: {validation_errors.problems(error.errors(), model)[0]}") from None


def _like_largest(scenario: Scenario, kind: str) -> Static | Proportional:
    """Return one filler (or one for many cores) as large as the largest pod, where that may go: what people set."""
    largest = max(
        scenario.workloads, key=lambda workload: (not workload.node_selector, _share(workload, scenario), workload.name)
    )
    plain = {name: f"{value}m" if name == "cpu" else str(value) for name, value in largest.requests.items()}
    size: dict[str, float] = {"count": 1} if kind == "static" else {"cores_per_replica": _CORES}
    model: type[Static | Proportional] = Static if kind == "static" else Proportional
    return model.model_validate(
        {
            "kind": kind,
            **size,
            "requests": plain,
            "node_selector": largest.node_selector,
            "tolerations": largest.tolerations,
        }
    )


def _share(workload: ScenarioWorkload, scenario: Scenario) -> float:
    """Return the dominant share that one pod takes of the largest node."""
    return max(
        (
            value / max(max(group.allocatable.get(name, 0) for group in scenario.node_groups), 1)
            for name, value in workload.requests.items()
        ),
        default=0.0,
    )
