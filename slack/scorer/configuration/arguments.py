"""Algorithms with their arguments, as settings and commands name them: by upstream's names, or the proposal's.

Arguments have the names of the scheduler plugins, and those of the Trimaran proposal where they differ. Nothing is
taken for a default that somebody wrote otherwise, as upstream takes a negative margin for 1: what cannot be meant is
refused with the field and what would be right. No pydantic: a server's start and memory stay small.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from slack.scorer.algorithms.load_variation import LoadVariationRiskBalancing
from slack.scorer.algorithms.low_risk_overcommitment import LowRiskOverCommitment
from slack.scorer.algorithms.peaks import Peaks, PowerModel
from slack.scorer.algorithms.target_load_packing import TargetLoadPacking
from slack.scorer.configuration.fields import (
    NO_AMOUNTS,
    Fields,
    InvalidScorerConfig,
    between,
    format_value,
    one_of,
    read_number,
    read_quantities,
    read_text,
    read_weight,
)
from slack.scorer.model import RESOURCES, Algorithm, Weighted
from slack.scorer.rules import Formula, MetricRules, PodUse, Prediction

_SPELLINGS = {
    "targetCPUUtilisation": "targetUtilization",
    "targetCPUUtilization": "targetUtilization",
    "defaultCPURequests": "defaultRequests",
}
"""The proposal's names of arguments, and upstream's."""
DEFAULT_RULES = MetricRules()
DEFAULT_SCALE = 10
"""Measured on a kube-scheduler: docs/details/load-aware.md, "What it weighs"."""


@dataclass(frozen=True, slots=True)
class ScorerConfig:
    """What the scorer goes by."""

    algorithms: tuple[Weighted, ...] = (Weighted(TargetLoadPacking()),)
    rules: MetricRules = field(default_factory=MetricRules)
    scale: int = DEFAULT_SCALE
    """The highest score that is sent, 1 to 100."""

    @property
    def prediction(self) -> Prediction:
        """How the use of a pod is predicted, before it is bound and after: with two, a pod would change its size."""
        return self.rules.prediction


def parse_config(document: object, rules: MetricRules = DEFAULT_RULES) -> ScorerConfig:
    """Read a configuration.

    Args:
        document: a mapping with `algorithms`: names, or mappings with `name`, `weight` and `args`.
        rules: of the settings. What TargetLoadPacking's arguments say of the prediction takes precedence.

    Raises:
        InvalidScorerConfig: naming the field, and what would be right.
    """
    fields = Fields({} if document is None else document, "")
    default: tuple[Weighted, ...] = (Weighted(TargetLoadPacking(prediction=rules.prediction)),)
    algorithms = fields.read_field("algorithms", lambda own, path: _algorithms(own, path, rules.prediction), default)
    fields.end()
    found = (own.algorithm.prediction for own in algorithms if isinstance(own.algorithm, TargetLoadPacking))
    return ScorerConfig(algorithms, replace(rules, prediction=next(found, rules.prediction)))


def _algorithms(value: object, path: str, prediction: Prediction) -> tuple[Weighted, ...]:
    if not isinstance(value, list) or not value:
        raise InvalidScorerConfig(f"expected a list with at least one of {', '.join(_READERS)}", path)
    found: list[Weighted] = []
    for index, item in enumerate(value):
        here = f"{path}[{index}]"
        fields = Fields({"name": item} if isinstance(item, str) else item, here)
        name = fields.read_field("name", read_text, "")
        if name not in _READERS:
            raise InvalidScorerConfig(f"{format_value(name)} is none of {', '.join(_READERS)}", f"{here}.name")
        if any(other.algorithm.name == name for other in found):
            raise InvalidScorerConfig(f"{name} is there already; give each algorithm once", f"{here}.name")
        weight = fields.read_field("weight", read_weight, 1.0)
        args = Fields(fields.read_field("args", lambda own, _: own, None) or {}, f"{here}.args", _SPELLINGS)
        fields.end()
        args.read_field("watcherAddress", _no_watcher, None)
        args.read_field("metricProvider", _no_provider, None)
        found.append(Weighted(_READERS[name](args, prediction), weight))
        args.end()
    return tuple(found)


def _target_load_packing(args: Fields, base: Prediction) -> Algorithm:
    formula = args.read_field("formula", one_of(Formula), Formula.IMPLEMENTED)
    proposed = formula is Formula.PROPOSAL
    use = args.read_field("podUse", one_of(PodUse), PodUse.REQUESTS if proposed else base.use)
    multiplier = args.read_field("defaultRequestsMultiplier", between(0, 100), base.multiplier)
    target = args.read_field("targetUtilization", between(1, 100), 50.0 if proposed else 40.0)
    cpu, memory = args.read_field("defaultRequests", read_quantities, NO_AMOUNTS)
    default_cpu = base.default_cpu_millis if cpu is None else cpu
    default_memory = base.default_memory_bytes if memory is None else memory
    return TargetLoadPacking(target, formula, Prediction(use, multiplier, default_cpu, default_memory))


def _load_variation(args: Fields, _: Prediction) -> Algorithm:
    formula = args.read_field("formula", one_of(Formula), Formula.IMPLEMENTED)
    margin = args.read_field("safeVarianceMargin", between(0, 1000), 1.0)
    sensitivity = args.read_field("safeVarianceSensitivity", between(0, 1000), None)
    if formula is Formula.PROPOSAL and sensitivity is not None:
        raise InvalidScorerConfig(
            "means nothing with formula: Proposal; leave it out", args.at("safeVarianceSensitivity")
        )
    return LoadVariationRiskBalancing(margin, 1.0 if sensitivity is None else sensitivity, formula)


def _low_risk_overcommitment(args: Fields, _: Prediction) -> Algorithm:
    default = LowRiskOverCommitment()
    smoothing = args.read_field("smoothingWindowSize", between(1, 1000), default.smoothing_window)

    def weights(value: object, path: str) -> tuple[float, float]:
        fields = Fields(value, path)
        cpu, memory = (fields.read_field(name, between(0, 1), default.limit_weights[0]) for name in RESOURCES)
        fields.end()
        return cpu, memory

    return LowRiskOverCommitment(smoothing, args.read_field("riskLimitWeights", weights, default.limit_weights))


def _peaks(args: Fields, _: Prediction) -> Algorithm:
    path = args.at("nodePowerModel")
    models = args.read_field("nodePowerModel", _power_models, None)
    if not models:
        raise InvalidScorerConfig(
            "Peaks needs the power curve of at least one node, and a name alone has none. Give algorithms as JSON or "
            "in --config, with {name: Peaks, args: {nodePowerModel: {node-1: {k0: 90, k1: 50, k2: 0.02}}}}",
            path,
        )
    return Peaks(models)


_READERS: dict[str, Callable[[Fields, Prediction], Algorithm]] = {
    "TargetLoadPacking": _target_load_packing,
    "LoadVariationRiskBalancing": _load_variation,
    "LowRiskOverCommitment": _low_risk_overcommitment,
    "Peaks": _peaks,
}


def _power_models(value: object, path: str) -> dict[str, PowerModel]:
    if not isinstance(value, Mapping):
        raise InvalidScorerConfig(f"expected curves by node's name, got {format_value(value)}", path)
    models = {}
    for name, own in value.items():
        fields = Fields(own, f"{path}.{name}")
        numbers = [fields.read_field(key, read_number, math.nan) for key in ("k0", "k1", "k2")]
        fields.end()
        if any(math.isnan(number) for number in numbers):
            raise InvalidScorerConfig("expected k0, k1 and k2 of its power curve k0 + k1 e^(k2 u)", f"{path}.{name}")
        models[str(name)] = PowerModel(*numbers)
    return models


def _no_watcher(value: object, path: str) -> None:
    raise InvalidScorerConfig("all algorithms have one load watcher: give its address as --load-watcher", path)


def _no_provider(value: object, path: str) -> None:
    raise InvalidScorerConfig("the scorer reads a load watcher only: give the provider to `load-watcher serve`", path)
