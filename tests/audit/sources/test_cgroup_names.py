import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.audit.findings.sample import CgroupLevel
from slack.audit.sources.cgroup_names import CgroupName, name_of, target_of
from tests.cases import run_for_each

UID = "4c1f0b0e-1111-2222-3333-0123456789ab"
SLICED = UID.replace("-", "_")
STATIC = "0f" * 16
ID = "3a9b" * 16

CONTAINERS = {
    f"/kubepods/burstable/pod{UID}/{ID}": (UID, ""),
    f"/kubepods/besteffort/pod{UID}/{ID}": (UID, ""),
    f"/kubepods/pod{UID}/{ID}": (UID, ""),
    f"/kubepods/burstable/pod{STATIC}/{ID}": (STATIC, ""),
    f"/kubepods/burstable/pod{UID}/crio-{ID}": (UID, "cri-o"),
    f"/node/root/kubepods/burstable/pod{UID}/{ID}": (UID, ""),
    f"/docker/{ID}/kubelet/kubepods/burstable/pod{UID}/{ID}": (UID, ""),
    f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICED}.slice/cri-containerd-{ID}.scope": (
        UID,
        "containerd",
    ),
    f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SLICED}.slice/crio-{ID}.scope": (UID, "cri-o"),
    f"/kubepods.slice/kubepods-pod{SLICED}.slice/docker-{ID}.scope": (UID, "docker"),
    f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{STATIC}.slice/cri-containerd-{ID}.scope": (
        STATIC,
        "containerd",
    ),
    f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
    f"kubelet-kubepods-burstable-pod{SLICED}.slice/cri-containerd-{ID}.scope": (UID, "containerd"),
    f"/a.slice/a-b.slice/a-b-kubepods.slice/a-b-kubepods-pod{SLICED}.slice/crio-{ID}.scope": (UID, "cri-o"),
    f"/system.slice/containerd.service/kubepods-burstable-pod{SLICED}.slice:cri-containerd:{ID}": (UID, "containerd"),
    f"/kubepods/besteffort/pod{UID}/kata_{ID}": (UID, ""),
    f"/kubepods-besteffort-pod{SLICED}.slice:cri-containerd:{ID}": (UID, "containerd"),
    f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICED}.slice:cri-containerd:{ID}": (
        UID,
        "containerd",
    ),
    f"/kubepods.slice/kubepods-pod{SLICED}.slice:crio:{ID}": (UID, "cri-o"),
}


@run_for_each("path", CONTAINERS)
def test_a_container_is_known_under_every_driver_and_runtime(path: str) -> None:
    uid, runtime = CONTAINERS[path]
    assert name_of(path) == CgroupName(CgroupLevel.CONTAINER, uid, ID, runtime)


@run_for_each("path", CONTAINERS)
def test_the_levels_above_a_container_are_named_too(path: str) -> None:
    if ":" in path:
        return  # one directory that says all
    pod = path.rpartition("/")[0]
    assert name_of(pod) == CgroupName(CgroupLevel.POD, CONTAINERS[path][0])
    above = pod.rpartition("/")[0]
    kubepods = above
    if above.endswith(("burstable", "besteffort", "-burstable.slice", "-besteffort.slice")):
        assert name_of(above) == CgroupName(CgroupLevel.QOS)
        kubepods = above.rpartition("/")[0]
    assert name_of(kubepods) == CgroupName(CgroupLevel.KUBEPODS)


def test_monitors_of_containers_are_left_out() -> None:
    assert name_of(f"/kubepods.slice/kubepods-pod{SLICED}.slice/crio-conmon-{ID}.scope") is None
    assert target_of(f"/kubepods/pod{UID}/crio-conmon-{ID}") is None


@pytest.mark.parametrize("place", ["", f"/kubepods/pod{UID}", f"/kubepods.slice/kubepods-pod{SLICED}.slice"])
def test_the_parts_of_a_kata_sandbox_outside_of_its_guest_are_left_out(place: str) -> None:
    assert name_of(f"{place}/kata_overhead/{ID}") is None
    assert target_of(f"{place}/kata_overhead", above=target_of(place)) is None


def test_what_a_container_makes_below_its_own_cgroup_is_its_own_and_no_other_pod() -> None:
    inner = f"/kubepods/pod{UID}/{ID}/kubepods/pod{STATIC}/{'b' * 64}"
    assert name_of(inner) == CgroupName(CgroupLevel.OTHER, UID, ID)
    assert name_of(f"/kubepods.slice/kubepods-pod{SLICED}.slice/crio-{ID}.scope/container") == CgroupName(
        CgroupLevel.OTHER, UID, ID, "cri-o"
    )


@pytest.mark.parametrize(
    ("path", "runtime"),
    [
        (f"/docker/{ID}", "docker"),
        (f"/system.slice/docker-{ID}.scope", "docker"),
        (f"/machine.slice/libpod-{ID}.scope", "podman"),
        (f"/ecs/{STATIC}/{ID}", "docker"),
        (f"/ecs/cluster/{STATIC}/{ID}", "docker"),
        (f"/ecstasks.slice/ecstasks-{STATIC}.slice/docker-{ID}.scope", "docker"),
    ],
)
def test_containers_that_are_not_the_kubelets_are_other(path: str, runtime: str) -> None:
    assert name_of(path) == CgroupName(CgroupLevel.OTHER, "", ID, runtime)


@pytest.mark.parametrize(
    "path",
    [
        *("/system.slice/nginx.service", "/user.slice/user-0.slice", "/init.scope", "/podman", "/kubepods/burstable/x"),
        *("/kubepods/pod", "/kubepods.slice/kubepods-pod.slice", f"/machine.slice/libpod-conmon{ID}"),
    ],
)
def test_everything_else_is_other(path: str) -> None:
    assert name_of(path) == CgroupName(CgroupLevel.OTHER)


def test_a_target_has_what_the_path_says_and_no_names() -> None:
    target = target_of(f"/kubepods/pod{UID}/{ID}", "node-1")
    assert target is not None
    assert (target.level, target.node, target.pod_uid, target.container_id) == (
        CgroupLevel.CONTAINER,
        "node-1",
        UID,
        ID,
    )
    assert (target.namespace, target.pod, target.container) == ("", "", "")
    root = target_of("/")
    assert root is not None
    assert root.level is CgroupLevel.NODE


PARTS = st.sampled_from(
    [
        "kubepods",
        "kubepods.slice",
        "burstable",
        f"pod{UID}",
        ID,
        "x",
        f"crio-{ID}.scope",
        "",
        "..",
        f"kubepods-pod{SLICED}.slice",
        ":",
    ]
)


@given(st.lists(PARTS | st.text(max_size=12), max_size=6))
def test_no_path_is_too_odd_for_a_level(parts: list[str]) -> None:
    name = name_of("/" + "/".join(parts))
    assert name is None or name.level in CgroupLevel
    if name is not None and name.level is CgroupLevel.CONTAINER:
        assert name.pod_uid
        assert name.container_id


@run_for_each(
    "pod", [f"/kubepods/pod{UID}", f"/a.slice/kubepods.slice/kubepods-besteffort-pod{SLICED}.slice", f"/kubepods/{UID}"]
)
@run_for_each(
    "name",
    [ID, f"crio-{ID}.scope", f"crio-conmon-{ID}.scope", "init", f"kubepods-pod{SLICED}.slice:cri-containerd:{ID}"],
)
def test_a_cgroup_is_the_same_target_whether_or_not_the_one_above_is_given(pod: str, name: str) -> None:
    assert target_of(f"{pod}/{name}", above=target_of(pod)) == target_of(f"{pod}/{name}")


HEXADECIMAL = st.text("0123456789abcdef", min_size=64, max_size=64)
UIDS = st.uuids().map(str) | st.text("0123456789abcdef", min_size=32, max_size=32)
"""Of a pod of the API server, and of one from a file: the hash of its manifest."""
QOS = st.sampled_from(["", "burstable", "besteffort"])
OUTER = st.sampled_from(
    [
        "",
        f"/docker/{'ab' * 32}",
        f"/docker/{'ab' * 32}/kubelet",
        f"/system.slice/docker-{'ab' * 32}.scope",
        f"/system.slice/docker-{'ab' * 32}.scope/init.scope",
        "/lxc/105",
        "/lxc.payload.node-1/ns",
        "/../..",
        "/actions_job/0a1b",
    ]
)
"""What a node in a container has before its own tree: kind, minikube, LXC, and a cgroup namespace seen from inside."""
PLAIN = {"{id}": "", "crio-{id}": "cri-o", "kata_{id}": ""}
SCOPES = {
    "cri-containerd-{id}.scope": "containerd",
    "crio-{id}.scope": "cri-o",
    "docker-{id}.scope": "docker",
    "libpod-{id}.scope": "podman",
    "nerdctl-{id}.scope": "containerd",
}


@given(OUTER, st.sampled_from(["", "/node/root", "/k8s.io"]), QOS, UIDS, HEXADECIMAL, st.sampled_from(sorted(PLAIN)))
def test_a_container_of_the_cgroupfs_driver_is_known_wherever_its_node_is(
    outer: str, root: str, qos: str, uid: str, container: str, form: str
) -> None:
    parts = [outer + root, "kubepods", *([qos] if qos else []), f"pod{uid}", form.format(id=container)]
    _every_level_is_known(parts, qos, uid, container, PLAIN[form])


@given(
    OUTER,
    st.sampled_from(["", "kubelet", "a-b"]),
    QOS,
    UIDS,
    HEXADECIMAL,
    st.sampled_from(sorted(SCOPES)),
)
def test_a_container_of_the_systemd_driver_is_known_wherever_its_node_is(
    outer: str, root: str, qos: str, uid: str, container: str, form: str
) -> None:
    steps = root.split("-") if root else []
    above = "".join(f"/{'-'.join(steps[: count + 1])}.slice" for count in range(len(steps)))
    name = f"{root}-kubepods" if root else "kubepods"
    slices = [f"{name}.slice", *([f"{name}-{qos}.slice"] if qos else [])]
    pod = f"{name}-{qos}-pod" if qos else f"{name}-pod"
    parts = [outer + above, *slices, f"{pod}{uid.replace('-', '_')}.slice", form.format(id=container)]
    _every_level_is_known(parts, qos, uid, container, SCOPES[form])


def _every_level_is_known(parts: list[str], qos: str, uid: str, container: str, runtime: str) -> None:
    """Look at kubepods, its class, pod and container, by the path alone and as a walk meets them."""
    paths = ["/".join(parts[: count + 2]) for count in range(len(parts) - 1)]
    levels = [CgroupLevel.KUBEPODS, *([CgroupLevel.QOS] if qos else []), CgroupLevel.POD, CgroupLevel.CONTAINER]
    names = [name_of(path) for path in paths]
    assert [name and name.level for name in names] == levels
    assert names[-2:] == [CgroupName(CgroupLevel.POD, uid), CgroupName(CgroupLevel.CONTAINER, uid, container, runtime)]
    above = None
    for path in paths:
        found = target_of(path, above=above)
        assert found == target_of(path)
        above = found
    for below in ("container", "init.scope", f"pod{OTHER}", f"kubepods/burstable/pod{OTHER}/{'cd' * 32}"):
        deeper = name_of(f"{paths[-1]}/{below}")
        assert deeper is not None
        assert (deeper.level, deeper.pod_uid, deeper.container_id) == (CgroupLevel.OTHER, uid, container)


OTHER = "9d3e1c2b-3d4e-4f50-8a6b-7c8d9e0f1a2b"
