"""Inputs of the companions made after reports of users: each command says what is right for them. All names and sizes
are invented."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from slack.audit.sources.walker import CgroupWalker
from slack.cli.audit import sampling as audit_taking
from slack.cluster.quantity import thousandths
from slack.throttler.injection import patch
from slack.throttler.podspec.gate_container import GateOptions
from tests.audit.tree import unpack, uptime
from tests.cli.audit.test_sources import Answer, Reply, faked, status, vector
from tests.cli.conftest import Run

INPUTS = Path(__file__).parent / "real_inputs"
QUERIES = {
    "increase(container_cpu_cfs_periods_total": "periods",
    "increase(container_cpu_cfs_throttled_periods_total": "throttled",
    "increase(container_cpu_cfs_throttled_seconds_total": "throttled_seconds",
    "increase(container_cpu_usage_seconds_total": "usage_seconds",
    "(last_over_time(container_spec_cpu_quota": "quota",
    "last_over_time(container_spec_cpu_period": "period",
    "quantile_over_time(0.99": "use_p99",
}


def history(file: str) -> Answer:
    """Return a Prometheus that has the series of an input, from its window's begin to its end."""
    known: dict[str, Any] = json.loads((INPUTS / file).read_text())
    series, node = known["series"], known["node"]

    def figure(query: str) -> str:
        if query.startswith("min by") and "timestamp(container_cpu_cfs" in query:
            return "first_seen"
        if "timestamp(container_cpu_cfs" in query:
            return "last_seen"
        if "> max by" in query or "max_over_time(container_spec" in query or "min_over_time(container_spec" in query:
            return ""
        return next((name for part, name in QUERIES.items() if part in query), "")

    def answer(path: str) -> Reply:
        asked = parse_qs(urlsplit(path).query)
        query, at = asked["query"][0], float(asked["time"][0])
        seen = {"start": at - 3650, "end": at - 10}
        if query.startswith("count by (namespace)"):
            return vector([({"namespace": "orders"}, 4)])
        if "kube_node_info" in query:
            return vector([({name: str(value) for name, value in node.items()}, 1)])
        if "kube_node_status_capacity" in query:
            return vector([({"node": node["node"]}, node["cpus"])])
        if query.startswith("quantile(0.99, time()"):
            return vector([({}, 12)])
        name = figure(query)
        found = [(one["labels"], seen.get(one[name], one[name])) for one in series if name in one]
        return vector(found)

    return answer


def lists_pods(file: str) -> Answer:
    """Return an API server that lists the pods of an input."""
    body = (INPUTS / file).read_bytes()

    def answer(path: str) -> Reply:
        if path.startswith("/version"):
            return 200, b'{"gitVersion": "v1.34.0"}'
        return (200, body) if path.startswith("/api/v1/pods") else status(404, "NotFound", path)

    return answer


def kubeconfig(folder: Path, url: str) -> Path:
    file = folder / "kubeconfig"
    contexts = [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
    clusters = [{"name": "c", "cluster": {"server": url}}]
    users = [{"name": "u", "user": {"token": "t"}}]
    file.write_text(json.dumps({"current-context": "c", "contexts": contexts, "clusters": clusters, "users": users}))
    return file


@pytest.mark.parametrize(
    ("file", "pod"),
    [
        ("cadvisor-target-names.json", "pod 7e1f2a3b-4c5d/bebebebebebe"),
        ("cadvisor-containers-only.json", "pod 7e1f2a3b-4c5d/bebebebebebe"),
        ("cadvisor-own-labels.json", "orders/cart-5c9d8f7b6-q7w2e/web"),
    ],
)
def test_a_standalone_cadvisor_is_not_taken_for_the_pod_that_it_reads(
    run: Run, tmp_path: Path, file: str, pod: str
) -> None:
    patches = tmp_path / "patches"
    with faked(history(file)) as metrics, faked(lists_pods("cadvisor-pods.json")) as server:
        config = kubeconfig(tmp_path, server.url)
        asked = ("audit", "--prometheus", metrics.url, "--window", "1h", "--kubeconfig", config)
        found = run(*asked, "--patches", patches)
        answer = json.loads(run(*asked, "-o", "json").stdout)
    assert found.code == 0, found.stderr
    (row,) = [line for line in found.stdout.splitlines() if "high: " in line and " container " in line]
    assert pod in row
    assert "cadvisor-4hq2z" not in found.stdout
    assert {one["pod"] for one in answer["findings"]} <= {"", None, "cart-5c9d8f7b6-q7w2e"}
    assert [file for file in patches.rglob("*") if file.is_file()] == []


def test_two_scrape_jobs_of_one_kubelet_double_no_number(run: Run) -> None:
    answers = []
    for file in ("one-scrape-job.json", "two-scrape-jobs.json"):
        with faked(history(file)) as metrics:
            found = run("audit", "--prometheus", metrics.url, "--window", "1h", "--no-names", "-o", "json", "--all")
        assert found.code == 0, found.stderr
        answers.append(json.loads(found.stdout)["findings"])
    assert answers[0]
    assert answers[0] == answers[1]


Moments = Callable[..., Path]


@pytest.fixture
def moments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Moments:
    """Return the root of a node whose second moment comes while the command waits."""

    def unpacked(name: str, *empty: str) -> Path:
        root = unpack(INPUTS / f"{name}.before.tree", tmp_path / "root")
        idle = "usage_usec 0\nuser_usec 0\nsystem_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"

        class Walker(CgroupWalker):
            def __init__(self, at: Path) -> None:
                super().__init__(at, clock=lambda: uptime(at))

        def wait(*_: object) -> bool:
            unpack(INPUTS / f"{name}.after.tree", root)
            fill()
            return True

        def fill() -> None:
            for container in empty:
                (pod,) = root.rglob("*-pod*.slice")
                scope = pod / f"cri-containerd-{container}.scope"
                scope.mkdir(exist_ok=True)
                (scope / "cpu.max").write_text("max 100000\n")
                (scope / "cpu.stat").write_text(idle)

        fill()
        monkeypatch.setattr("slack.audit.sources.walker.CgroupWalker", Walker)
        monkeypatch.setattr(audit_taking, "_waited", wait)
        return root

    return unpacked


def test_a_jvm_that_sees_its_limit_gets_no_flag_and_keeps_those_that_it_has(run: Run, moments: Moments) -> None:
    target = ("-n", "orders", "pod/cart-5c9d8f7b6-q7w2e/web")
    found = run(
        "audit", "explain", *target, "--root", moments("jvm"), "--kubelet-pods", INPUTS / "jvm.pods.json", "-o", "json"
    )
    assert found.code == 0, found.stderr
    document = json.loads(found.stdout)
    patches = [patch for advice in document["finding"]["advice"] for patch in advice["patches"]]
    assert {patch["kind"] for patch in patches} >= {"raise-limit"}
    assert "environment" not in {patch["kind"] for patch in patches}
    assert "JAVA_TOOL_OPTIONS" not in json.dumps(patches)
    assert "the JVM computes its number of processors from the container's limit by itself" in found.stdout


@pytest.mark.parametrize("empty", [(), ("be" * 32,)], ids=["no cgroups of containers", "empty ones"])
def test_of_a_runtime_that_isolates_pods_the_pod_is_judged_and_no_sandbox(
    run: Run, moments: Moments, empty: tuple[str, ...]
) -> None:
    source = ("--root", moments("gvisor", *empty), "--kubelet-pods", INPUTS / "jvm.pods.json")
    found = run("audit", *source, "-o", "json")
    assert found.code == 0, found.stderr
    (finding,) = json.loads(found.stdout)["findings"]
    assert (finding["level"], finding["pod"], finding["severity"]) == ("pod", "cart-5c9d8f7b6-q7w2e", "high")
    (advice,) = finding["advice"]
    assert advice["id"] == "pod-limit"
    (patch,) = advice["patches"]
    assert (patch["kind"], "container web" in patch["about"]) == ("raise-limit", True)


def test_a_container_of_such_a_runtime_is_explained_by_its_pod(run: Run, moments: Moments) -> None:
    target = ("audit", "explain", "-n", "orders", "pod/cart-5c9d8f7b6-q7w2e/web")
    found = run(*target, "--root", moments("gvisor"), "--kubelet-pods", INPUTS / "jvm.pods.json")
    assert found.code == 2
    assert "(gVisor, Kata) runs all of them in the pod's: ask for pod/cart-5c9d8f7b6-q7w2e" in found.stderr
    found = run(*target, "--root", moments("gvisor", "be" * 32), "--kubelet-pods", INPUTS / "jvm.pods.json")
    assert found.code == 0, found.stderr
    assert "Nothing needs to be done" not in found.stdout
    assert "the pod orders/cart-5c9d8f7b6-q7w2e is stopped by that quota: explain that one" in found.stdout


def test_a_gate_passes_the_quota_and_the_least_requests_of_a_namespace_as_its_pod_does() -> None:
    quota, least, pod = yaml.safe_load_all((INPUTS / "quota-and-floor.yaml").read_text())
    options = GateOptions(image="registry.example/throttler:1", agent_port=7472, agent_name="agent", authority="PEM")
    (gate,) = (step["value"][0] for step in patch(pod, options) if step["path"] == "/spec/initContainers")
    (floor,) = least["spec"]["limits"]
    for container in (*pod["spec"]["containers"], gate):
        resources = container["resources"]
        named = {f"{side}.{name}" for side in ("requests", "limits") for name in resources[side]}
        assert named >= set(quota["spec"]["hard"]), container["name"]
        for name, amount in floor["min"].items():
            assert thousandths(resources["requests"][name]) >= thousandths(amount), container["name"]


@pytest.mark.parametrize("measured", ["all", "one"])
def test_a_node_without_figures_of_its_cpu_is_never_the_best(run: Run, tmp_path: Path, measured: str) -> None:
    load = json.loads((INPUTS / "watched-load.json").read_text())
    if measured == "one":
        data = load["data"]["NodeMetricsMap"]
        load["data"]["NodeMetricsMap"] = {name: data[name] for name in ("w1", "w4", "w5")}
    (tmp_path / "load.json").write_text(json.dumps(load))
    found = run(
        "scorer", "score", "--snapshot", INPUTS / "watched-nodes.json", "--load", tmp_path / "load.json",
        "--pod", INPUTS / "tiny-pod.yaml", "--algorithms", "LoadVariationRiskBalancing", "-o", "json",
    )  # fmt: skip
    assert found.code == 0, found.stderr
    scores = {node["node"]: (node["score"], node["state"]) for node in json.loads(found.stdout)["items"]}
    best = max(score for score, _ in scores.values())
    unknown = {name: score for name, (score, state) in scores.items() if state != "Measured"}
    assert set(unknown) >= {"w1", "w3", "w4"}
    if measured == "one":
        assert {score for score, _ in scores.values()} == {0}, "too few are measured: none is preferred"
    else:
        assert max(unknown.values()) < best
