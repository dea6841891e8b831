"""Which advice for which finding, in which order, with which figures, and what is never advised."""

from dataclasses import replace

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from slack.audit.advice.patches import PatchKind
from slack.audit.advice.rules import Advice, AdviceId, Facts, advise
from slack.audit.advice.runtimes import go_version
from slack.audit.findings.finding import Finding, Severity
from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, CgroupTarget, Sample, Sampled
from slack.audit.findings.throttling import judge
from slack.audit.findings.window import compare
from slack.audit.sources.pods import AuditedPodFacts
from tests.audit.build import API, POD, POD_PATH, judged, pod_facts, present, sample, throttled_for
from tests.audit.findings.test_throttling import sampleds

GOOD = CgroupNodeFacts(16, "6.12.30", hierarchy="v2")
BAD = CgroupNodeFacts(16, "4.19.76+")


def starved(*, threads: int = 2, quota_ms: float = 40, cpus: int = 16) -> Finding:
    """All of `threads` always want to run: 100 periods, each with quota / threads of running."""
    stop_ms = 100 - quota_ms / threads
    above = sample(
        at=10,
        quota_ms=quota_ms,
        periods=100,
        throttled=99,
        throttled_ms=throttled_for(stop_ms, quota_ms, 100, 99),
        usage_ms=quota_ms * 100,
    )
    return judged(above, cpus=cpus)[API.path]


def bursty(burst_ms: float | None = 0) -> Finding:
    """30 ms of work each 300 ms under 20 ms: half the limit used, a third of the periods throttled."""
    inner = sample(
        at=30,
        quota_ms=20,
        periods=300,
        throttled=100,
        throttled_ms=3890,
        usage_ms=3000,
        burst_ms=burst_ms,
    )
    return judged(inner)[API.path]


def below_limit() -> Finding:
    measured = sample(at=10, quota_ms=20, periods=100, throttled=70, throttled_ms=3000, usage_ms=1000)
    return judged(measured, cpus=16)[API.path]


def under_the_pod() -> Finding:
    stood = throttled_for(73, 50, 100, 81)
    parent = sample(POD, at=8.1, quota_ms=50, periods=81, throttled=81, throttled_ms=stood, usage_ms=50 * 81)
    child = sample(at=8.1, quota_ms=None, usage_ms=50 * 81, inherited_ms=stood)
    return judged(parent, child)[API.path]


def facts(pod: AuditedPodFacts | None = None, node: CgroupNodeFacts = GOOD, p99_cores: float | None = None) -> Facts:
    known = pod or pod_facts()
    return Facts(pod=known, container=known.containers[0], node=node, p99_cores=p99_cores)


def facts_without_container(pod: AuditedPodFacts) -> Facts:
    return Facts(pod=pod, node=GOOD)


def ids(advice: tuple[Advice, ...]) -> list[str]:
    return [item.id.value for item in advice]


def the(advice: tuple[Advice, ...], wanted: AdviceId) -> Advice:
    (found,) = [item for item in advice if item.id is wanted]
    return found


def test_a_starved_container_gets_a_higher_limit_first_then_fewer_threads_then_a_shorter_period() -> None:
    assert ids(advise(starved(), facts())) == ["raise-limit", "match-threads", "shorter-period"]


def test_the_raise_goes_by_the_history_of_its_use() -> None:
    advice = the(advise(starved(), facts(p99_cores=0.4)), AdviceId.RAISE_LIMIT)
    assert advice.patch is not None
    assert advice.patch.cpu_limit_millis == 480
    assert advice.title == "raise the CPU limit to 480m"
    assert "99th percentile of its use, 0.40 cores, times 1.2" in advice.reason
    assert "limits:\n            cpu: 480m" in present(advice.patch.merge_yaml)


def test_without_history_it_goes_by_use_and_lost_time_of_the_window_and_says_so() -> None:
    advice = the(advise(starved(), facts()), AdviceId.RAISE_LIMIT)
    assert advice.patch is not None
    assert advice.patch.cpu_limit_millis == 2000
    assert "no history" in advice.reason
    assert "1.98 cores, use and lost time" in advice.reason


def now_and_then(*, throttled: int = 60, busy: float = 1.6, cpus: int = 16) -> Finding:
    """Stopped in some periods only; in the others it wanted less than its limit of 0.9 cores, which it uses nearly."""
    measured = sample(
        at=10,
        quota_ms=90,
        periods=100,
        throttled=throttled,
        throttled_ms=throttled * (busy * 100 - 90),
        usage_ms=8500,
    )
    return judged(measured, cpus=cpus)[API.path]


def test_a_raise_by_the_mean_has_a_margin_and_says_what_it_is_for() -> None:
    """Use and lost time are a mean: 0.85 + 0.42 cores. Where bursts want 1.6, the same limit cannot end all stops."""
    advice = the(advise(now_and_then(), facts()), AdviceId.RAISE_LIMIT)
    assert advice.patch is not None
    assert advice.patch.cpu_limit_millis == 1550
    assert "1.27 cores, use and lost time of this one window together, times 1.2" in advice.reason
    assert "for its mean need; bursts may still stop shortly below 1.60 cores" in advice.reason


def test_where_its_use_is_not_known_the_quota_of_throttled_periods_stands_for_it() -> None:
    """cpuacct can be mounted elsewhere: 60 of 100 periods used up 0.9 cores, and 0.42 were lost."""
    seen = now_and_then()
    unknown = judged_without_use(seen)
    advice = the(advise(unknown, facts()), AdviceId.RAISE_LIMIT)
    assert "0.96 cores, the quota of throttled periods and lost time of this one window together" in advice.reason
    assert advice.reason.startswith("it is stopped by its limit and waits for more")


def judged_without_use(seen: Finding) -> Finding:
    window = seen.window
    measured = sample(
        at=window.seconds,
        quota_ms=90,
        periods=window.periods,
        throttled=window.throttled,
        throttled_ms=window.throttled_ns / 1e6,
        usage_ms=None,
    )
    return judged(measured, cpus=16)[API.path]


def test_no_margin_goes_beyond_what_was_busy() -> None:
    advice = the(advise(now_and_then(busy=1.4, throttled=70), facts()), AdviceId.RAISE_LIMIT)
    assert advice.patch is not None
    assert advice.patch.cpu_limit_millis == 1400
    assert "bursts may still" not in advice.reason, "with that limit nothing stops"


def test_where_threads_are_busy_all_the_time_the_limit_is_the_one_that_ends_it() -> None:
    advice = the(advise(now_and_then(throttled=92), facts()), AdviceId.RAISE_LIMIT)
    assert advice.patch is not None
    assert advice.patch.cpu_limit_millis == 1600
    assert "1.60 cores were busy in nearly every period" in advice.reason
    assert "bursts may still" not in advice.reason


def test_a_raise_by_the_history_says_what_it_leaves_too() -> None:
    advice = the(advise(now_and_then(), facts(p99_cores=1.0)), AdviceId.RAISE_LIMIT)
    assert advice.patch is not None
    assert advice.patch.cpu_limit_millis == 1200
    assert "times 1.2; bursts may still stop shortly below 1.60 cores" in advice.reason


def test_the_evidence_has_both_numbers() -> None:
    advice = the(advise(starved(), facts()), AdviceId.RAISE_LIMIT)
    assert "throttled in 99.0% of 100 periods, 79.2% of its time lost, stops of 80.0 ms" in advice.evidence
    assert "uses 0.40 of 0.40 cores" in advice.evidence


def test_no_limit_is_higher_than_the_node_or_than_the_pods_own() -> None:
    small = the(advise(starved(), facts(node=CgroupNodeFacts(1, "6.12.30"))), AdviceId.RAISE_LIMIT)
    assert small.patch is not None
    assert small.patch.cpu_limit_millis == 1000
    in_pod = the(advise(starved(), facts(pod_facts(pod_limit=600))), AdviceId.RAISE_LIMIT)
    assert in_pod.patch is not None
    assert in_pod.patch.cpu_limit_millis == 600
    assert "no more than the pod's limit" in in_pod.reason
    none = the(advise(starved(), facts(pod_facts(pod_limit=400))), AdviceId.RAISE_LIMIT)
    assert none.patch is None
    assert "as high as it can be" in present(none.no_patch)


def test_the_catch_is_told() -> None:
    raising = the(advise(starved(), facts()), AdviceId.RAISE_LIMIT)
    assert "neighbours wait" in present(raising.risk)
    guaranteed = the(advise(starved(), facts(pod_facts(qos="Guaranteed", request=400))), AdviceId.RAISE_LIMIT)
    assert "Guaranteed: the request has to rise with it" in present(guaranteed.risk)
    assert "InPlacePodVerticalScalingExclusiveCPUs" in present(guaranteed.risk)
    burstable = the(advise(starved(), facts(pod_facts())), AdviceId.RAISE_LIMIT)
    assert "InPlacePodVerticalScalingExclusiveCPUs" not in present(burstable.risk)
    restarted = the(advise(starved(), facts(pod_facts(resize_restarts=True))), AdviceId.RAISE_LIMIT)
    assert "restarts the container" in present(restarted.risk)


def test_without_names_the_words_stand_without_a_patch() -> None:
    advice = the(advise(starved()), AdviceId.RAISE_LIMIT)
    assert advice.patch is None
    assert advice.no_patch == "the pod's name and spec are not known"


def test_a_static_pod_is_changed_in_its_file() -> None:
    advice = the(advise(starved(), facts(pod_facts(owner=("Node", "n"), static=True))), AdviceId.RAISE_LIMIT)
    assert advice.patch is None
    assert "its file on the node" in present(advice.no_patch)


def test_what_is_not_the_kubelets_is_changed_where_it_was_set() -> None:
    finding = starved()
    unit = CgroupTarget(CgroupLevel.OTHER, "/system.slice/backup.service")
    advice = advise(replace(finding, window=replace(finding.window, target=unit)))
    assert "systemd CPUQuota" in present(the(advice, AdviceId.RAISE_LIMIT).no_patch)


def test_an_affected_kernel_comes_first_with_the_kubelets_drop_in() -> None:
    advice = advise(starved(), facts(node=BAD))
    assert ids(advice)[0] == "upgrade-kernel"
    first = advice[0]
    assert "4.19.84" in first.title
    assert "LKML" in first.evidence
    assert "CVE-2019-19922" in first.reason
    assert "one container can take all CPUs" in present(first.risk)
    assert [patch.kind for patch in first.patches] == [PatchKind.QUOTA_OFF, PatchKind.REMOVE_LIMIT]
    assert yaml.safe_load(present(first.patches[0].merge_yaml))["cpuCFSQuota"] is False


def test_the_clock_drift_is_not_called_slice_expiry() -> None:
    advice = advise(starved(), facts(node=CgroupNodeFacts(16, "4.9.337")))[0]
    assert advice.id is AdviceId.UPGRADE_KERNEL
    assert "CVE" not in advice.reason
    assert "medium confidence" in advice.evidence


def test_throttled_below_its_limit_on_an_unknown_kernel_asks_what_would_decide() -> None:
    advice = advise(below_limit(), facts(node=CgroupNodeFacts(16, "4.19.0-6-amd64")))
    assert ids(advice) == ["check-kernel"]
    assert "uname -v" in advice[0].reason
    assert advice[0].patch is None
    assert advice[0].no_patch


def test_on_a_good_kernel_that_is_a_matter_of_bursts() -> None:
    assert ids(advise(below_limit(), facts())) == ["allow-burst"]


def test_a_bursty_container_may_save_credit_or_get_its_peak() -> None:
    (advice,) = advise(bursty(), facts(pod_facts(limit=200)))
    assert advice.id is AdviceId.ALLOW_BURST
    credit, limit = advice.patches
    assert (credit.kind, credit.burst_us) == (PatchKind.BURST, 20_000)
    assert present(credit.command).endswith("/cpu.max.burst")
    assert (limit.kind, limit.cpu_limit_millis) == (PatchKind.RAISE_LIMIT, 300)
    assert "after each resize" in present(advice.risk)


@pytest.mark.parametrize(
    ("finding", "node", "why"),
    [
        (bursty(None), CgroupNodeFacts(2, "5.10.0"), "this kernel has no burst"),
        (bursty(20), GOOD, "its burst credit is not enough"),
        (
            replace(bursty(), window=replace(bursty().window, periods=150, throttled=100, usage_ns=3 * 10**9)),
            GOOD,
            "outlast any credit",
        ),
    ],
)
def test_where_credit_cannot_help_the_limit_is_raised_to_the_peak(
    finding: Finding, node: CgroupNodeFacts, why: str
) -> None:
    (advice,) = advise(finding, facts(pod_facts(limit=200), node=node))
    assert advice.id is AdviceId.ALLOW_BURST
    assert why in advice.reason
    assert [patch.cpu_limit_millis for patch in advice.patches] == [300]


@pytest.mark.parametrize(
    ("image", "words", "variable"),
    [
        ("docker.io/library/node:22", "UV_THREADPOOL_SIZE=1", "UV_THREADPOOL_SIZE"),
        ("golang:1.24", "GOMAXPROCS=1", "GOMAXPROCS"),
        ("registry.example/tools/gunicorn-app:3", "WEB_CONCURRENCY=1", "WEB_CONCURRENCY"),
    ],
)
def test_threads_are_matched_by_the_runtimes_variable(image: str, words: str, variable: str) -> None:
    advice = the(advise(starved(), facts(pod_facts(image=image))), AdviceId.MATCH_THREADS)
    assert words in advice.reason
    assert advice.patch is not None
    env = yaml.safe_load(present(advice.patch.merge_yaml))["spec"]["template"]["spec"]["containers"][0]["env"]
    assert [variable_json["name"] for variable_json in env] == [variable]


def test_a_jvm_sees_its_own_limit_and_gets_no_patch_for_it() -> None:
    advice = the(advise(starved(), facts(pod_facts(image="eclipse-temurin:21-jre"))), AdviceId.MATCH_THREADS)
    assert advice.patches == ()
    assert advice.no_patch == "the JVM takes its number of threads from this limit itself"
    assert "computes its number of processors from the container's limit by itself" in advice.reason


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ((("WEB_CONCURRENCY", "8"),), "WEB_CONCURRENCY is set already ('8')"),
        ((("WEB_CONCURRENCY", ""),), "WEB_CONCURRENCY is set already (empty)"),
        ((("WEB_CONCURRENCY", None),), "WEB_CONCURRENCY is set already (from another object)"),
        (None, "envFrom may set WEB_CONCURRENCY already"),
    ],
)
def test_a_variable_that_may_be_set_already_is_not_overwritten(
    variables: tuple[tuple[str, str | None], ...] | None, why: str
) -> None:
    pod = pod_facts(image="gunicorn:3")
    container = msgspec.structs.replace(pod.containers[0], variables=variables)
    known = facts(msgspec.structs.replace(pod, containers=(container,)))
    advice = the(advise(starved(), known), AdviceId.MATCH_THREADS)
    assert advice.patches == ()
    assert why in present(advice.no_patch)


def test_a_jvm_under_the_pods_quota_keeps_the_options_that_it_has() -> None:
    pod = pod_facts(limit=None, pod_limit=500, image="eclipse-temurin:21-jre")
    set_already = (("JAVA_TOOL_OPTIONS", "-XX:MaxRAMPercentage=70 -javaagent:/otel/agent.jar"),)
    container = msgspec.structs.replace(pod.containers[0], variables=set_already)
    known = facts(msgspec.structs.replace(pod, containers=(container,)))
    advice = the(advise(under_the_pod(), known), AdviceId.MATCH_THREADS)
    assert advice.patches == ()
    assert "-javaagent:/otel/agent.jar" in present(advice.no_patch)


def test_a_raise_by_a_resize_names_its_feature_gate() -> None:
    for finding, pod in ((starved(), pod_facts()), (under_the_pod(), pod_facts(limit=500))):
        found = [advice for advice in advise(finding, facts(pod)) if any(patch.command for patch in advice.patches)]
        assert found
        assert all("InPlacePod" in present(advice.risk) for advice in found)


def test_options_of_an_image_are_not_replaced() -> None:
    """What an image sets is not in the pod: an agent of the image's would be lost."""
    pod = pod_facts(limit=None, pod_limit=500, image="eclipse-temurin:21-jre")
    advice = the(advise(under_the_pod(), facts(pod)), AdviceId.MATCH_THREADS)
    assert advice.patches == ()
    assert "the image may set JAVA_TOOL_OPTIONS itself" in present(advice.no_patch)


def test_a_number_of_threads_is_replaced_and_the_risk_is_named() -> None:
    advice = the(advise(starved(), facts(pod_facts(image="gunicorn:3"))), AdviceId.MATCH_THREADS)
    assert advice.patch is not None
    assert "an image that sets WEB_CONCURRENCY itself" in present(advice.risk)


@pytest.mark.parametrize(("quota_ms", "threads"), [(50, 1), (250, 3)])
def test_threads_go_by_the_quota_in_force_of_a_pod_without_a_limit_of_its_own(quota_ms: float, threads: int) -> None:
    """The pod's quota is the sum of its containers' limits; its spec has no limit of the pod."""
    stood = throttled_for(73, quota_ms, 100, 81)
    parent = sample(
        POD, at=8.1, quota_ms=quota_ms, periods=81, throttled=81, throttled_ms=stood, usage_ms=81 * quota_ms
    )
    child = sample(at=8.1, quota_ms=400, usage_ms=81 * quota_ms, periods=81, throttled=0, inherited_ms=stood)
    finding = judged(parent, child, cpus=16)[API.path]
    advice = the(advise(finding, facts(pod_facts(limit=4000, image="gunicorn:3"))), AdviceId.MATCH_THREADS)
    assert f"let it run {threads} thread" in advice.title


def test_a_raise_that_the_spec_has_already_is_no_raise() -> None:
    """A quota that is in force still, or again, is lower than the spec says."""
    advice = the(advise(starved(), facts(pod_facts(limit=4000))), AdviceId.RAISE_LIMIT)
    assert advice.patches == ()
    assert "the container's spec has 4, which is enough, and a lower quota is in force" in present(advice.no_patch)


def test_a_pods_limit_is_computed_with_the_quota_in_force_and_without_the_overhead() -> None:
    finding = under_the_pod()
    assert finding.blamed_cores == pytest.approx(0.5)
    plain = the(advise(finding, facts(pod_facts(limit=None, pod_limit=500))), AdviceId.POD_LIMIT)
    assert plain.patch is not None
    assert plain.patch.cpu_limit_millis is not None
    # 250m of the quota are the RuntimeClass': the spec says 250m, and needs as much more
    pod = msgspec.structs.replace(pod_facts(limit=None, pod_limit=250), overhead_millis=250)
    less = the(advise(finding, facts(pod)), AdviceId.POD_LIMIT)
    assert less.patch is not None
    assert less.patch.cpu_limit_millis == plain.patch.cpu_limit_millis - 250
    # the spec says 3 cores since then, and 0.5 are in force: no more than that is needed
    stale = the(advise(finding, facts(pod_facts(limit=None, pod_limit=3000))), AdviceId.POD_LIMIT)
    assert stale.patches == ()
    assert "the pod's spec has 3, which is enough" in present(stale.no_patch)


def test_a_sum_of_limits_is_computed_with_the_quota_in_force_too() -> None:
    finding = under_the_pod()
    plain = the(advise(finding, facts(pod_facts(limit=500))), AdviceId.POD_LIMIT)
    assert plain.patch is not None
    assert plain.patch.cpu_limit_millis is not None
    pod = msgspec.structs.replace(pod_facts(limit=400), overhead_millis=100)
    less = the(advise(finding, facts(pod)), AdviceId.POD_LIMIT)
    assert less.patch is not None
    assert less.patch.cpu_limit_millis == plain.patch.cpu_limit_millis - 100
    stale = the(advise(finding, facts(pod_facts(limit=3000))), AdviceId.POD_LIMIT)
    assert stale.patches == ()
    assert "the containers' limits come to 3, which is enough" in present(stale.no_patch)


@pytest.mark.parametrize(
    "image",
    ["golang:1.25", "mirror.example:5000/library/golang:1.25.3-alpine", "golang:1.26rc1", "go-toolset/app:2.0-go1.27"],
)
@pytest.mark.parametrize("quota_ms", [40, 200])
def test_a_go_that_sees_its_limit_by_itself_gets_no_patch_for_it(image: str, quota_ms: int) -> None:
    advice = the(advise(starved(threads=10, quota_ms=quota_ms), facts(pod_facts(image=image))), AdviceId.MATCH_THREADS)
    assert advice.patches == ()
    assert "by itself" in present(advice.no_patch)
    assert "by itself, here 2 " in advice.reason
    assert all(word in advice.reason for word in ("go.mod", "GOMAXPROCS that is set already"))


@pytest.mark.parametrize("image", ["golang:1.24.9", "golang:1", "golang:latest", "golang:1.2"])
def test_an_older_go_or_one_that_no_tag_tells_is_given_its_variable(image: str) -> None:
    advice = the(advise(starved(), facts(pod_facts(image=image))), AdviceId.MATCH_THREADS)
    assert advice.patch is not None
    assert "GOMAXPROCS=1" in advice.reason


def test_no_go_sees_the_quota_of_a_level_above_so_it_is_told() -> None:
    new = facts(pod_facts(limit=None, pod_limit=500, image="golang:1.27"))
    advice = the(advise(under_the_pod(), new), AdviceId.MATCH_THREADS)
    assert advice.patch is not None
    assert "needs that only for the quota of a level above" in advice.reason


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("golang:1.25.3-alpine@sha256:" + "1" * 64, (1, 25)),
        ("ghcr.io/a/golang-1.25", (1, 25)),
        ("app:1.25", None),
        ("mango:1.25", None),
        ("golang:1.25.", (1, 25)),
        ("golang:1.2500", None),
        ("go:" + "1." * 5000, (1, 1)),
        ("", None),
    ],
)
def test_gos_version_is_read_from_the_tag_and_from_nothing_else(image: str, version: tuple[int, int] | None) -> None:
    assert go_version(pod_facts(image=image).containers[0]) == version


@pytest.mark.parametrize("image", ["nginx:1.27", "python:3.13-slim", "registry.example/shop/api:1.4", ""])
def test_where_no_variable_does_it_there_are_words_only(image: str) -> None:
    advice = the(advise(starved(), facts(pod_facts(image=image))), AdviceId.MATCH_THREADS)
    assert advice.patch is None
    assert advice.no_patch == "what sets it depends on the program"


def test_an_unknown_runtime_gets_every_ones_hint() -> None:
    advice = the(advise(starved(), facts()), AdviceId.MATCH_THREADS)
    assert all(word in advice.reason for word in ("GOMAXPROCS=1", "ActiveProcessorCount=1", "nginx", "Python"))


def test_as_many_threads_as_the_limit_has_cpus_are_not_too_many() -> None:
    assert "match-threads" not in ids(advise(starved(threads=2, quota_ms=190), facts()))


def test_a_latency_class_pod_keeps_its_request_only_by_new_pods() -> None:
    advice = the(advise(starved(), facts(pod_facts(latency=True))), AdviceId.REQUESTS_ONLY)
    assert advice.patch is not None
    assert (advice.patch.kind, advice.patch.command) == (PatchKind.REMOVE_LIMIT, None)
    assert all(word in present(advice.risk) for word in ("#67577", "JDK-8281181", "neighbours"))
    assert "new pods are needed" in advice.reason


def test_exclusive_cpus_need_no_quota() -> None:
    whole = pod_facts(qos="Guaranteed", limit=2000, request=2000)
    assert "exclusive-cpus" in ids(advise(starved(threads=10, quota_ms=200), facts(whole)))
    known = replace(facts(whole), static_cpu_manager=False)
    assert "exclusive-cpus" not in ids(advise(starved(threads=10, quota_ms=200), known))
    half = pod_facts(qos="Guaranteed", limit=1500, request=1500)
    assert "exclusive-cpus" not in ids(advise(starved(threads=10, quota_ms=150), facts(half)))


def test_under_a_pods_own_limit_the_pods_limit_is_named() -> None:
    advice = advise(under_the_pod(), facts(pod_facts(limit=None, pod_limit=500)))
    assert ids(advice) == ["match-threads", "pod-limit"]
    last = advice[-1]
    assert "spec.resources.limits.cpu, now 500m" in last.title
    assert last.patch is not None
    assert last.patch.kind is PatchKind.RAISE_POD_LIMIT
    assert "its pod throttled in 100.0% of periods, 73.0% of its time lost" in last.evidence


def test_a_container_that_was_given_the_pods_limit_is_not_raised_itself() -> None:
    advice = advise(starved(), facts(pod_facts(limit=None, pod_limit=400)))
    assert "raise-limit" not in ids(advice)
    last = the(advice, AdviceId.POD_LIMIT)
    assert last.patch is not None
    assert last.patch.cpu_limit_millis == 2000


def test_a_static_pods_own_limit_is_changed_in_its_file() -> None:
    static = pod_facts(limit=None, pod_limit=400, static=True, owner=("Node", "n"))
    advice = the(advise(starved(), facts(static)), AdviceId.POD_LIMIT)
    assert advice.patch is None
    assert "its file on the node" in present(advice.no_patch)


def test_a_pods_quota_that_is_a_sum_is_called_one_and_the_containers_part_is_raised() -> None:
    advice = the(advise(under_the_pod(), facts(pod_facts(limit=400))), AdviceId.POD_LIMIT)
    assert "the pod's quota is their sum, 400m" in advice.title
    assert advice.patch is not None
    assert (advice.patch.kind, advice.patch.container) == (PatchKind.RAISE_LIMIT, "api")
    without = facts_without_container(pod_facts(limit=400))
    assert the(advise(under_the_pod(), without), AdviceId.POD_LIMIT).patch is not None, "it is the only one"


def test_which_of_two_containers_should_have_more_is_not_guessed() -> None:
    pod = pod_facts(limit=400)
    other = msgspec.structs.replace(pod.containers[0], name="log", index=1)
    two = msgspec.structs.replace(pod, containers=(pod.containers[0], other), container_ids=("3a" * 32, ""))
    advice = the(advise(under_the_pod(), facts_without_container(two)), AdviceId.POD_LIMIT)
    assert advice.patch is None
    assert "which of its containers" in present(advice.no_patch)


def test_a_quota_that_kubernetes_does_not_set_is_named_by_its_path() -> None:
    finding = replace(under_the_pod(), blamed=CgroupTarget(CgroupLevel.QOS, "/kubepods/burstable"))
    advice = the(advise(finding, facts()), AdviceId.POD_LIMIT)
    assert "/kubepods/burstable" in advice.title
    assert advice.patch is None
    unseen = the(advise(replace(finding, blamed=None), facts()), AdviceId.POD_LIMIT)
    assert "not seen" in unseen.title


def test_the_pods_own_finding_names_its_limit_too() -> None:
    stood = throttled_for(73, 50, 100, 81)
    parent = sample(POD, at=8.1, quota_ms=50, periods=81, throttled=81, throttled_ms=stood, usage_ms=50 * 81)
    known = Facts(pod=pod_facts(limit=None, pod_limit=500), node=GOOD)
    advice = the(advise(judged(parent)[POD_PATH], known), AdviceId.POD_LIMIT)
    assert advice.patch is not None
    assert advice.patch.cpu_limit_millis == 1900


def test_harmless_findings_get_no_advice() -> None:
    boundary = sample(at=10, periods=100, throttled=40, throttled_ms=180, usage_ms=19_800)
    finding = judged(boundary, cpus=16)[API.path]
    assert finding.severity is Severity.INFO
    assert advise(finding, facts(node=BAD)) == ()


def test_too_little_data_gets_none() -> None:
    few = sample(at=10, quota_ms=20, periods=3, throttled=3, throttled_ms=240, usage_ms=60)
    windows = compare(Sampled((sample(quota_ms=20),), {}), Sampled((few,), {})).windows
    assert advise(judge(windows, {})[0], facts(node=BAD)) == ()


def test_a_window_that_mixes_two_limits_gets_none() -> None:
    finding = starved()
    assert advise(replace(finding, window=replace(finding.window, quota_changed=True)), facts()) == ()


def all_pods() -> list[AuditedPodFacts | None]:
    return [
        None,
        pod_facts(),
        pod_facts(latency=True, owner=("", "")),
        pod_facts(latency=True, qos="Guaranteed", limit=2000, request=2000),
        pod_facts(limit=None, pod_limit=300),
        pod_facts(static=True, owner=("Node", "n")),
        pod_facts(static=True, owner=("Node", "n"), limit=None, pod_limit=300),
    ]


nodes = st.sampled_from(
    [None, GOOD, BAD, CgroupNodeFacts(None), CgroupNodeFacts(1, "4.19.0-6-amd64"), CgroupNodeFacts(4, "5.10.0")]
)


@given(sampleds, sampleds, st.sampled_from(all_pods()), nodes, st.none() | st.floats())
def test_no_counters_make_it_fail(
    before: Sampled, after: Sampled, pod: AuditedPodFacts | None, node: CgroupNodeFacts | None, p99: float | None
) -> None:
    known = Facts(pod, pod.containers[0] if pod else None, node, p99)
    for finding in judge(compare(before, after, least_periods=0).windows, after.nodes):
        check(advise(finding, known))


@given(
    st.sampled_from([API, POD]),
    st.integers(1, 10**6),
    st.integers(100, 10**4),
    st.integers(0, 10**4),
    st.integers(0, 10**8),
    st.none() | st.integers(0, 10**8),
    st.sampled_from(all_pods()),
    nodes,
)
def test_every_advice_has_its_parts(
    target: CgroupTarget,
    quota_ms: int,
    periods: int,
    throttled: int,
    throttled_ms: int,
    usage_ms: int | None,
    pod: AuditedPodFacts | None,
    node: CgroupNodeFacts | None,
) -> None:
    measured: Sample = sample(
        target,
        at=periods / 10,
        quota_ms=quota_ms,
        periods=periods,
        throttled=throttled,
        throttled_ms=throttled_ms,
        usage_ms=usage_ms,
    )
    known = Facts(pod, pod.containers[0] if pod else None, node, None)
    check(advise(judged(measured)[target.path], known))


def check(advice: tuple[Advice, ...]) -> None:
    order = list(AdviceId)
    assert [item.id for item in advice] == sorted((item.id for item in advice), key=order.index)
    assert len({item.id for item in advice}) == len(advice)
    for item in advice:
        assert item.title
        assert item.evidence
        assert item.reason
        assert bool(item.patches) != bool(item.no_patch)
        for patch in item.patches:
            assert patch.merge_yaml or patch.command
            assert PatchKind.REMOVE_LIMIT is not patch.kind or not patch.command
            if patch.cpu_limit_millis is not None:
                assert patch.cpu_limit_millis > 0
