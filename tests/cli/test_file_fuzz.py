"""Policies by -f, and scenarios, of which a part is anything else: taken or refused; never a mistake of ours."""

import copy
import json
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.build import Json, listed, slack_policy, small_cluster
from tests.cli.conftest import Run
from tests.cli.test_snapshot_fuzz import EVIL, paths

_LONE = "\\ud800"
"""Half a character, as JSON writes it; YAML cannot."""
_GONE = object()
_PLAUSIBLE = [1e-9, 0.5, 1e9, "1", "0", "1h", "0s", "8784h", "10m", "100Gi", "1e18", "-1m", "cpu"]
_PLAUSIBLE += ["\ud800", "a" * 70_000]
_WINDOW = {"name": "w", "cron": "0 8 * * *", "duration": "1h", "minRate": 0.5, "timeZone": "UTC", "floor": {"cpu": "1"}}
_POLICY = slack_policy(
    {
        "nodeSelector": {"pool": "web"},
        "tolerations": [{"key": "pool", "operator": "Equal", "value": "web", "effect": "NoSchedule"}],
        "perDomain": "Zone",
        "granularity": 4,
        "reserve": {"namespaces": {"matchLabels": {"a": "b"}}, "maxShare": 0.5, "ceiling": {"cpu": "1"}},
        "extraCapacity": {
            "minRate": 0.1,
            "floor": {"cpu": "1"},
            "ceiling": {"cpu": "16", "memory": "64Gi"},
            "ladder": [{"fromNodes": 0, "minRate": 0.3}, {"fromNodes": 10, "minRate": 0.1}],
            "schedule": [_WINDOW],
        },
        "cover": {"mode": "Frequent", "coverage": 0.99, "exclude": [{"namespace": "db", "ownerKind": "StatefulSet"}]},
        "stabilization": {"shrinkDelay": "10m", "shapeTolerance": 0.1},
        "nodeTemplates": [{"name": "t", "labels": {"pool": "web"}, "allocatable": {"cpu": "4", "memory": "16Gi"}}],
    }
)
_SCENARIO: Json = {
    "apiVersion": "resource-slack.io/v1alpha1",
    "kind": "Scenario",
    "name": "toy",
    "startsAt": "2026-01-12T00:00:00Z",
    "duration": "20m",
    "warmUp": "1m",
    "seed": 1,
    "nodeGroups": [
        {
            "name": "general",
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": 20},
            "labels": {"tier": "web"},
            "taints": [{"key": "a", "value": "b"}],
            "initial": 1,
            "min": 1,
            "max": 4,
            "pricePerHour": 0.4,
            "startUp": {"kind": "lognormal", "medianSeconds": 80, "sigma": 0.3, "maxSeconds": 300},
            "daemonRequests": {"cpu": "100m"},
            "daemonPods": 2,
        }
    ],
    "workloads": [
        {
            "name": "api",
            "namespace": "shop",
            "requests": {"cpu": "500m", "memory": "1Gi"},
            "priority": 10,
            "nodeSelector": {"tier": "web"},
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "antiAffinity": "hostname",
            "life": {"kind": "lognormal", "medianSeconds": 120, "sigma": 0.6, "maxSeconds": 1800},
            "arrivals": {"kind": "bursts", "size": 5, "at": ["12m"]},
        },
        {
            "name": "web",
            "requests": {"cpu": "100m"},
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "arrivals": {
                "kind": "deployment",
                "replicas": 2,
                "hpa": {
                    "minReplicas": 1,
                    "maxReplicas": 3,
                    "targetPerPod": 50,
                    "load": {"kind": "points", "points": [[0, 90], [600, 160]]},
                },
            },
        },
        {
            "name": "job",
            "requests": {"cpu": "100m"},
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "arrivals": {"kind": "diurnal", "meanPerMinute": 1, "peakAt": "20h"},
        },
    ],
    "slack": {
        "kind": "policies",
        "policies": [{"name": "default", "spec": {"extraCapacity": {"minRate": 0.1}}}],
        "priorities": {"a": -5},
    },
}


def _changed(document: Json) -> st.SearchStrategy[Json]:
    """The document with one or two parts replaced, or taken away, or standing under another name."""
    places = st.sampled_from(list(paths(document)))
    change = st.tuples(places, st.sampled_from([_GONE, *EVIL, *_PLAUSIBLE]), st.booleans())

    def apply(changes: list[tuple[tuple[str | int, ...], Any, bool]]) -> Json:
        changed: Any = copy.deepcopy(document)
        for path, value, as_key in changes:
            holder = changed
            for key in path[:-1]:
                holder = holder[key] if _has(holder, key) else None
            if not _has(holder, path[-1]):
                continue
            if value is _GONE:
                del holder[path[-1]]
            elif as_key and isinstance(holder, dict) and isinstance(value, str):
                holder[value] = holder.pop(path[-1])
            else:
                holder[path[-1]] = value
        return changed  # type: ignore[no-any-return]

    return st.lists(change, min_size=1, max_size=2).map(apply)


def _has(holder: Any, key: str | int) -> bool:
    if isinstance(holder, dict):
        return key in holder
    return isinstance(holder, list) and isinstance(key, int) and key < len(holder)


def _text(document: Json, *, as_yaml: bool) -> str:
    text = json.dumps(document)
    if not as_yaml or _LONE in text:
        return text
    return str(yaml.dump(document, Dumper=yaml.CSafeDumper))


def test_the_documents_are_good_as_they_are(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(listed(*small_cluster()))
    assert run("plan", "-f", "-", "--snapshot", "cluster.json", stdin=json.dumps(_POLICY)).code in (0, 3)
    found = run("simulate", "-", stdin=json.dumps(_SCENARIO))
    assert found.code == 0, found.stderr


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(policy=_changed(_POLICY), as_yaml=st.booleans())
def test_whatever_a_policy_has_it_is_planned_or_refused(run: Run, tmp_path: Path, policy: Json, as_yaml: bool) -> None:
    (tmp_path / "cluster.json").write_text(listed(*small_cluster()))
    found = run("plan", "-f", "-", "--snapshot", "cluster.json", stdin=_text(policy, as_yaml=as_yaml))
    assert found.code in (0, 2, 3), found.stderr
    assert found.code != 2 or "stdin" in found.stderr, found.stderr


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(scenario=_changed(_SCENARIO), as_yaml=st.booleans())
def test_whatever_a_scenario_has_it_is_played_or_refused(run: Run, scenario: Json, as_yaml: bool) -> None:
    found = run("simulate", "-", stdin=_text(scenario, as_yaml=as_yaml))
    assert found.code in (0, 2, 3), found.stderr
    assert found.code != 2 or "stdin" in found.stderr, found.stderr
