"""The pods that pull images, and the program that they run."""

import platform
import struct
import subprocess
from pathlib import Path

import pytest

from slack.cluster import wire
from slack.cluster.identity import DAEMON, role_of
from slack.planner.warm.choice import ImagePullOrder
from slack.planner.warm.pods import program_map, warm_name, warm_pod
from slack.planner.warm.program import ARCHITECTURES, exit_program
from tests.cases import run_for_each

ORDER = ImagePullOrder("n1", "r.example.com/app:1", "shop/deploy/api", 10**9, "arm64")
HERE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine())


@pytest.mark.skipif(HERE is None, reason="this machine's processor is not among those of common nodes")
def test_the_program_of_this_machine_ends_at_once(tmp_path: Path) -> None:
    path = tmp_path / "exit"
    path.write_bytes(exit_program(str(HERE)))
    path.chmod(0o555)
    done = subprocess.run([path], check=False, env={}, cwd="/", capture_output=True, timeout=10)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@run_for_each("architecture", sorted(ARCHITECTURES))
def test_each_program_is_a_static_elf_file_of_its_processor(architecture: str) -> None:
    program = exit_program(architecture)
    order = "<" if program[5] == 1 else ">"
    kind, machine, _, entry = struct.unpack_from(f"{order}HHIQ", program, 16)
    machines = {"amd64": 62, "arm64": 183, "riscv64": 243, "ppc64le": 21, "s390x": 22}
    assert (program[:5], kind, machine) == (b"\x7fELF\x02", 2, machines[architecture])
    at = struct.unpack_from(f"{order}Q", program, 64 + 16)[0]
    assert entry - at == 120
    assert struct.unpack_from(f"{order}Q", program, 64 + 32)[0] == len(program) < 200


def test_a_warm_pod_runs_nothing_of_its_image_and_passes_restricted() -> None:
    made = warm_pod(ORDER, "uid", namespace="slack", priority_class_name="resource-slack", pull_secrets=("corp",))
    spec = made["spec"]
    (container,) = spec["containers"]
    assert container["command"] == ["/resource-slack-warm/exit"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["securityContext"]["runAsNonRoot"]
    assert not spec["automountServiceAccountToken"]
    assert (spec["restartPolicy"], spec["nodeName"], spec["imagePullSecrets"]) == ("Never", "n1", [{"name": "corp"}])
    assert spec["volumes"][0]["configMap"]["items"] == [{"key": "arm64", "path": "exit"}]
    assert "arm64" in program_map("slack")["binaryData"]


def test_no_plan_counts_a_warm_pod() -> None:
    made = warm_pod(ORDER, "uid", namespace="slack", priority_class_name="resource-slack")
    owners = [wire.OwnerReference(kind="Node", name="n1", uid="uid", controller=True)]
    metadata = wire.PodMetadata(name="a", namespace="slack", labels=made["metadata"]["labels"], owner_references=owners)
    assert role_of(metadata, "slack") == DAEMON


def test_the_same_pull_has_the_same_name() -> None:
    assert warm_name("n1", "a:1") == warm_name("n1", "a:1") != warm_name("n2", "a:1")
