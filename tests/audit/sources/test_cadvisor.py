"""cAdvisor's series become samples: what kubelets write, and what damaged answers must not do."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.generator.scrapes import go_float
from slack.audit.findings.sample import CgroupLevel, ReadError, Sample
from slack.audit.sources.cadvisor import CadvisorScrape, Scraped, scraped
from slack.audit.sources.exposition import InvalidSampleLine, count, labels, nanoseconds, point
from tests.cases import run_for_each

SCRAPES = Path(__file__).parents[1] / "scrapes"
"""Bodies in kubelet 1.36's form, a minute apart, written by benchmarks/generator/scrapes.py."""
ID = "01" * 32
POD = "/kubepods/burstable/pod8a4d3d2e-5a0b-4a55-9d8a-000000000001"
NAMED = f'container="api",id="{POD}/{ID}",image="i",name="{ID}",namespace="shop",pod="api-x"'
OF_POD = f'container="",id="{POD}",image="",name="",namespace="shop",pod="api-x"'
AT = 1795301656000


def recorded(name: str) -> Scraped:
    return scraped((SCRAPES / f"{name}.prom").read_bytes(), "n1", at_seconds=1.0)


def by_name(found: Scraped) -> dict[str, Sample]:
    """By container, or by pod and level where a cgroup is no container's."""
    return {
        sample.target.container or f"{sample.target.level} {sample.target.pod}".strip() or sample.target.path: sample
        for sample in found.samples
    }


def limited(named: str = NAMED, stamp: object = AT, **values: object) -> bytes:
    """All series of one cgroup with a limit; values by family replace the usual ones, None leaves a series out."""
    usual: dict[str, object] = {
        "container_cpu_cfs_periods_total": 100,
        "container_cpu_cfs_throttled_periods_total": 40,
        "container_cpu_cfs_throttled_seconds_total": 3.5,
        "container_cpu_usage_seconds_total": 12.25,
        "container_spec_cpu_period": 100000,
        "container_spec_cpu_quota": 20000,
    }
    lines = []
    for family, value in (usual | values).items():
        timed = "" if "spec" in family or stamp == "" else f" {stamp}"
        if value is not None:
            lines.append(f"{family}{{{named}}} {value}{timed}\n")
    return "".join(lines).encode()


def only(body: bytes) -> Sample:
    found = scraped(body, "n1", at_seconds=7.0)
    assert found.troubles == {}, found.examples
    (sample,) = found.samples
    return sample


def test_a_kubelets_answer_gives_every_level_with_names_and_without_sandboxes() -> None:
    found = recorded("kubelet-1.36-v1.after")
    assert found.troubles == {}
    assert (found.cpus, found.kernel_release, found.hierarchy) == (2, "6.1.0-44-amd64", "v1")
    samples = by_name(found)
    assert sorted(samples) == [
        "api", "kube-proxy", "kubepods", "node", "other", "pod api-6f7c9d5b8-x2x7z",
        "pod kube-proxy-n1", "pod web-0", "proxy", "qos", "web",
    ]  # fmt: skip
    api = samples["api"].target
    assert (api.node, api.namespace, api.pod, api.container_id) == ("n1", "shop", "api-6f7c9d5b8-x2x7z", ID)
    assert api.pod_uid == "8a4d3d2e-5a0b-4a55-9d8a-000000000001"
    assert samples["pod kube-proxy-n1"].target.pod_uid == "0123456789abcdef0123456789abcdef"


def test_times_are_those_of_the_series_not_of_the_scrape() -> None:
    before, after = by_name(recorded("kubelet-1.36-v1.before")), by_name(recorded("kubelet-1.36-v1.after"))
    assert after["api"].at_seconds == 1795301656.0
    assert after["pod web-0"].at_seconds == 1795301658.565
    assert after["api"].at_seconds - before["api"].at_seconds == 60.0
    assert after["api"].periods - before["api"].periods == 600


def test_a_container_without_a_limit_has_none_rather_than_zero_throttling() -> None:
    samples = by_name(recorded("kubelet-1.36-v1.after"))
    assert (samples["proxy"].quota_us, samples["proxy"].periods) == (None, 0)
    assert samples["proxy"].usage_ns == 36_555_520_000
    assert (samples["web"].quota_us, samples["pod web-0"].quota_us) == (None, 50_000)


def test_a_systemd_unit_is_there_only_with_a_quota() -> None:
    others = [
        sample.target.path
        for sample in recorded("kubelet-1.36-v1.after").samples
        if sample.target.level is CgroupLevel.OTHER
    ]
    assert others == ["/system.slice/backup.service"]


def test_the_version_is_seen_at_the_root() -> None:
    found = recorded("kubelet-1.36-v2.after")
    samples = by_name(found)
    assert (found.hierarchy, found.troubles) == ("v2", {})
    assert samples["api"].target.container_id == ID
    assert samples["api"].target.level is CgroupLevel.CONTAINER
    assert recorded("kubelet-1.36-v1.after").hierarchy == "v1"


def test_chunks_of_any_length_give_what_the_whole_body_gives() -> None:
    body = (SCRAPES / "kubelet-1.36-v1.after.prom").read_bytes()
    for size in (1, 7, 4096, 65536):
        scrape = CadvisorScrape("n1", 1.0)
        for at in range(0, len(body), size):
            scrape.feed(body[at : at + size])
        assert scrape.finish() == recorded("kubelet-1.36-v1.after")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (limited(), 1795301656.0),
        (limited(stamp=""), 7.0),
        (limited(stamp="1795301656.25"), 1795301656.25),
        (limited().replace(b"\n", b"\r\n"), 1795301656.0),
        (limited().replace(b" 40 ", b" \t40\t"), 1795301656.0),
        (limited().replace(b"12.25 1795301656000", b'12.25 1795301656000 # {id="}"} 0.5 1795301656'), 1795301656.0),
        (limited().replace(b'pod="api-x"}', b'pod="api-x",}'), 1795301656.0),
        (b"\n# HELP container_cpu_cfs_periods_total x\n\n" + limited(), 1795301656.0),
    ],
    ids=["milliseconds", "none: the scrape's", "OpenMetrics' seconds", "CRLF", "tab", "exemplar", "comma", "comments"],
)  # fmt: skip
def test_what_the_format_allows_is_read(body: bytes, expected: float) -> None:
    sample = only(body)
    assert (sample.periods, sample.throttled, sample.throttled_ns) == (100, 40, 3_500_000_000)
    assert (sample.usage_ns, sample.quota_us, sample.at_seconds) == (12_250_000_000, 20_000, expected)


def test_labels_with_escapes_braces_and_commas_are_read_as_they_were_meant() -> None:
    assert labels(rb'a="x\"},{\\",b="l\ni",') == {"a": 'x"},{\\', "b": "l\ni"}
    assert point(b'm{a="}\\" 1"} 2 3').labels == b'a="}\\" 1"'
    named = NAMED.replace("api-x", 'a\\"p} 9\\\\i').replace('container="api"', 'container="{a,b}"')
    assert (only(limited(named)).target.pod, only(limited(named)).target.container) == ('a"p} 9\\i', "{a,b}")


def test_usage_is_the_total_or_else_the_sum_over_cpus() -> None:
    def usage(*cpus: tuple[str, float]) -> bytes:
        known = {cpu: NAMED.replace(",id", f',cpu="{cpu}",id') for cpu, _ in cpus}
        lines = (f"container_cpu_usage_seconds_total{{{known[cpu]}}} {value} {AT}\n" for cpu, value in cpus)
        return limited(container_cpu_usage_seconds_total=None) + "".join(lines).encode()

    assert only(usage(("total", 5.0))).usage_ns == 5_000_000_000
    assert only(usage(("cpu00", 1.5), ("cpu01", 2.0))).usage_ns == 3_500_000_000
    assert only(limited(container_cpu_usage_seconds_total=None)).usage_ns is None


def test_docker_and_cri_o_name_containers_otherwise_and_the_path_tells_the_id() -> None:
    crio = NAMED.replace(f'name="{ID}"', 'name="k8s_api_api-x_shop_8a4d_0"').replace(f"/{ID}", f"/crio-{ID}.scope")
    assert only(limited(crio)).target.container_id == ID
    sandbox = NAMED.replace('container="api"', 'container="POD"')
    assert scraped(limited(sandbox)).samples == ()
    assert scraped(limited(NAMED.replace('container="api"', 'container=""'))).samples == ()


def test_series_without_an_id_are_told_apart_by_their_names() -> None:
    named = 'container="api",namespace="shop",pod="api-x"'
    target = only(limited(named)).target
    assert (target.path, target.level) == ("/shop/api-x/api", CgroupLevel.CONTAINER)
    assert only(limited('container="",namespace="shop",pod="api-x"')).target.level is CgroupLevel.POD


@run_for_each(
    ("family", "value"),
    [
        ("container_cpu_cfs_periods_total", "NaN"),
        ("container_cpu_cfs_periods_total", "-1"),
        ("container_cpu_cfs_periods_total", "1.5"),
        ("container_cpu_cfs_periods_total", "1e300"),
        ("container_cpu_cfs_throttled_periods_total", "+Inf"),
        ("container_cpu_cfs_throttled_periods_total", "1_000"),
        ("container_cpu_cfs_throttled_seconds_total", "-0.1"),
        ("container_cpu_cfs_throttled_seconds_total", "NaN"),
        ("container_cpu_cfs_throttled_seconds_total", "four"),
        ("container_spec_cpu_quota", "0"),
    ],
)
def test_a_damaged_value_costs_its_cgroup_and_nothing_else(family: str, value: str) -> None:
    found = scraped(limited(**{family: value}) + limited(OF_POD))
    assert [sample.target.level for sample in found.samples] == [CgroupLevel.POD]
    assert found.troubles == {ReadError.MALFORMED: 2}, "the line, and the cgroup that lacks it"
    assert family in found.examples[ReadError.MALFORMED]


def test_a_damaged_use_leaves_the_use_unknown() -> None:
    found = scraped(limited(container_cpu_usage_seconds_total="NaN"))
    assert [sample.usage_ns for sample in found.samples] == [None]
    assert found.troubles == {ReadError.MALFORMED: 1}


@pytest.mark.parametrize("family", ["container_cpu_cfs_periods_total", "container_spec_cpu_quota"])
def test_a_cgroup_that_lacks_one_of_its_series_is_left_out_and_told(family: str) -> None:
    found = scraped(limited(NAMED, AT, **{family: None}), "n7")
    assert (found.samples, found.troubles) == ((), {ReadError.MALFORMED: 1})
    assert found.examples[ReadError.MALFORMED].startswith(f"n7: {POD}/{ID}: no ")


def test_an_answer_that_ends_within_a_line_is_told_though_the_rest_of_it_reads_well() -> None:
    body = limited()
    found = scraped(body + limited(OF_POD)[:60])
    assert (len(found.samples), found.troubles) == (1, {ReadError.MALFORMED: 1})
    assert "ends within a line" in found.examples[ReadError.MALFORMED]


def test_of_two_series_of_one_cgroup_the_younger_counts_and_it_is_told() -> None:
    older = limited(stamp=AT - 10_000, container_cpu_cfs_periods_total=900)
    for body in (limited() + older, older + limited()):
        found = scraped(body)
        assert [(sample.periods, sample.at_seconds) for sample in found.samples] == [(100, AT / 1e3)]
        assert found.troubles == {ReadError.MALFORMED: 6}


def test_an_answer_without_containers_is_empty() -> None:
    assert scraped(b"").examples == {ReadError.EMPTY: "no byte"}
    found = scraped(b'# TYPE go_info gauge\ngo_info{version="1"} 1\n', "n1")
    assert found.troubles == {ReadError.EMPTY: 1}
    assert found.examples == {ReadError.EMPTY: "n1: no container_cpu_* series in the answer"}


def test_a_line_without_an_end_is_not_kept() -> None:
    scrape = CadvisorScrape()
    scrape.feed(limited())
    for _ in range(100):
        scrape.feed(b"container_cpu_cfs_periods_total{" + b"x" * 50_000)
    scrape.feed(b"\n" + limited(OF_POD))
    found = scrape.finish()
    assert len(found.samples) == 2
    assert found.troubles == {ReadError.MALFORMED: 1}


@given(st.lists(st.integers(0, 2**62), min_size=2, max_size=20).map(sorted))
def test_seconds_of_a_counter_never_fall_and_are_the_kernels_nanoseconds(counter: list[int]) -> None:
    seconds = [float(go_float(value / 1e9)) for value in counter]
    back = [nanoseconds(value) for value in seconds]
    assert back == sorted(back)
    assert all(value == other for value, other in zip(counter, back, strict=True) if value < 2**51)


def test_numbers_of_made_scrapes_are_written_as_go_writes_them() -> None:
    written = {0.0: "0", 100000.0: "100000", 1e6: "1e+06", 1234567.0: "1.234567e+06", 0.1: "0.1", 0.00012: "0.00012"}
    written |= {0.000012: "1.2e-05", 12345.678901234: "12345.678901234", -2.5: "-2.5", 1e22: "1e+22"}
    assert {value: go_float(value) for value in written} == written


def test_what_is_no_count_and_no_time_says_so() -> None:
    with pytest.raises(InvalidSampleLine, match=r"1\.5 is no count"):
        count(1.5)
    with pytest.raises(InvalidSampleLine, match="nan s is no time"):
        nanoseconds(float("nan"))
    with pytest.raises(InvalidSampleLine, match="comes twice"):
        labels(b'a="1",a="2"')


PRESSURE = {"container_pressure_cpu_waiting_seconds_total": 9.5, "container_pressure_cpu_stalled_seconds_total": 8.25}


def test_a_containers_pressure_is_read_and_a_pods_is_not() -> None:
    found = only(limited(NAMED, AT, **PRESSURE))
    assert (found.waiting_ns, found.stalled_ns) == (9_500_000_000, 8_250_000_000)
    above = only(limited(OF_POD, AT, **PRESSURE))
    assert (above.waiting_ns, above.stalled_ns) == (None, None)
    without = only(limited())
    assert (without.waiting_ns, without.stalled_ns) == (None, None)


def test_a_kubelet_on_cgroup_v1_tells_0_of_everybody_which_is_no_figure() -> None:
    zeros = only(limited(NAMED, AT, **dict.fromkeys(PRESSURE, 0)))
    assert (zeros.waiting_ns, zeros.stalled_ns) == (None, None)
    v1 = scraped(b'container_spec_cpu_period{id="/"} 100000\n' + limited(NAMED, AT, **PRESSURE), "n1", at_seconds=7.0)
    assert v1.hierarchy == "v1"
    assert {sample.waiting_ns for sample in v1.samples} == {None}
    v2 = scraped(b'container_spec_cpu_period{id="/"} 0\n' + limited(NAMED, AT, **PRESSURE), "n1", at_seconds=7.0)
    assert (v2.hierarchy, {sample.target.level for sample in v2.samples if sample.waiting_ns}) == (
        "v2",
        {CgroupLevel.CONTAINER},
    )


def test_a_series_without_labels_is_told_and_is_not_the_root_cgroup() -> None:
    bare = b"container_cpu_cfs_periods_total 5\ncontainer_cpu_usage_seconds_total{} 9\n"
    for body in (bare + limited(), limited() + bare):
        found = scraped(body + limited('id="/"'), "n1", at_seconds=7.0)
        assert found.troubles == {ReadError.MALFORMED: 2}
        assert {sample.target.path: sample.periods for sample in found.samples} == {f"{POD}/{ID}": 100, "/": 100}


@pytest.mark.parametrize("outer", [f"/docker/{'ab' * 32}", f"/docker/{'ab' * 32}/kubelet", "/lxc.payload.node"])
def test_a_node_in_a_container_shows_a_cgroup_by_two_paths_and_it_is_one(outer: str) -> None:
    twice = limited() + limited(OF_POD)
    found = scraped(twice + twice.replace(b'id="', f'id="{outer}'.encode()), "n1", at_seconds=7.0)
    assert found.troubles == {}
    assert [(s.target.level, s.target.path) for s in found.samples] == [
        (CgroupLevel.CONTAINER, f"{POD}/{ID}"),
        (CgroupLevel.POD, POD),
    ]


def test_a_machine_s_cores_are_read_without_labels_too() -> None:
    """As a standalone cAdvisor and older kubelets write them."""
    found = scraped(b"machine_cpu_cores 8\n" + b'machine_cpu_cores_other{a="b"} 3\n')
    assert found.cpus == 8
    assert ReadError.MALFORMED not in found.troubles
