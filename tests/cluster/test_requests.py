"""Cases follow component-helpers' TestPodResourceRequests (resource/helpers_test.go), with figures of our own."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster.requests import LARGEST_REQUEST, RequestError, allocatable_amounts, effective_requests
from slack.cluster.wire import PodSpec, PodStatus

MI = 1 << 20
Json = dict[str, Any]


def box(cpu: str | None = None, memory: str | None = None, **more: str) -> Json:
    both = {"cpu": cpu, "memory": memory, **more}
    return {name: value for name, value in both.items() if value is not None}


def container(name: str = "main", requests: Json | None = None, **more: Any) -> Json:
    return {"name": name, "resources": {"requests": requests} | more.pop("resources", {}), **more}


def sidecar(name: str, requests: Json) -> Json:
    return container(name, requests, restartPolicy="Always")


def status_of(name: str, actuated: Json | None, allocated: Json | None = None) -> Json:
    return {"name": name, "resources": {"requests": actuated}, "allocatedResources": allocated}


INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}


def requests(spec: Json, status: Json | None = None) -> dict[str, int]:
    return effective_requests(
        msgspec.json.decode(msgspec.json.encode(spec), type=PodSpec),
        msgspec.json.decode(msgspec.json.encode(status), type=PodStatus) if status is not None else None,
    )


def test_containers_are_summed() -> None:
    spec = {"containers": [container("a", box("250m", "64Mi")), container("b", box("1", "1Gi"))]}
    assert requests(spec) == {"cpu": 1250, "memory": 1088 * MI}


def test_a_pod_without_requests_requests_nothing() -> None:
    assert requests({"containers": [{"name": "a"}, container("b", {"cpu": "0"}), container("c", None)]}) == {}
    assert requests({"containers": None, "initContainers": None}) == {}
    assert effective_requests(None) == {}


def test_the_largest_init_container_counts_when_it_exceeds_the_sum_per_resource() -> None:
    spec = {
        "containers": [container("a", box("300m", "1Gi"))],
        "initContainers": [container("x", box("2", "100Mi")), container("y", box("1", "900Mi"))],
    }
    assert requests(spec) == {"cpu": 2000, "memory": 1024 * MI}


def test_a_sidecar_adds_to_the_sum_and_to_the_init_containers_after_it_only() -> None:
    spec = {
        "containers": [container("a", box("100m"))],
        "initContainers": [
            container("before", box("1000m")),
            sidecar("proxy", box("400m")),
            container("after", box("700m")),
        ],
    }
    # after: 700 + 400 running beside it; before runs alone with its 1000; main with the sidecar: 500.
    assert requests(spec) == {"cpu": 1100}


def test_sidecars_alone_are_summed_with_the_containers() -> None:
    spec = {
        "containers": [container("a", box("100m", "10Mi"))],
        "initContainers": [sidecar("p", box("200m", "20Mi")), sidecar("q", box("300m", "30Mi"))],
    }
    assert requests(spec) == {"cpu": 600, "memory": 60 * MI}


def test_a_regular_containers_restart_policy_makes_no_sidecar_of_it() -> None:
    spec = {"containers": [sidecar("a", box("100m"))], "initContainers": [container("i", box("50m"))]}
    assert requests(spec) == {"cpu": 100}


def test_overhead_comes_on_top_of_the_maximum() -> None:
    spec = {
        "containers": [container("a", box("100m", "10Mi"))],
        "initContainers": [container("i", box("300m"))],
        "overhead": box("250m", "120Mi"),
    }
    assert requests(spec) == {"cpu": 550, "memory": 130 * MI}


def test_a_limit_without_a_request_is_the_request() -> None:
    limited = {"name": "a", "resources": {"limits": box("2", "1Gi"), "requests": {"cpu": "1"}}}
    assert requests({"containers": [limited]}) == {"cpu": 1000, "memory": 1024 * MI}
    assert requests({"containers": [{"name": "a", "resources": {"limits": box("2")}}]}) == {"cpu": 2000}


def test_an_explicit_request_of_zero_stays_zero_beside_a_limit() -> None:
    assert requests({"containers": [{"name": "a", "resources": {"limits": box("2"), "requests": {"cpu": "0"}}}]}) == {}


def test_extended_resources_and_hugepages_are_integers_and_pods_is_no_resource() -> None:
    more = {"nvidia.com/gpu": "2", "hugepages-2Mi": "64Mi", "pods": "1", "ephemeral-storage": "1Gi"}
    assert requests({"containers": [container("a", {"cpu": "1"} | more)]}) == {
        "cpu": 1000, "nvidia.com/gpu": 2, "hugepages-2Mi": 64 * MI, "ephemeral-storage": 1024 * MI,
    }  # fmt: skip


def test_fractions_of_a_unit_are_summed_before_they_are_rounded() -> None:
    spec = {"containers": [container("a", box(memory="100m")), container("b", box(memory="100m"))]}
    assert requests(spec) == {"memory": 1}


def test_numbers_in_hand_written_files_are_read_as_quantities() -> None:
    assert requests({"containers": [container("a", {"cpu": 0.5, "memory": 1000})]}) == {"cpu": 500, "memory": 1000}


def test_null_is_no_amount_and_blanks_around_one_do_not_count() -> None:
    limited = {"name": "a", "resources": {"limits": {"cpu": "2", "memory": None}, "requests": {"cpu": None}}}
    assert requests({"containers": [limited, container("b", {"cpu": " 1 ", "memory": "1Mi\n"})]}) == {
        "cpu": 1000, "memory": MI,
    }  # fmt: skip


def test_pod_level_requests_take_the_place_of_the_sum_for_what_supports_them() -> None:
    spec = {
        "resources": {"requests": box("2", **{"nvidia.com/gpu": "7"})},
        "containers": [container("a", box("100m", "1Gi", **{"nvidia.com/gpu": "1"}))],
        "overhead": box("50m"),
    }
    assert requests(spec) == {"cpu": 2050, "memory": 1024 * MI, "nvidia.com/gpu": 1}


def test_pod_level_limits_are_the_request_only_where_no_container_has_one() -> None:
    spec = {
        "resources": {"limits": box("4", "2Gi", **{"hugepages-2Mi": "8Mi"})},
        "containers": [container("a", box("500m"))],
    }
    assert requests(spec) == {"cpu": 500, "memory": 2048 * MI, "hugepages-2Mi": 8 * MI}
    assert requests({"resources": {}, "containers": [container("a", box("1"))]}) == {"cpu": 1000}


def test_a_resize_up_counts_before_and_a_resize_down_until_it_is_done() -> None:
    wished_more = {"containers": [container("main", box("800m", "1Gi"))]}
    wished_less = {"containers": [container("main", box("200m", "1Gi"))]}
    status = {"containerStatuses": [status_of("main", box("500m", "1Gi"), box("600m", "1Gi"))]}
    assert requests(wished_more, status)["cpu"] == 800
    assert requests(wished_less, status)["cpu"] == 600


def test_a_deferred_resize_counts_and_an_infeasible_one_does_not() -> None:
    spec = {"containers": [container("main", box("8"))]}
    statuses = [status_of("main", box("500m"), box("600m"))]
    ready = {"type": "Ready", "status": "True"}
    assert requests(spec, {"containerStatuses": statuses, "conditions": [ready, DEFERRED]}) == {"cpu": 8000}
    assert requests(spec, {"containerStatuses": statuses, "conditions": [ready, INFEASIBLE]}) == {"cpu": 600}


def test_a_status_without_resources_says_nothing_about_a_resize() -> None:
    spec = {"containers": [container("main", box("300m"))]}
    status = {"containerStatuses": [{"name": "main", "allocatedResources": box("900m")}, {"name": "other"}]}
    assert requests(spec, status) == {"cpu": 300}
    assert requests(spec, {"containerStatuses": None}) == {"cpu": 300}


def test_the_same_figures_in_the_status_change_nothing() -> None:
    spec = {"containers": [container("main", box("300m"))]}
    assert requests(spec, {"containerStatuses": [status_of("main", box("300m"), box("300m"))]}) == {"cpu": 300}


def test_only_sidecars_among_init_containers_are_resized() -> None:
    statuses = {"initContainerStatuses": [status_of("i", box("900m"))]}
    assert requests({"initContainers": [container("i", box("100m"))]}, statuses) == {"cpu": 100}
    assert requests({"initContainers": [sidecar("i", box("100m"))]}, statuses) == {"cpu": 900}


def test_pod_level_requests_are_resized_as_well() -> None:
    spec = {"resources": {"requests": box("2", "1Gi")}, "containers": [container("main", box("1"))]}
    status = {"resources": {"requests": box("3")}, "allocatedResources": box("2500m", "2Gi")}
    assert requests(spec, status) == {"cpu": 3000, "memory": 2048 * MI}
    infeasible = status | {"conditions": [INFEASIBLE]}
    assert requests(spec | {"resources": {"requests": box("9")}}, infeasible) == {"cpu": 3000}


def test_absurd_requests_are_capped_so_that_sums_fit_a_column() -> None:
    assert requests({"containers": [container("a", box("9E", "9E"))]}) == {
        "cpu": LARGEST_REQUEST,
        "memory": LARGEST_REQUEST,
    }


def test_a_quantity_that_cannot_be_read_is_named_with_its_path() -> None:
    with pytest.raises(RequestError, match=r"spec.containers\[1\]: 'much' is not a quantity"):
        requests({"containers": [container("a"), container("b", box("much"))]})


def test_allocatable_keeps_pod_slots() -> None:
    assert allocatable_amounts({"cpu": "3920m", "memory": "1Gi", "pods": "110"}) == {
        "cpu": 3920, "memory": 1024 * MI, "pods": 110,
    }  # fmt: skip
    assert allocatable_amounts(None) == {}


MILLIS = st.integers(1, 4000).map(lambda value: f"{value}m")


@given(st.lists(MILLIS, max_size=4), st.lists(st.tuples(MILLIS, st.booleans()), max_size=5))
def test_effective_cpu_is_the_most_that_runs_at_any_moment(main: list[str], init: list[tuple[str, bool]]) -> None:
    spec = {
        "containers": [container(f"c{i}", box(cpu)) for i, cpu in enumerate(main)],
        "initContainers": [
            sidecar(f"i{i}", box(cpu)) if always else container(f"i{i}", box(cpu))
            for i, (cpu, always) in enumerate(init)
        ],
    }
    running, moments = 0, []
    for cpu, always in init:
        moments.append(running + int(cpu[:-1]))
        running += int(cpu[:-1]) if always else 0
    moments.append(running + sum(int(cpu[:-1]) for cpu in main))
    assert requests(spec).get("cpu", 0) == max(moments)
