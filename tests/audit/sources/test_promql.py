"""Prometheus' answers become two samples of each cgroup, whatever the installation calls its labels."""

from collections.abc import Mapping

import pytest

from slack.audit.findings.sample import CgroupLevel, ReadError, Sampled
from slack.audit.sources.promql import (
    CLUSTERS,
    LIMITS,
    NODE_LABELS,
    NODE_QUERIES,
    QUERIES,
    ClusterChoice,
    Increases,
    Nodes,
    filled,
)
from slack.audit.sources.series_labels import target_of

POD = "/kubepods/burstable/pod8a4d3d2e-5a0b-4a55-9d8a-000000000001"
ID = "01" * 32
OF_POD = {"node": "n1", "id": POD, "namespace": "shop", "pod": "api-x"}
API = OF_POD | {"id": f"{POD}/{ID}", "name": ID, "container": "api"}
START, END = 1_000_000.0, 1_003_600.0
USUAL = {
    "periods": 36_000.0,
    "throttled": 9_000.4,
    "throttled_seconds": 720.5,
    "bursts": 3.0,
    "usage_seconds": 700.25,
    "quota": 20_000.0,
    "period": 100_000.0,
    "first_seen": START - 3,
    "last_seen": END - 20,
    "use_p99": 0.19,
}


def increases(nodes: Nodes | None = None) -> Increases:
    return Increases(nodes or Nodes({}), START, END)


def put(found: Increases, labels: Mapping[str, str] = API, **changed: float | None) -> None:
    for name, value in (USUAL | changed).items():
        if value is not None:
            found.add_answer(name, [(labels, value)])


def sampled(labels: Mapping[str, str] = API, **changed: float | None) -> tuple[Sampled, Sampled]:
    found = increases()
    put(found, labels, **changed)
    return found.sampled()


def test_the_first_sample_is_zero_at_the_windows_start_and_the_second_is_what_was_added() -> None:
    before, after = sampled()
    (zero,), (end,) = before.samples, after.samples
    assert zero.target is end.target
    assert (zero.target.level, zero.target.container_id, zero.target.node) == (CgroupLevel.CONTAINER, ID, "n1")
    assert (zero.periods, zero.throttled, zero.throttled_ns, zero.usage_ns, zero.bursts) == (0, 0, 0, 0, 0)
    assert (end.periods, end.throttled, end.throttled_ns) == (36_000, 9_000, 720_500_000_000)
    assert (end.usage_ns, end.bursts) == (700_250_000_000, 3)
    assert (zero.quota_us, end.quota_us, end.period_us) == (20_000, 20_000, 100_000)
    assert (zero.at_seconds, end.at_seconds) == (START, END)
    assert after.troubles == {}


def test_a_pod_that_lived_for_a_part_of_the_window_has_a_window_of_that_part() -> None:
    before, after = sampled(first_seen=START + 1200, last_seen=START + 1800)
    assert (before.samples[0].at_seconds, after.samples[0].at_seconds) == (START + 1200, START + 1800)


def test_what_no_look_has_seen_lived_for_less_than_the_time_between_two() -> None:
    found = increases()
    put(found, OF_POD)
    put(found, API, first_seen=None, last_seen=None)
    (_, zero), (_, end) = (sampled.samples for sampled in found.sampled())
    assert (zero.at_seconds, end.at_seconds) == (END - 60, END)


def test_the_use_of_a_container_without_a_limit_is_that_of_the_whole_window() -> None:
    found = increases()
    put(found, OF_POD)
    found.add_answer("usage_seconds", [(API, 360.0)])
    (_, zero), (_, end) = (sampled.samples for sampled in found.sampled())
    assert (end.target.container, end.at_seconds - zero.at_seconds, end.usage_ns) == ("api", 3600.0, 360_000_000_000)


def test_a_container_without_a_limit_has_use_and_nothing_else() -> None:
    only_use: dict[str, float | None] = {**dict.fromkeys(USUAL), "usage_seconds": 5.0}
    _, after = sampled(API, **only_use)
    (end,) = after.samples
    assert (end.quota_us, end.periods, end.usage_ns) == (None, 0, 5_000_000_000)
    _, after = sampled({"node": "n1", "id": "/system.slice/ssh.service"}, **only_use)
    assert after.samples == ()


def test_a_limit_that_was_changed_in_the_window_is_seen_by_both_samples() -> None:
    before, after = sampled(quota_most=40_000.0, quota_least=20_000.0)
    assert (before.samples[0].quota_us, after.samples[0].quota_us) == (40_000, 20_000)
    before, after = sampled(quota=40_000.0, quota_most=40_000.0, quota_least=20_000.0)
    assert (before.samples[0].quota_us, after.samples[0].quota_us) == (20_000, 40_000)


def test_pieces_of_a_window_add_up() -> None:
    found = increases()
    put(found, last_seen=START + 1780, use_p99=0.4)
    put(found, quota=40_000.0, first_seen=START + 1790, use_p99=0.3)
    (zero,), (end,) = (sampled.samples for sampled in found.sampled())
    assert (end.periods, end.throttled, end.throttled_ns) == (72_000, 18_001, 1_441_000_000_000)
    assert (zero.quota_us, end.quota_us) == (20_000, 40_000)
    assert (zero.at_seconds, end.at_seconds) == (START, END)
    assert found.p99_cores == {end.target.key: 0.4}


@pytest.mark.parametrize("missing", ["periods", "throttled", "throttled_seconds", "quota"])
def test_a_cgroup_of_which_a_series_is_missing_is_left_out_and_told(missing: str) -> None:
    _, after = sampled(API, **{missing: None})
    assert (after.samples, after.troubles) == ((), {ReadError.MALFORMED: 1})
    assert after.examples[ReadError.MALFORMED] == f"{POD}/{ID}: no {missing}"


def test_a_value_that_is_no_number_is_told_and_not_used() -> None:
    _, after = sampled(use_p99=float("nan"))
    assert len(after.samples) == 1
    assert after.examples == {ReadError.MALFORMED: f"use_p99 of {POD}/{ID} is nan"}


def test_limits_of_kube_state_metrics_stand_in_for_quotas_that_are_not_kept() -> None:
    found = increases()
    side = API | {"id": f"{POD}/{'02' * 32}", "name": "02" * 32, "container": "side"}
    for labels in (API, OF_POD, side):
        put(found, labels, quota=None, period=None)
    limits = {"namespace": "monitoring", "exported_namespace": "shop", "exported_pod": "api-x"}
    found.add_limits([(limits | {"exported_container": "api"}, 0.2), (limits | {"exported_container": "side"}, 0.05)])
    _, after = found.sampled()
    quotas = {sample.target.container: (sample.quota_us, sample.period_us) for sample in after.samples}
    assert quotas == {"api": (20_000, 100_000), "side": (5_000, 100_000), "": (25_000, 100_000)}


def test_a_pods_own_limit_is_not_guessed_when_a_container_has_none() -> None:
    found = increases()
    put(found, OF_POD, quota=None)
    put(found, API, quota=None)
    found.add_answer("usage_seconds", [(API | {"id": f"{POD}/{'02' * 32}", "container": "side"}, 1.0)])
    found.add_limits([({"namespace": "shop", "pod": "api-x", "container": "api"}, 0.2)])
    _, after = found.sampled()
    assert {sample.target.container: sample.quota_us for sample in after.samples} == {"api": 20_000, "side": None}
    assert after.examples == {ReadError.MALFORMED: f"{POD}: no quota"}


@pytest.mark.parametrize("name", NODE_LABELS)
def test_the_node_is_the_label_that_is_there(name: str) -> None:
    assert Nodes({}).node_of_series({name: "n1" if name != "instance" else "n1:10250", "id": "/"}) == "n1"


def test_an_instance_that_is_an_address_is_the_node_that_has_it() -> None:
    nodes = Nodes(
        {
            "info": [
                ({"exported_node": "n1", "node": "ksm", "internal_ip": "10.0.0.7", "kernel_version": "6.1.0-44"}, 1.0),
                ({"node": "n2", "internal_ip": "fd00::7", "kernel_version": "4.18.0"}, 1.0),
            ],
            "cores": [({"instance": "10.0.0.7:10250"}, 16.0)],
            "capacity": [({"node": "n1"}, 15.0), ({"node": "n2"}, 4.0), ({"node": "n3"}, float("nan"))],
            "version": [({"instance": "10.0.0.9:10250", "kernelVersion": "5.10.0"}, 1.0)],
        }
    )
    assert nodes.node_of_series({"instance": "10.0.0.7:10250"}) == "n1"
    assert nodes.node_of_series({"instance": "[fd00::7]:10250"}) == "n2"
    assert (nodes.facts("n1").cpus, nodes.facts("n1").kernel_release) == (16, "6.1.0-44")
    assert (nodes.facts("n2").cpus, nodes.facts("n3").cpus) == (4, None)
    assert nodes.facts("10.0.0.9").kernel_release == "5.10.0"


def test_queries_hide_no_pods_own_quota_and_are_of_the_chosen_namespaces() -> None:
    for query in (*QUERIES.values(), LIMITS):
        text = filled(query, 3600, ["shop", "a.b"])
        assert 'namespace=~"shop|a[.]b"' in text
        assert "container!=" not in text
        assert "{" not in text.replace('{namespace=~"shop|a[.]b"', "")
        assert text.count("(") == text.count(")")
    assert "container_cpu_cfs_periods_total[3600s]" in filled(QUERIES["periods"], 3600)
    assert 'kube_pod_container_resource_limits{resource="cpu"}[300s]' in filled(LIMITS, 300)
    assert "[604800s:840s]" in filled(QUERIES["use_p99"], 7 * 86400)


def test_pressure_of_a_container_rises_from_0_and_that_of_a_pod_is_not_taken() -> None:
    before, after = sampled(waiting_seconds=60.5, stalled_seconds=20.0)
    (zero,), (end,) = before.samples, after.samples
    assert (zero.waiting_ns, zero.stalled_ns) == (0, 0)
    assert (end.waiting_ns, end.stalled_ns) == (60_500_000_000, 20_000_000_000)
    (of_pod,) = sampled(OF_POD, waiting_seconds=60.5, stalled_seconds=20.0)[1].samples
    assert (of_pod.waiting_ns, of_pod.stalled_ns) == (None, None)
    (without,) = sampled()[1].samples
    assert (without.waiting_ns, without.stalled_ns) == (None, None)


@pytest.mark.parametrize("name", ["waiting_seconds", "stalled_seconds"])
def test_who_never_waited_is_not_asked_for_as_kubelets_on_cgroup_v1_say_0_of_everybody(name: str) -> None:
    query = filled(QUERIES[name], 300.0, ["shop"])
    assert 'last_over_time(container_pressure_cpu_waiting_seconds_total{namespace=~"shop"}[300s]) > 0' in query


def scraped_twice(*kinds: Mapping[str, str]) -> Sampled:
    found = increases()
    for name, value in USUAL.items():
        found.add_answer(name, [(labels, value) for labels in kinds])
    return found.sampled()[1]


BARE = {name: value for name, value in API.items() if name != "node"}


@pytest.mark.parametrize(
    "other",
    [
        BARE | {"kubernetes_io_hostname": "n1"},
        BARE | {"instance": "10.0.0.7:10250"},
        API | {"instance": "10.0.0.7:80"},
        {name: value for name, value in API.items() if name != "id"},
        {name: value for name, value in API.items() if name not in ("id", "name", "node")},
    ],
    ids=["another-label", "an-address", "another-instance", "without-its-path", "by-its-names-alone"],
)
def test_two_scrape_jobs_of_one_cgroup_are_not_added_up(other: Mapping[str, str]) -> None:
    """Whatever each job calls the node: the path of a container is one node's."""
    once, twice = scraped_twice(API), scraped_twice(API, other)
    assert twice.samples == once.samples


def test_containers_that_followed_one_another_under_one_name_are_added_up() -> None:
    """Where the path is not kept, an instance is known by its container id alone."""
    by_name = {name: value for name, value in API.items() if name != "id"}
    (sample,) = scraped_twice(by_name, by_name | {"name": "02" * 32}).samples
    assert (sample.periods, sample.throttled) == (72_000, 18_001)


def test_pieces_of_a_window_are_added_up_still() -> None:
    found = increases()
    put(found)
    put(found)
    assert found.sampled()[1].samples[0].periods == 72_000


def test_nodes_of_two_clusters_are_told_apart() -> None:
    info = [({"node": "n1", "cluster": name, "kernel_version": kernel}, 1.0) for name, kernel in KERNELS.items()]
    found = Increases(Nodes({"info": info}, cluster_label="cluster"), START, END)
    qos = {"node": "n1", "id": "/kubepods/burstable"}
    for name in KERNELS:
        put(found, qos | {"cluster": name}, quota=1e6)
    found.add_limits([({"cluster": "a", "namespace": "shop", "pod": "api-x", "container": "api"}, 0.2)])
    put(found, API | {"cluster": "b"}, quota=None)
    _, after = found.sampled()
    assert {node: facts.kernel_release for node, facts in after.nodes.items()} == {"a/n1": "6.1.0", "b/n1": "5.10.0"}
    assert "no quota" in after.examples[ReadError.MALFORMED], "a limit of the other cluster is not this one's"


KERNELS = {"a": "6.1.0", "b": "5.10.0"}


def test_a_chosen_cluster_is_in_every_query() -> None:
    chosen = ClusterChoice('pro"d', "k8s_cluster")
    for query in (*QUERIES.values(), *NODE_QUERIES.values(), LIMITS):
        assert filled(query, 300, ["shop"], chosen).count('k8s_cluster="pro\\"d"') >= 1
    assert all(filled(query, 300, cluster=chosen).startswith("count by (k8s_cluster) (") for query in CLUSTERS)


def test_the_names_of_a_scraped_cadvisor_are_not_those_of_the_cgroups_that_it_reads() -> None:
    target = {
        "instance": "10.42.0.143:8080",
        "namespace": "monitoring",
        "pod": "cadvisor-7k2p9",
        "container": "cadvisor",
    }
    found = increases()
    put(found, API | target)
    put(found, OF_POD | target)
    for sample in found.sampled()[1].samples:
        assert (sample.target.namespace, sample.target.pod, sample.target.container) == ("", "", "")
        assert sample.target.pod_uid
    own = {
        "container_label_io_kubernetes_pod_namespace": "shop",
        "container_label_io_kubernetes_pod_name": "api-x",
        "container_label_io_kubernetes_container_name": "api",
    }
    found = increases()
    put(found, API | target | own)
    put(found, OF_POD | target)
    names = {sample.target.level: sample.target.pod for sample in found.sampled()[1].samples}
    assert names == {CgroupLevel.CONTAINER: "api-x", CgroupLevel.POD: ""}


UID = POD.rpartition("/pod")[2]
SCRAPED = {"instance": "10.42.0.143:8080", "namespace": "monitoring", "pod": "cadvisor-7k2p9", "container": "cadvisor"}
OTHER_UID = "5d2a1b3c-2d3e-4f60-9bac-1d2e3f405162"


def test_a_standalone_cadvisor_that_shows_containers_alone_names_none_of_them() -> None:
    """No cgroup of a pod gives it away; but containers of several pods cannot all have one pod's name at once."""
    found = increases()
    for uid in (UID, OTHER_UID):
        put(found, API | SCRAPED | {"id": f"/kubepods/burstable/pod{uid}/{'ab' * 32}"})
    targets = [sample.target for sample in found.sampled()[1].samples]
    assert [(target.pod_uid, target.namespace, target.pod, target.container) for target in targets] == [
        (UID, "", "", ""),
        (OTHER_UID, "", "", ""),
    ]


def test_pods_that_follow_one_another_under_a_name_keep_it() -> None:
    found = increases()
    for uid, last in ((UID, START + 600), (OTHER_UID, END - 10)):
        labels = API | {"id": f"/kubepods/burstable/pod{uid}/{'ab' * 32}", "instance": "10.0.0.1:10250"}
        put(found, labels, last_seen=last)
    assert [sample.target.pod for sample in found.sampled()[1].samples] == ["api-x", "api-x"]


@pytest.mark.parametrize("above", ["/", "/kubepods", "/kubepods.slice/kubepods-burstable.slice"])
def test_a_pod_s_name_above_pods_is_that_of_the_scraped_cadvisor(above: str) -> None:
    """The job's relabelling may add the pod's name and no container."""
    scraped = {name: value for name, value in SCRAPED.items() if name != "container"}
    found = increases()
    put(found, API | SCRAPED)
    put(found, scraped | {"id": above})
    assert {sample.target.pod for sample in found.sampled()[1].samples} == {""}


@pytest.mark.parametrize(
    "labels",
    [
        {
            "container_label_io_kubernetes_pod_namespace": "shop",
            "container_label_io_kubernetes_pod_name": "api-x",
            "name": "ef" * 32,
        },
        {"name": f"k8s_POD_api-x_shop_{UID}_0"},
        {"container_label_io_kubernetes_pod_name": "api-x", "container_label_io_kubernetes_container_name": "POD"},
    ],
    ids=["containerd, own labels", "Docker and CRI-O", "Docker, own labels"],
)
def test_a_sandbox_that_a_standalone_cadvisor_shows_is_no_container(labels: dict[str, str]) -> None:
    assert target_of(SCRAPED | labels | {"id": f"/kubepods/burstable/pod{UID}/{'ef' * 32}"}) is None


def test_a_unit_beside_the_kubelet_s_tree_is_no_container_of_the_scraped_pod() -> None:
    found = increases()
    put(found, OF_POD | SCRAPED)
    put(found, SCRAPED | {"id": "/system.slice/docker.service"})
    levels = {sample.target.path: sample.target.level for sample in found.sampled()[1].samples}
    assert levels["/system.slice/docker.service"] is CgroupLevel.OTHER


WINDOWS = {"node": "w1", "kernel_version": "10.0.20348.2031", "os_image": "Windows Server 2022 Datacenter"}


def test_a_windows_node_has_no_kernel_to_judge() -> None:
    assert Nodes({"info": [(WINDOWS, 1.0)]}).facts("w1").kernel_release == ""


def test_what_runs_on_a_windows_node_is_not_judged() -> None:
    """Its series have use and no quota, whatever limit it has: no limit would be said of it."""
    found = increases(Nodes({"info": [(WINDOWS, 1.0)]}))
    for name, node in (("web", "w1"), ("api", "l1")):
        found.add_answer(
            "usage_seconds", [({"namespace": "shop", "pod": f"{name}-x", "container": name, "node": node}, 60.0)]
        )
    assert [sample.target.node for sample in found.sampled()[1].samples] == ["l1"]


@pytest.mark.parametrize("labels", [API, OF_POD], ids=["container", "pod"])
def test_a_node_in_a_container_shows_a_cgroup_by_two_paths_and_it_is_counted_once(labels: dict[str, str]) -> None:
    found = increases()
    outer = labels | {"id": f"/docker/{'ab' * 32}{labels['id']}"}
    for name, value in USUAL.items():
        found.add_answer(name, [(labels, value), (outer, value)])
    _, after = found.sampled()
    (sample,) = after.samples
    assert (sample.target.path, sample.periods) == (labels["id"], 36_000)
