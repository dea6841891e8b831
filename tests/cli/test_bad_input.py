"""Bad input gets one clear message that names the file and the field, the right exit code, and never a traceback."""

import json
from pathlib import Path

import pytest

from slack.cli.inputs import files
from tests.cli.build import Json, listed, pod, slack_policy, small_cluster
from tests.cli.conftest import Policy, Run


@pytest.mark.parametrize(
    ("spec", "field", "right"),
    [
        ({"extraCapacity": {"minRate": -1}}, "spec.extraCapacity.minRate", "greater than or equal to 0"),
        ({"extraCapacity": {"minRate": "10%"}}, "spec.extraCapacity.minRate", "write a number, 0.1"),
        ({"extraCapacty": {}}, "spec.extraCapacty", "unknown field"),
        ({"cover": {"mode": "Some"}}, "spec.cover.mode", "'Frequent'"),
        ({"extraCapacity": {"floor": {"cpu": "many"}}}, "spec.extraCapacity.floor", "500m"),
        ({"tolerations": [{"operator": "Exists"}]}, "spec.tolerations[0]", "name the key"),
    ],
)
def test_a_bad_field_is_named_with_the_file_and_what_would_be_right(
    run: Run, policy: Policy, cluster: Path, spec: Json, field: str, right: str
) -> None:
    found = run("plan", "-f", policy(spec), "--snapshot", cluster)
    assert found.code == 2
    assert found.stdout == ""
    assert "policy.yaml" in found.stderr
    assert field in found.stderr
    assert right in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_all_problems_of_a_policy_are_told_at_once(run: Run, policy: Policy, cluster: Path) -> None:
    found = run("plan", "-f", policy({"granularity": 0, "perDomain": "Rack"}), "--snapshot", cluster)
    assert found.code == 2
    assert "spec.granularity" in found.stderr
    assert "spec.perDomain" in found.stderr


def test_a_selector_that_matches_no_node_is_infeasible_and_names_the_selector(
    run: Run, policy: Policy, cluster: Path
) -> None:
    found = run("plan", "-f", policy({"nodeSelector": {"pool": "none"}}), "--snapshot", cluster)
    assert found.code == 3
    assert "spec.nodeSelector: pool=none selects none of the 3 nodes" in found.stdout
    assert found.stderr == ""


def test_two_policies_that_claim_a_node_are_told_apart_by_name_and_only_one_acts(
    run: Run, policy: Policy, cluster: Path
) -> None:
    first = policy({"nodeSelector": {"pool": "web"}}, "first", "first.yaml")
    second = policy({"nodeSelector": {"pool": "web"}}, "second", "second.yaml")
    found = run("plan", "-f", first, "-f", second, "--snapshot", cluster, "-o", "json")
    assert found.code == 3
    items = {item["policy"]: item for item in json.loads(found.stdout)["items"]}
    assert items["first"]["shapes"]
    assert not items["second"]["shapes"]
    ready = next(condition for condition in items["second"]["conditions"] if condition["type"] == "Ready")
    assert ready["status"] == "False"
    assert "spec.nodeSelector" in ready["message"]
    assert "'first'" in ready["message"]


def test_a_shape_that_fits_nowhere_is_infeasible_and_names_the_resource(
    run: Run, policy: Policy, tmp_path: Path
) -> None:
    giant = pod("giant-1a-0", None, cpu="64", app="giant")
    giant["metadata"]["annotations"] = {"resource-slack.io/reserve": "1"}
    path = tmp_path / "giant.json"
    path.write_text(listed(*small_cluster(), giant))
    found = run("plan", "-f", policy({}), "--snapshot", path)
    assert found.code == 3
    assert "cpu 64 is more than any empty eligible node has (4)" in found.stdout


def test_a_snapshot_cut_in_half_is_refused_with_the_place(run: Run, cluster: Path) -> None:
    whole = cluster.read_text()
    cluster.write_text(whole[: len(whole) // 2])
    found = run("plan", "--snapshot", cluster)
    assert found.code == 2
    assert found.stdout == ""
    assert str(cluster) in found.stderr
    assert "cut off" in found.stderr
    assert "kubectl get nodes,pods -A -o json" in found.stderr


def test_a_snapshot_without_nodes_says_how_to_write_one(run: Run) -> None:
    found = run("plan", "--snapshot", "-", stdin=listed(pod("api-1a-0", "web-0")))
    assert found.code == 2
    assert "stdin: it has no nodes" in found.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--extra-capacity-min-rate", "10%"], "--extra-capacity-min-rate: '10%' is a percentage; write 0.1"),
        (["--extra-capacity-min-rate", "-1"], "--extra-capacity-min-rate: should be a number from 0 to 10, not '-1'"),
        (["--context", "prod"], "--snapshot: give either a snapshot file or a cluster"),
        (["--at", "tomorrow"], "--at: 'tomorrow' is not a time"),
        (
            ["--at", "9999-12-31T23:59:59Z"],
            "--at: '9999-12-31T23:59:59Z' is too far away; write a year from 1970 to 9998",
        ),
        (["--at", "0001-01-01T00:00:00+14:00"], "write a year from 1970 to 9998"),
        (["-f", "missing.yaml"], "missing.yaml: cannot be read: no such file"),
        (["-f", "."], ".: cannot be read: is a directory"),
        (["-o", "xml"], "'xml'"),
        (["--no-such-flag"], "--no-such-flag"),
    ],
)
def test_a_bad_flag_is_named(run: Run, cluster: Path, args: list[str], said: str) -> None:
    found = run("plan", "--snapshot", cluster, *args)
    assert found.code == 2
    assert said in found.stderr


def test_a_policy_file_that_is_no_yaml_or_holds_no_policy_is_refused(run: Run, cluster: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    for text, said in (
        ("a: [", "bad.yaml, line 1: not YAML"),
        ("", "there is no SlackPolicy in it"),
        ("kind: Pod\napiVersion: v1\n", "expected apiVersion resource-slack.io/v1alpha1"),
        ("just text", "expected a SlackPolicy object"),
        ("apiVersion: resource-slack.io/v1alpha1\nkind: SlackPolicy\nmetadata: {}\n", "metadata.name: is missing"),
    ):
        path.write_text(text)
        found = run("plan", "-f", path, "--snapshot", cluster)
        assert found.code == 2
        assert said in found.stderr


def test_a_file_that_is_nested_without_end_is_refused(run: Run, cluster: Path, tmp_path: Path) -> None:
    path = tmp_path / "deep.yaml"
    path.write_text("[" * 100_000)
    for args in (["plan", "--snapshot", cluster, "-f", path], ["plan", "--snapshot", path], ["simulate", path]):
        found = run(*args)
        assert found.code == 2
        assert "deep.yaml" in found.stderr
        assert "nested too deeply" in found.stderr
        assert len(found.stderr.splitlines()) == 1
    found = run("operator", "--config", path)
    assert found.code == 2
    assert "nested too deeply" in found.stderr


@pytest.mark.parametrize("at", ["1970-01-01T00:00:00+14:00", "9998-12-31T23:59:59-14:00"])
def test_schedules_are_planned_at_the_ends_of_time(run: Run, policy: Policy, cluster: Path, at: str) -> None:
    windows = [{"cron": "0 8 * * *", "duration": "1h", "minRate": 0.5, "timeZone": "Pacific/Kiritimati"}]
    found = run("plan", "-f", policy({"extraCapacity": {"schedule": windows}}), "--snapshot", cluster, "--at", at)
    assert (found.code, found.stderr) == (0, "")


def test_policies_of_one_name_are_refused(run: Run, cluster: Path) -> None:
    both = "\n---\n".join(json.dumps(slack_policy({}, "web")) for _ in range(2))
    found = run("plan", "-f", "-", "--snapshot", cluster, stdin=both)
    assert found.code == 2
    assert "two policies are named 'web'" in found.stderr


def test_stdin_can_serve_one_flag_only(run: Run) -> None:
    found = run("plan", "-f", "-", "--snapshot", "-", stdin="{}")
    assert found.code == 2
    assert "stdin can be read once only" in found.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["plan"], "no cluster given: pass --kubeconfig FILE"),
        (["plan", "--kubeconfig", "none"], "kubeconfig none: no such file"),
        (["explain", "-n", "shop", "deploy/api"], "no cluster given"),
        (["uninstall", "--yes"], "no cluster given"),
        (["operator", "--log-level", "loud"], "--log-level"),
        (["operator", "--extra-capacity-min-rate=10%"], "write 0.1"),
        (["operator", "--config", "none.yaml"], "settings file none.yaml: cannot be read"),
    ],
)
def test_without_a_cluster_or_with_bad_settings_a_command_says_what_to_give(
    run: Run, args: list[str], said: str
) -> None:
    found = run(*args)
    assert found.code == 2
    assert said in found.stderr


def _laughs() -> str:
    lines = ["apiVersion: v1", "kind: List", "a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 10)]
    return "\n".join([*lines, "items: *a9"])


BOMBS = {
    "aliases.yaml": (_laughs(), "aliases stand for more than 100,000 values"),
    "digits.yaml": ("spec:\n  weight: " + "9" * 5000, "line 2: spec.weight: a number of 5,000 characters"),
    "deep.yaml": ("spec: " + "[" * 200_000, "nested too deeply"),
}
READERS = (
    ("plan", "--snapshot"),
    ("explain", "-n", "shop", "deploy/api", "--snapshot"),
    ("plan", "-f"),
    ("migrate", "-f"),
    ("simulate",),
    ("tune", "--scenario"),
    ("operator", "--config"),
    ("audit", "agent", "--config"),
    ("audit", "controller", "--config"),
    ("status", "--kubeconfig"),
)


@pytest.mark.parametrize("words", READERS, ids=" ".join)
@pytest.mark.parametrize("file", BOMBS)
def test_a_text_without_end_is_refused_by_every_command_that_reads_yaml(
    run: Run, tmp_path: Path, words: tuple[str, ...], file: str
) -> None:
    text, said = BOMBS[file]
    (tmp_path / file).write_text(text)
    found = run(*words, tmp_path / file)
    assert found.code == 2, found.stderr
    assert file in found.stderr
    assert said in found.stderr
    assert len(found.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_a_device_without_an_end_is_not_read_to_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    for bound in ("MOST_BYTES", "MOST_YAML_BYTES", "MOST_SCENARIO_BYTES"):
        monkeypatch.setattr(files, bound, 4 << 20)
    found = run(*words, "/dev/zero")
    assert found.code == 2
    assert "/dev/zero" in found.stderr
    assert "longer than" in found.stderr


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("Pod", "spec.priority", 1 << 31),
        ("Pod", "spec.priority", -(1 << 31) - 1),
        ("Deployment", "spec.replicas", 1 << 31),
        ("PriorityClass", "value", 1 << 40),
        ("Pod", "spec.priority", "5,000 digits"),
        ("SlackPolicy", "spec.granularity", "5,000 digits"),
    ],
)
def test_a_number_that_no_field_holds_is_named_with_its_field(
    run: Run, kind: str, field: str, value: int | str
) -> None:
    digits = "9" * 5000 if isinstance(value, str) else str(value)
    outer, _, inner = field.rpartition(".")
    body = f'"{outer}": {{"{inner}": {digits}}}' if outer else f'"{inner}": {digits}'
    head = f'{{"apiVersion": "v1", "kind": "{kind}", "metadata": {{"name": "a"}}, {body}}}'
    snapshot = listed(*small_cluster())[:-2] + f", {head}]}}"
    found = run("plan", "--snapshot", "-", stdin=snapshot)
    assert found.code == 2
    assert "stdin: $.items[9]" in found.stderr
    assert field in found.stderr
    assert len(found.stderr) < 300


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["tune", "--scenario", "s.yaml", "--window", "6h"], "--window: belongs to --from-cluster"),
        (["tune", "--scenario", "s.yaml", "--context", "prod"], "--context: belongs to --from-cluster"),
        (["tune", "--scenario", "s.yaml", "--placeholder-namespace", "x"], "--placeholder-namespace: belongs to"),
        (["tune", "--from-trace", "t.parquet", "--window", "24h"], "--window: belongs to --from-cluster"),
        (["tune", "--buffer", "shop/web", "--seeds", "3"], "--seeds: belongs to a search for a rate; --buffer seeks"),
        (["tune", "--buffer", "shop/web", "--policy", "x"], "--policy: belongs to --objective for a policy"),
        (["tune", "--buffer", "web"], "--buffer: 'web' is not NAMESPACE/NAME, such as shop/web"),
        (["tune", "--buffer", "shop/web", "--objective", "99"], "--objective: 99 is not a share of pods"),
        (["tune", "--from-trace", "t.parquet", "--kubeconfig", "k"], "--kubeconfig: belongs to --from-cluster"),
        (
            ["tune", "--from-trace", "t.parquet", "--scenario-only", "s.json", "--picture", "c.svg"],
            "--picture: --scenario-only writes a scenario and tunes nothing",
        ),
        (["tune", "--from-cluster", "--scenario-only", "s.json", "-o", "json"], "--output: --scenario-only writes"),
        (["migrate", "-f", "m.yaml", "-n", "shop"], "--namespace: belongs to a cluster"),
        (["migrate", "-f", "m.yaml", "-l", "app=spare"], "--selector: belongs to a cluster"),
        (["plan", "-f", "p.yaml", "-l", "team=web"], "--selector: it chooses policies of a cluster"),
        (["audit", "--no-names", "--kubelet-pods", "pods.json"], "--kubelet-pods: gives the names that --no-names"),
        (["audit", "--no-names", "--context", "prod"], "no cluster is asked with --no-names"),
        (["audit", "--kubelet-pods", "pods.json", "--kubeconfig", "k"], "no cluster is asked with --kubelet-pods"),
    ],
)
def test_a_flag_that_would_have_no_effect_is_refused(run: Run, args: list[str], said: str) -> None:
    found = run(*args)
    assert found.code == 2
    assert said in found.stderr


@pytest.mark.parametrize(
    ("args", "flag"),
    [
        (["audit", "--prometheus", "http://[::1"], "--prometheus"),
        (["audit", "--kubelet-pods", "http://[::1"], "--kubelet-pods"),
        (["audit", "--prometheus", "http://me:hunter2@[::1"], "--prometheus"),
        (["audit", "--interval", "9" * 5000 + "s"], "--interval"),
        (["record", "--out", "t", "--prometheus", "localhost:9090"], "--prometheus"),
        (["record", "--out", "t", "--duration", "9" * 5000 + "h"], "--duration"),
        (["tune", "--from-cluster", "--window", "9" * 5000], "--window"),
        (["tune", "--scenario", "s", "--seeds", "9" * 5000], "--seeds"),
        (["tune", "--from-trace", "s", "--price", "a=" + "9" * 5000], "--price"),
        (["migrate", "-f", "m", "--node-cpu", "9" * 5000], "--node-cpu"),
        (["uninstall", "--wait-seconds", "9" * 5000], "--wait-seconds"),
        (["uninstall", "--wait-seconds", "9" * 20], "--wait-seconds"),
        (["simulate", "s", "--seed", "9" * 5000], "--seed"),
        (["simulate", "s", "--curve", "9" * 5000], "--curve"),
        (["plan", "--snapshot", "s", "--extra-capacity-min-rate", "9" * 5000], "--extra-capacity-min-rate"),
        (["plan", "--snapshot", "s", "--at", "9" * 5000], "--at"),
        (["operator", "--interval", "9" * 5000], "--interval"),
        (["audit", "agent", "--controller", "https://[::1"], "--controller"),
    ],
)
def test_an_address_or_a_number_that_is_none_names_its_flag(run: Run, args: list[str], flag: str) -> None:
    found = run(*args)
    assert found.code == 2
    assert flag in found.stderr
    assert "hunter2" not in found.stderr
    assert "Exceeds the limit" not in found.stderr
