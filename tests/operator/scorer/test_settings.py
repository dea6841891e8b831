"""What the scorer can be told, and what is refused with its flag."""

from pathlib import Path
from typing import Any

import pytest

from slack.process.settings import InvalidSettings, load
from slack_operator.scorer.settings import ScorerSettings
from tests.cases import run_for_each


def settings(**flags: Any) -> ScorerSettings:
    return load(ScorerSettings, flags, {}, files={})


@pytest.mark.parametrize(
    "given",
    [
        "TargetLoadPacking,Peaks=0.5",
        '[{"name": "TargetLoadPacking"}, {"name": "Peaks", "weight": 0.5}]',
        ["TargetLoadPacking", {"name": "Peaks", "weight": 0.5}],
    ],
)
def test_algorithms_are_names_json_or_a_list_of_the_file(given: object) -> None:
    assert settings(algorithms=given).algorithms == ({"name": "TargetLoadPacking"}, {"name": "Peaks", "weight": 0.5})


def test_a_file_says_all_of_it(tmp_path: Path) -> None:
    file = tmp_path / "scorer.yaml"
    file.write_text(
        "load-watcher: http://w:2020/watcher\nscale: 10\n"
        "algorithms: [{name: TargetLoadPacking, args: {targetUtilization: 50}}]"
    )
    found = load(ScorerSettings, {}, {}, file=file, files={})
    assert (found.load_watcher, found.scale) == ("http://w:2020", 10)
    assert found.algorithms == ({"name": "TargetLoadPacking", "args": {"targetUtilization": 50}},)


@run_for_each(
    ("flags", "said"),
    [
        ({"algorithms": "Target Load"}, r"--algorithms: \[0\]: 'Target Load' is no name"),
        ({"algorithms": ""}, "--algorithms"),
        ({"algorithms": "[{"}, "--algorithms: is no JSON"),
        ({"algorithms": [{"weight": 1}]}, r"--algorithms: \[0\]: should be a mapping with a name"),
        ({"scale": "0"}, "--scale: should be a whole number from 1 to 100"),
        ({"scale": "101"}, "--scale: should be a whole number from 1 to 100"),
        ({"scale": "10.5"}, "--scale: should be a whole number from 1 to 100"),
        ({"scale": True}, "--scale: should be a whole number from 1 to 100"),
        ({"min_measured_nodes": "150%"}, "--min-measured-nodes: should be a share of the nodes such as 0.5 or 50%"),
        ({"min_measured_nodes": "half"}, "--min-measured-nodes: should be a share of the nodes such as 0.5 or 50%"),
        ({"without_load": "spread"}, "--without-load: should be Spread, Neutral or Pack, not 'spread'"),
        ({"pod_use": "All"}, "--pod-use: should be RequestsTimesMultiplier, Requests or Limits, not 'All'"),
        ({"when_all_above": "Wait"}, "--when-all-above: should be Refuse or Admit, not 'Wait'"),
        ({"filter_memory_above": "0.5"}, "--filter-memory-above: should be a number from 1 to 1000"),
        ({"window": "30s"}, "--window: must be at least 60s"),
        ({"max_ahead": "-1s"}, "--max-ahead: "),
        ({"reporting": "2h"}, "--reporting: must be at least 0s and at most 1h"),
        ({"new_node": "25h"}, "--new-node: must be at least 0s and at most 24h"),
        ({"filter_above": "nan"}, "--filter-above: should be a number from 1 to 1000"),
        ({"load_watcher": "10.0.0.1:2020"}, "--load-watcher: should be the address"),
        (
            {"load_watcher": "http://user:secret@w"},
            "--load-watcher: should be the address of a load watcher such as [^@]*$",
        ),
        ({"extender_listen": "0.0.0.0:8888"}, "--client-ca-file: needed, as --extender-listen 0.0.0.0:8888"),
        ({"tls_cert_file": "tls.crt"}, "--tls-key-file: needed: certificate, key"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_flag(flags: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSettings, match=said):
        settings(**flags)


@pytest.mark.parametrize("scale", ["1", 10, "37", 100])
def test_each_scale_from_1_to_100_is_taken(scale: object) -> None:
    assert settings(scale=scale).scale == int(str(scale))


@pytest.mark.parametrize(("given", "share"), [("0.5", 0.5), ("50%", 0.5), (0, 0.0), (1, 1.0), ("12.5%", 0.125)])
def test_a_share_is_a_number_or_a_percentage(given: object, share: float) -> None:
    assert settings(min_measured_nodes=given).min_measured_nodes == share


def test_off_loopback_is_fine_with_certificates() -> None:
    files = {"tls_cert_file": "a", "tls_key_file": "b", "client_ca_file": "c"}
    assert settings(extender_listen="0.0.0.0:8888", **files).extender_listen == "0.0.0.0:8888"
