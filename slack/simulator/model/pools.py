"""What ActivationPools would tell of themselves in a model: their containers are the pods of a scenario's workloads.

The rules of what is told are the controller's own (`slack.demand.targets`), looked at as often as they count; what is
made of it is the planner's. The queue itself is not played: a pod that comes is a container that was decided about.
"""

from dataclasses import dataclass, field

from slack.cluster import wire
from slack.cluster.snapshot import Amounts
from slack.demand.model import DemandSettings, PoolTarget
from slack.demand.targets import BUCKET_SECONDS, DemandHistory, target_of
from slack.planner.model.pool import Pool
from slack.simulator.model.state import ModelledCluster
from slack.simulator.scenario.demand import SimulatedPool
from slack.simulator.scenario.scenario import Scenario

LOOK_SECONDS = BUCKET_SECONDS


@dataclass(slots=True, eq=False)
class _Announcer:
    """One workload that is a pool."""

    kind: int
    spec: SimulatedPool
    requests: Amounts
    settings: DemandSettings
    history: DemandHistory = field(default_factory=DemandHistory)
    target: PoolTarget = field(default_factory=PoolTarget)


class Announced:
    """All pools of a scenario, and what each tells now."""

    def __init__(self, scenario: Scenario, cluster: ModelledCluster, epoch: float) -> None:
        """Nothing was wanted yet.

        Args:
            scenario: those of its workloads that are pools are looked at.
            cluster: their pods.
            epoch: Unix seconds of the run's start.
        """
        self._cluster, self._epoch = cluster, epoch
        self._pools = [
            _Announcer(row, spec, tuple(sorted(workload.requests.items())), spec.settings())
            for row, workload in enumerate(scenario.workloads)
            if (spec := workload.activation_pool) is not None
        ]

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._pools)

    def look(self, now: float, node_start_seconds: float | None) -> None:
        """Take what is wanted now.

        Args:
            now: seconds of the run.
            node_start_seconds: how long nodes take, where that was seen; else each pool's horizon.
        """
        for pool in self._pools:
            wanted, unmet = self._cluster.count[pool.kind], self._unmet(pool)
            horizon = node_start_seconds or pool.settings.horizon_seconds
            pool.history.observe(now, wanted, horizon, pool.settings, before=wanted)
            pool.target = self._target(pool, wanted, unmet)

    def _unmet(self, pool: _Announcer) -> int:
        return self._cluster.count[pool.kind] - self._cluster.running[pool.kind]

    def _target(self, pool: _Announcer, wanted: int, unmet: int) -> PoolTarget:
        room = pool.spec.max_containers - wanted
        return target_of(pool.history, pool.settings, wanted=wanted, unmet=unmet, keep_warm_shortfall=0, room=room)

    def told(self, now: float) -> tuple[Pool, ...]:
        """Return what the pools tell at a moment of the run."""
        kinds = self._cluster.kinds
        return tuple(
            Pool(
                workload=kinds.workloads[kinds[pool.kind].workload],
                requests=pool.requests,
                constraints=kinds[pool.kind].constraints,
                labels={},
                spec=wire.PodSpec(priority=kinds[pool.kind].priority),
                most=pool.spec.max_containers,
                slack_pods=pool.target.slack_pods,
                wanted=pool.target.wanted,
                observed_at_seconds=self._epoch + now,
            )
            for pool in self._pools
        )
