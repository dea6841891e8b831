"""CPU shares: who gets how much of a busy machine, and how requests, shares and weights are turned into each other.

Shares are no limit: they divide what is wanted, level by level, and what a group does not want goes to the others.
Three groups of 1024, 1024 and 4096 on four cores (4096) get 682.67, 682.67 and 2730.67 when all are busy.
"""

import math
from collections.abc import Mapping

SHARES_A_CORE = 1024
_LEAST_SHARES, _MOST_SHARES = 2, 262_144
_LEAST_WEIGHT, _MOST_WEIGHT = 1, 10_000


def divide(total: float, shares: Mapping[str, int], wants: Mapping[str, float] | None = None) -> dict[str, float]:
    """Divide CPU between the groups of one level.

    Args:
        total: what there is, in any unit (cores, or shares of the whole machine).
        shares: cpu.shares (or cpu.weight) of each group; must be above 0.
        wants: the most that a group would use, in the unit of `total`; a group that is not named takes what it gets,
            an idle one wants 0.

    Returns:
        What each group gets. Nothing is left over while somebody wants it.

    Raises:
        ValueError: when a group's shares are not above 0.
    """
    for name, share in shares.items():
        if share <= 0:
            raise ValueError(f"shares of {name} are {share}: must be above 0")
    given = dict.fromkeys(shares, 0.0)
    wanting = {name: max(0.0, wants.get(name, math.inf)) if wants is not None else math.inf for name in shares}
    left = max(0.0, total)
    hungry = {name for name, want in wanting.items() if want > 0}
    while hungry and left > 0:
        unit = left / sum(shares[name] for name in hungry)
        sated = {name for name in hungry if wanting[name] <= shares[name] * unit}
        for name in sated or hungry:
            given[name] = wanting[name] if sated else shares[name] * unit
        if not sated:
            break
        left -= sum(given[name] for name in sated)
        hungry -= sated
    return given


def shares_of_request(cpu_millis: int) -> int:
    """Return the shares that the kubelet asks for: 1024 a core, 2 at least (a container without a request), 262144 at
    most (pkg/kubelet/cm/helpers_linux.go, MilliCPUToShares)."""
    return min(max(cpu_millis * SHARES_A_CORE // 1000, _LEAST_SHARES), _MOST_SHARES)


def weight_linear(shares: int) -> int:
    """Return the cgroup v2 weight by the older formula: 1024 becomes 39.

    It keeps the ends of both ranges and so puts a core far below the default weight of 100. Older runtimes write it.
    """
    bounded = min(max(shares, _LEAST_SHARES), _MOST_SHARES)
    return 1 + (bounded - _LEAST_SHARES) * (_MOST_WEIGHT - 1) // (_MOST_SHARES - _LEAST_SHARES)


def weight_quadratic(shares: int) -> int:
    """Return the cgroup v2 weight by the newer formula: 1024 becomes 100 (opencontainers/cgroups since v0.0.6).

    Quadratic in the logarithm, through (2, 1), (1024, 100) and (262144, 10000).
    """
    if shares <= _LEAST_SHARES:
        return _LEAST_WEIGHT
    if shares >= _MOST_SHARES:
        return _MOST_WEIGHT
    log = math.log2(shares)
    exponent = (log * log + 125 * log) / 612 - 7 / 34
    return min(max(math.ceil(10**exponent - 1e-9), _LEAST_WEIGHT), _MOST_WEIGHT)


def shares_if_linear(weight: int) -> int:
    """Return the shares that a weight was made of, if it was made by the linear formula, as cAdvisor assumes.

    Requests are never derived from weights here: which formula wrote a weight cannot be seen (39 is a core by one and
    a third of one by the other), rounding loses small requests, and a QoS level's weight is a sum. The pod's spec has
    the request.
    """
    bounded = min(max(weight, _LEAST_WEIGHT), _MOST_WEIGHT)
    return _LEAST_SHARES + (bounded - 1) * (_MOST_SHARES - _LEAST_SHARES) // (_MOST_WEIGHT - 1)
