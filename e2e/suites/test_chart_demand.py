"""Container pools in the chart: rendered, judged by the real API server, installed, and gone without a trace."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness.api import Json
from e2e.harness.autoscalers.karpenter import install_crds
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import make_namespace, wait_until
from e2e.harness.product.helm import CHART, NAMESPACE, RELEASE, Helm
from e2e.harness.product.operator import CRDS
from e2e.suites.test_chart import dry_run
from slack.process.settings import load
from slack.process.values import host_port
from slack_operator.demand.controller_settings import DemandControllerSettings

ROOT = Path(__file__).resolve().parents[2]
URL = "demand.broker.url=nats://nats.media:4222"
NAME = "resource-slack-demand"
EXAMPLES = ("activationquota", "activationpool")
ON = [f"--set=demand.enabled=true,{URL}"]
ALONE = [f"--values={CHART / 'examples' / 'demand.yaml'}"]
IN_TWO = [*ON, "--set=demand.namespaces={media,shop}"]
EVERYTHING = [
    *IN_TWO,
    "--set=demand.broker.existingSecret=broker,demand.proxy.image=mirror.example.com/proxy:1",
    "--set=demand.networkPolicy.enabled=true,demand.networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.a=b",
    "--set=demand.controller.podLabels.team=a,demand.controller.podAnnotations.team=a,demand.controller.tick=1s",
    "--set=demand.throttle.port=8090,demand.quotas.media.default.maxContainers=10",
    '--set-json=demand.controller.guards="G1,G2"',
]
ACTION = '{"name": "a", "image": "b", "resources": {"requests": {"memory": "32Mi"}}}'
POOL = 'demand.pools={"media": {"a": {"template": {"spec": {"containers": [' + ACTION + "]}}}}}"


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"))


def of_demand(manifests: list[Json], kind: str) -> list[Json]:
    return [
        item
        for item in manifests
        if item["kind"] == kind and item["metadata"]["labels"]["app.kubernetes.io/component"].startswith("demand-")
    ]


def deployment(manifests: list[Json]) -> Json:
    (found,) = of_demand(manifests, "Deployment")
    return found


def given(manifest: Json) -> dict[str, object]:
    """The settings that a pod's arguments give."""
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    assert container["args"][:2] == ["demand", "controller"]
    flags = (flag.removeprefix("--").partition("=") for flag in container["args"][2:])
    return {name.replace("-", "_"): value if equals else True for name, equals, value in flags}


@pytest.mark.parametrize("flags", [ON, ALONE, EVERYTHING], ids=["on", "alone", "everything"])
def test_lint_has_nothing_to_say(helm: Helm, flags: list[str]) -> None:
    found = helm.run("lint", "--strict", CHART, *flags)
    assert found.returncode == 0, found.stdout + found.stderr


def test_nothing_of_it_is_there_unless_it_is_asked_for(helm: Helm) -> None:
    kinds = {item["kind"] for item in helm.template()}
    assert {"ActivationPool", "ActivationQuota", "Lease"}.isdisjoint(kinds)
    assert not of_demand(helm.template(), "Deployment")


def test_a_release_of_its_own_has_nothing_of_the_operators(helm: Helm) -> None:
    manifests = helm.template(*ALONE)
    assert {item["metadata"]["labels"]["app.kubernetes.io/component"] for item in manifests} == {
        "demand-controller",
        "demand-pool",
        "crds",
        "roles",
    }
    assert {(item["kind"], item["metadata"]["name"]) for item in of_demand(manifests, "ActivationPool")} == {
        ("ActivationPool", "thumbnail"),
        ("ActivationPool", "transcode"),
    }
    own = [
        item for item in manifests if item["metadata"]["labels"]["app.kubernetes.io/component"].startswith("demand-")
    ]
    assert {item["metadata"].get("namespace", "-") for item in own} == {NAMESPACE, "media"}, "no cluster role"


def test_every_argument_is_a_setting_and_means_what_the_value_says(helm: Helm) -> None:
    manifests = helm.template(*EVERYTHING)
    found = deployment(manifests)
    settings = load(DemandControllerSettings, given(found), {})
    assert settings.broker_url == "nats://nats.media:4222"
    assert settings.namespaces == ("media", "shop")
    assert (settings.tick, settings.guards) == (1.0, "G1,G2")
    assert settings.proxy_image == "mirror.example.com/proxy:1"
    assert settings.lease_name == of_demand(manifests, "Lease")[0]["metadata"]["name"]
    assert settings.throttle_listen is not None
    (container,) = found["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert host_port(settings.throttle_listen)[1] == ports["throttle"]
    (service,) = of_demand(manifests, "Service")
    assert {"name": "throttle", "port": 8090, "targetPort": "throttle", "protocol": "TCP"} in service["spec"]["ports"]
    assert found["spec"]["replicas"] == 2
    by_default = deployment(helm.template(*ON))
    assert (
        load(DemandControllerSettings, given(by_default), {}).proxy_image
        == (by_default["spec"]["template"]["spec"]["containers"][0]["image"])
    ), "the release's own image"


def test_credentials_are_a_file_and_no_argument_or_variable(helm: Helm) -> None:
    spec = deployment(helm.template(*EVERYTHING))["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "broker"]
    (volume,) = [volume for volume in spec["volumes"] if volume["name"] == "broker"]
    assert mount["readOnly"] is True
    assert f"--broker-credentials-file={mount['mountPath']}/credentials" in container["args"]
    assert volume["secret"]["secretName"] == "broker"
    assert not [variable for variable in container["env"] if "secretKeyRef" in str(variable)]
    assert "broker" not in str(deployment(helm.template(*ON))["spec"]["template"]["spec"]["volumes"])


def test_the_throttle_endpoint_can_be_left_out(helm: Helm) -> None:
    manifests = helm.template(*ON, "--set=demand.throttle.enabled=false,demand.networkPolicy.enabled=true")
    assert load(DemandControllerSettings, given(deployment(manifests)), {}).throttle_listen is None
    (service,) = of_demand(manifests, "Service")
    assert [port["name"] for port in service["spec"]["ports"]] == ["metrics"]
    (policy,) = of_demand(manifests, "NetworkPolicy")
    assert [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]] == ["metrics"]


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("nats://nats.media", 4222),
        ("tls+nats://nats.media:4223", 4223),
        ("tls://nats.media?ca=/etc/ca/ca.crt&prefix=act.media.", 4222),
        ("nats://nats.media:4225/?replicas=3", 4225),
        ("redis://redis.media?db=3", 6379),
        ("rediss://redis.media:6380", 6380),
        ("kafka://kafka.media", 9092),
        ("nats://[fd00::1]:4222", 4222),
    ],
)
def test_the_network_policy_lets_it_out_to_the_broker_at_its_port(helm: Helm, url: str, port: int) -> None:
    manifests = helm.template(*ON, f"--set=demand.broker.url={url},demand.networkPolicy.enabled=true")
    (policy,) = of_demand(manifests, "NetworkPolicy")
    assert policy["spec"]["egress"][0] == {"ports": [{"port": port, "protocol": "TCP"}]}
    assert load(DemandControllerSettings, given(deployment(manifests)), {}).broker_url == url


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--set=demand.enabled=true"], "demand.broker.url: is needed"),
        (["--set=demand.enabled=true,demand.broker.url=nats://user:word@nats:4222"], "url"),
        (["--set=demand.enabled=true,demand.broker.url=http://nats:4222"], "url"),
        (["--set=demand.enabled=true,demand.broker.url=nats://nats:4222?replica=3"], "url"),
        ([*ON, "--set=demand.controller.replicas=0"], "replicas"),
        ([*ON, "--set=demand.controller.tick=50ms"], "tick"),
        ([*ON, "--set=demand.controller.guards=G6"], "guards"),
        ([*ON, "--set=demand.namespaces={Media}"], "namespaces"),
        ([*ON, "--set=demand.broker.secret=x"], "secret"),
        ([*ON, f"--set-json={POOL}", "--set=demand.namespaces={shop}"], "demand.pools.media: is not among"),
        ([*ON, "--set=demand.quotas.media.x.maxContainer=1"], "maxContainer"),
        ([*ON, "--set=demand.pools.media.x.proxy.mode=beside"], "mode"),
        ([*ON, f"--set-json={POOL}", "--set=demand.pools.media.a.limits.maxcontainers=1"], "under maxContainers"),
    ],
)
def test_what_cannot_work_is_refused_by_the_value_s_name(helm: Helm, flags: list[str], said: str) -> None:
    found = helm.run("template", "resource-slack", CHART, f"--namespace={NAMESPACE}", *flags)
    assert found.returncode != 0
    assert said in found.stderr


def rights(manifests: list[Json]) -> set[tuple[str, str, str, str]]:
    return {
        (role["kind"], role["metadata"].get("namespace", ""), resource, verb)
        for kind in ("Role", "ClusterRole")
        for role in of_demand(manifests, kind)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize(
    ("flags", "places"),
    [(ON, [("ClusterRole", "")]), (IN_TWO, [("Role", "media"), ("Role", "shop")])],
    ids=["everywhere", "in two namespaces"],
)
def test_it_may_do_just_this_and_only_there(helm: Helm, flags: list[str], places: list[tuple[str, str]]) -> None:
    verbs = {
        "pods": ("create", "delete", "list", "watch"),
        **dict.fromkeys(("activationpools", "activationquotas"), ("list", "watch")),
        **dict.fromkeys(("activationpools/status", "activationquotas/status"), ("patch",)),
        "events": ("create", "patch"),
    }
    expected = {(*place, what, verb) for place in places for what, some in verbs.items() for verb in some}
    expected |= {("Role", NAMESPACE, "leases", verb) for verb in ("get", "update")}
    assert rights(helm.template(*flags)) == expected
    (lease,) = [
        rule for role in of_demand(helm.template(*flags), "Role") for rule in role["rules"] if "leases" in str(rule)
    ]
    assert lease["resourceNames"] == [NAME]


@pytest.fixture
def media(cluster: Backend) -> Backend:
    install_crds(cluster.api, CRDS)
    for name in (NAMESPACE, "media", "shop"):
        make_namespace(cluster.api, name)
    return cluster


@pytest.mark.parametrize("flags", [ALONE, EVERYTHING], ids=["alone", "everything"])
def test_the_api_server_takes_everything(media: Backend, helm: Helm, flags: list[str]) -> None:
    judged = set()
    for manifest in helm.template(*flags):
        dry_run(media.api, manifest)
        judged.add(manifest["kind"])
    assert judged >= {
        "Deployment",
        "Service",
        "Role",
        "PodDisruptionBudget",
        "NetworkPolicy",
        "Lease",
        "ActivationQuota",
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_api_server_takes_the_example_with_every_field_as_it_stands(media: Backend, name: str) -> None:
    document = yaml.safe_load((ROOT / "examples" / f"{name}.yaml").read_text(encoding="utf-8"))
    kept = dry_run(media.api, document)
    for part, value in document["spec"].items():
        assert within(value, kept["spec"][part]), part


def within(written: Any, kept: Any) -> bool:
    """Whether all that was written was kept; quantities and durations may come back as other text."""
    if isinstance(written, dict):
        return all(key in kept and within(value, kept[key]) for key, value in written.items())
    return bool(written == kept)


def test_its_pod_is_admitted_where_pod_security_is_restricted(media: Backend, helm: Helm) -> None:
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    media.api.patch("/api/v1/namespaces/shop", label)
    spec = deployment(helm.template(*EVERYTHING))["spec"]["template"]["spec"]
    media.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": "shop"}})
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME, "namespace": "shop"}, "spec": spec}
    media.api.request("POST", "/api/v1/namespaces/shop/pods?dryRun=All", pod)


@pytest.mark.parametrize("kind", ["demand", "audit"])
@pytest.mark.parametrize("release", [RELEASE, "second"])
def test_the_releases_of_a_namespace_share_one_lease_and_have_no_right_to_another(
    helm: Helm, kind: str, release: str
) -> None:
    given_secret = "--set=audit.tls.secretName=certificate"
    manifests = [
        item
        for item in helm.template(f"--values={CHART / 'examples' / kind}.yaml", given_secret, release=release)
        if item["metadata"]["labels"]["app.kubernetes.io/component"] == f"{kind}-controller"
    ]
    (deployed,) = [item for item in manifests if item["kind"] == "Deployment"]
    (container,) = deployed["spec"]["template"]["spec"]["containers"]
    assert f"--lease-name=resource-slack-{kind}" in container["args"]
    rules = [rule for item in manifests if item["kind"] == "Role" for rule in item["rules"]]
    (named,) = [rule for rule in rules if rule["resources"] == ["leases"] and rule["verbs"] != ["create"]]
    assert named["resourceNames"] == [f"resource-slack-{kind}"]


def test_a_second_demand_controller_of_a_namespace_is_refused_by_name(media: Backend, tmp_path: Path) -> None:
    helm = Helm(tmp_path, media.kubeconfig)
    where = [f"--namespace={NAMESPACE}", "--set=operator.enabled=false,uninstall.enabled=false,demand.enabled=true"]
    installed = helm.run("install", "first", CHART, *where, "--set", URL)
    assert installed.returncode == 0, installed.stderr
    try:
        second = helm.run("install", "second", CHART, *where, "--set", URL)
        assert second.returncode != 0
        assert f"release first has a demand controller in namespace {NAMESPACE} already" in second.stderr
        again = helm.run("upgrade", "first", CHART, *where, "--set", URL)
        assert again.returncode == 0, again.stderr
    finally:
        gone = helm.run("uninstall", "first", f"--namespace={NAMESPACE}")
    assert gone.returncode == 0, gone.stderr
    wait_until(lambda: not left(media), 30, f"all to be gone: {left(media)}")


def test_it_is_switched_on_by_an_upgrade_and_goes_without_a_trace(media: Backend, tmp_path: Path) -> None:
    helm = Helm(tmp_path, media.kubeconfig)
    where = [f"--namespace={NAMESPACE}", "--set=operator.enabled=false,uninstall.enabled=false"]
    installed = helm.run("install", RELEASE, CHART, *where)
    assert installed.returncode == 0, installed.stderr
    more = ["--set=demand.quotas.media.default.maxContainers=5", f"--set-json={POOL}"]
    upgraded = helm.run("upgrade", RELEASE, CHART, *where, "--set", "demand.enabled=true", "--set", URL, *more)
    assert upgraded.returncode == 0, upgraded.stderr
    pool = "/apis/resource-slack.io/v1alpha1/namespaces/media/activationpools/a"
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}"
    assert media.api.get(pool)["spec"]["template"]["spec"]["containers"][0]["image"] == "b"
    held = {"holderIdentity": "pod-1", "leaseDurationSeconds": 15}
    media.api.patch(lease, {"spec": held})
    again = helm.run("upgrade", RELEASE, CHART, "--reuse-values", "--set=demand.logLevel=debug", where[0])
    assert again.returncode == 0, again.stderr
    assert held.items() <= media.api.get(lease)["spec"].items(), "an upgrade leaves the leader alone"
    gone = helm.run("uninstall", RELEASE, f"--namespace={NAMESPACE}")
    assert gone.returncode == 0, gone.stderr
    wait_until(lambda: not left(media), 30, f"all to be gone: {left(media)}")


def left(cluster: Backend) -> list[str]:
    here = f"namespaces/{NAMESPACE}"
    paths = [
        *(f"/apis/rbac.authorization.k8s.io/v1/{kind}" for kind in ("clusterroles", "clusterrolebindings")),
        *(f"/apis/rbac.authorization.k8s.io/v1/{here}/{kind}" for kind in ("roles", "rolebindings")),
        *(f"/api/v1/{here}/{kind}" for kind in ("services", "serviceaccounts", "secrets")),
        *(f"/apis/apps/v1/{here}/{kind}" for kind in ("deployments", "replicasets")),
        f"/apis/policy/v1/{here}/poddisruptionbudgets",
        f"/apis/coordination.k8s.io/v1/{here}/leases",
        *(f"/apis/resource-slack.io/v1alpha1/{kind}" for kind in ("activationpools", "activationquotas")),
    ]
    return [
        f"{path.rpartition('/')[2]}/{item['metadata']['name']}"
        for path in paths
        for item in cluster.api.items(path)
        if NAME in item["metadata"]["name"] or "activation" in path
    ]
