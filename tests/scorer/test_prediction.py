"""What a pod is expected to use, container by container."""

from typing import Any

import msgspec
import pytest

from slack.cluster.requests import RequestError
from slack.cluster.wire import PodSpec
from slack.scorer.inputs.prediction import demand_of, predicted_use
from slack.scorer.rules import PodUse, Prediction

MI = 1 << 20


def spec(*containers: dict[str, Any], **more: Any) -> PodSpec:
    document = {"containers": [{"name": "c", "resources": own} for own in containers]} | more
    return msgspec.json.decode(msgspec.json.encode(document), type=PodSpec)


def cpu(own: PodSpec, use: PodUse, multiplier: float = 1.5) -> float:
    return predicted_use(own, Prediction(use=use, multiplier=multiplier))[0]


BURSTABLE = {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("use", "millis"),
    [(PodUse.LIMITS, 1000), (PodUse.REQUESTS_TIMES_MULTIPLIER, 150), (PodUse.REQUESTS, 100)],
)
def test_a_container_counts_for_its_limit_its_request_times_the_multiplier_or_its_request(
    use: PodUse, millis: int
) -> None:
    assert cpu(spec(BURSTABLE), use) == millis


def test_a_best_effort_container_counts_for_one_millicore_or_what_is_configured() -> None:
    assert cpu(spec({}), PodUse.LIMITS) == 1
    assert predicted_use(spec({}), Prediction(default_cpu_millis=1000, default_memory_bytes=MI)) == (1000, MI)


def test_a_limit_of_zero_is_a_limit() -> None:
    assert cpu(spec({"limits": {"cpu": "0"}, "requests": {"cpu": "0"}}), PodUse.LIMITS) == 0


def test_halves_are_rounded_away_from_zero() -> None:
    assert cpu(spec({"requests": {"cpu": "3m"}}), PodUse.LIMITS) == 5


def test_overhead_comes_on_top() -> None:
    own = spec({"requests": {"cpu": "100m", "memory": "64Mi"}}, overhead={"cpu": "250m", "memory": "1Mi"})
    assert predicted_use(own, Prediction(use=PodUse.REQUESTS)) == (350, 65 * MI)


def test_init_containers_sidecars_and_pod_level_resources_count_which_upstream_forgets() -> None:
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "200m"}}}
    big_init = {"name": "i", "resources": {"requests": {"cpu": "2"}}}
    assert cpu(spec(BURSTABLE, initContainers=[sidecar]), PodUse.REQUESTS) == 300
    assert cpu(spec(BURSTABLE, initContainers=[sidecar, big_init]), PodUse.REQUESTS) == 2200
    assert cpu(spec({}, {}, resources={"requests": {"cpu": "400m"}}), PodUse.REQUESTS_TIMES_MULTIPLIER) == 600
    assert cpu(spec({}, resources={"limits": {"cpu": "700m"}}), PodUse.LIMITS) == 700


def test_a_pods_demand_has_limits_of_at_least_its_requests() -> None:
    own = spec({"requests": {"cpu": "2", "memory": "1Mi"}}, {"limits": {"cpu": "500m", "memory": "4Mi"}})
    demand = demand_of(own, Prediction())
    assert demand.requests == (2500, 5 * MI)
    assert demand.limits == (2500, 5 * MI)


def test_limits_are_summed_with_init_containers_pod_level_and_overhead() -> None:
    init = {"name": "i", "resources": {"limits": {"cpu": "3"}}}
    own = spec({"limits": {"cpu": "1"}}, initContainers=[init], overhead={"cpu": "100m", "memory": "1Mi"})
    assert demand_of(own, Prediction()).limits == (3100, MI)
    assert demand_of(spec({}, resources={"limits": {"cpu": "5"}}), Prediction()).limits == (5000, 0)


def test_a_pod_that_cannot_be_read_is_refused_with_the_field() -> None:
    with pytest.raises(RequestError, match=r"spec.containers\[0\].*'lots'"):
        demand_of(spec({"requests": {"cpu": "lots"}}), Prediction())


def test_a_pod_without_a_spec_asks_for_nothing() -> None:
    assert demand_of(None, Prediction(), placeholder=True).predicted == (0.0, 0.0)
