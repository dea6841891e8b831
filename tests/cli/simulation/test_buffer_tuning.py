"""`tune --buffer`: the size that an objective would choose for a CapacityBuffer, and why."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from slack.capacity_buffers.api import CapacityBuffer
from slack.cli.simulation.buffer_tuning import BufferSubject, TunedBuffer, document, print_buffer, tune_buffer
from slack.cli.simulation.buffer_tuning import _subject as subject_of
from slack.cli.terminal.problems import UserError
from slack.kube.errors import ApiError
from tests.cases import run_for_each
from tests.simulator.toys import scenario

GI = 1 << 30


def buffer(**spec: Any) -> CapacityBuffer:
    found = {"metadata": {"name": "web", "namespace": "shop", "uid": "u"}, "spec": spec}
    return msgspec.json.decode(msgspec.json.encode(found), type=CapacityBuffer)


def of(kind: str = "Deployment", name: str = "burst", **spec: Any) -> CapacityBuffer:
    return buffer(scalableRef={"apiGroup": "apps", "kind": kind, "name": name}, **spec)


class Server:
    """Answers GETs with objects by path."""

    def __init__(self, **objects: Any) -> None:
        self.objects = {path.replace("__", "/"): found for path, found in objects.items()}

    def request(self, method: str, path: str, timeout: float = 0.0) -> bytes:
        found = next((body for end, body in self.objects.items() if path.endswith(end)), None)
        if found is None:
            raise ApiError(404, "NotFound", f"{path} not found")
        return json.dumps(found).encode()


TEMPLATE = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}}


def bursts(**fields: Any) -> Any:
    """A day in which five pods of `shop/burst` come twice an hour."""
    workloads = [
        {
            "name": name,
            "namespace": namespace,
            "requests": {"cpu": "1", "memory": "1Gi"},
            "life": {"kind": "constant", "seconds": 200},
            "arrivals": {"kind": "bursts", "size": size, "at": [f"{20 + 30 * n}m" for n in range(16)]},
        }
        for name, namespace, size in (("burst", "shop", 5), ("other", "batch", 40))
    ]
    return scenario(workloads=workloads, duration="8h", **fields)


@pytest.mark.thorough
def test_the_size_holds_what_the_buffers_own_pods_take(capsys: pytest.CaptureFixture[str]) -> None:
    subject = BufferSubject(of(replicas=1), {"cpu": 1000, "memory": GI}, 10)
    found = tune_buffer(bursts(), subject, 0.95)
    assert found.size is not None
    assert 1 <= found.size.replicas <= 8, "the forty pods of another namespace are not this buffer's"
    assert (found.field, found.value) == ("replicas", found.size.replicas)
    printed = document(found, 0)
    assert (printed["kind"], printed["buffer"], printed["value"]) == ("BufferTuning", "shop/web", found.value)
    assert printed["chunk"] == {"cpu_millis": 1000, "memory_bytes": GI}
    print_buffer(found)
    said = capsys.readouterr().out
    assert f"shop/web: replicas {found.value}" in said
    assert "is enough for" in said
    assert (
        f"""kubectl patch capacitybuffer -n shop web --type merge -p '{{"spec":{{"replicas":{found.value}}}}}'"""
        in said
    )
    assert f"of them hold {found.basis}\n" in said
    shared = replace(found, subject=BufferSubject(of(percentage=20), subject.chunk, 10))
    assert (shared.field, shared.value) == ("percentage", 10 * found.size.replicas)


@run_for_each(
    "pattern,cpu_millis,said",
    [
        ("none", 0, "what every hour takes: 2/2.0Gi"),
        ("hour of day", 0, "what the busiest hour of the day, from 05:00 UTC, takes: 2/2.0Gi"),
        ("hour of week", 0, "what the busiest hour of the week, from Sat 05:00 UTC, takes: 2/2.0Gi"),
        ("hour of day", 9_000, "what was last asked for: 9/0.0Gi"),
    ],
)
def test_an_hour_is_named_only_where_hours_differ(pattern: str, cpu_millis: int, said: str) -> None:
    why = SimpleNamespace(pattern=pattern)
    policy: Any = SimpleNamespace(amount=SimpleNamespace(cpu_millis=cpu_millis, memory_bytes=0, why=why))
    busiest: Any = SimpleNamespace(at_seconds=1_800_075_600.0, most_cpu_millis=2000, most_memory_bytes=2 * GI)
    unused: Any = None
    assert TunedBuffer(unused, unused, policy, busiest, unused).basis == said


def test_a_size_of_little_that_was_seen_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    subject = BufferSubject(of(), {"cpu": 1000, "memory": GI}, 10)
    few = bursts().model_copy(update={"duration": scenario().duration})
    found = tune_buffer(few, subject, 0.95)
    assert (found.value, found.is_sure, document(found, 0)["sure"]) == (5, False, False), "one burst of five"
    print_buffer(found)
    assert "until enough is known" in capsys.readouterr().out
    unknown = replace(found, size=None)
    assert (unknown.value, document(unknown, 0)["known"]) == (None, False)
    print_buffer(unknown)
    assert "no size can be said for" in capsys.readouterr().out
    with pytest.raises(UserError, match="none of its pods comes after the warm-up"):
        tune_buffer(few.model_copy(update={"warm_up": few.duration - few.warm_up}), subject, 0.95)
    with pytest.raises(UserError, match="has no pod that this buffer is for"):
        tune_buffer(bursts(), BufferSubject(of(name="nobody"), subject.chunk, 1), 0.99)


@run_for_each(
    "own,is_for",
    [
        (of(), True),
        (of(kind="StatefulSet"), False),
        (of(name="x"), False),
        (buffer(podTemplateRef={"name": "t"}, replicas=1), True),
    ],
)
def test_which_pods_a_buffer_is_for(own: CapacityBuffer, is_for: bool) -> None:
    workload: Any = SimpleNamespace(
        name="burst", namespace="shop", owner_kind="deploy", requests={"cpu": 500, "memory": GI}
    )
    assert BufferSubject(own, {"cpu": 1000, "memory": GI}, None).is_for(workload) == is_for
    workload.requests["nvidia.com/gpu"] = 1
    assert not BufferSubject(buffer(podTemplateRef={"name": "t"}), {"cpu": 1000, "memory": GI}, None).is_for(workload)


def test_chunk_and_pods_are_read_from_what_it_names() -> None:
    server: Any = Server(
        deployments__burst={"spec": {"replicas": 9, "template": TEMPLATE}, "status": {"replicas": 7}},
        podtemplates__t={"metadata": {"name": "t"}, "template": TEMPLATE},
    )
    chunk = {"cpu": 1000, "memory": GI}
    found = subject_of(server, of())
    assert (dict(found.chunk), found.pods) == (chunk, 7)
    found = subject_of(server, buffer(podTemplateRef={"name": "t"}, replicas=1))
    assert (dict(found.chunk), found.pods) == (chunk, None)
    for own, said in (
        (of(name="gone"), "there is no Deployment shop/gone"),
        (of(kind="Rollout"), "kind apps/Rollout is none that may be read"),
        (buffer(podTemplateRef={"name": "gone"}, replicas=1), "there is no PodTemplate shop/gone"),
        (buffer(replicas=1), "names neither a PodTemplate nor an object"),
    ):
        with pytest.raises(ValueError, match=said):
            subject_of(server, own)
