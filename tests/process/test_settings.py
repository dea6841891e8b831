"""Settings: precedence, and complaints that name the flag."""

from pathlib import Path

import pytest

from slack.cluster.rates import NEEDS_CEILING
from slack.planner.policy.spec import DEFAULT_RATE
from slack.process.settings import InvalidSettings, declared_settings, load
from slack.process.values import host_port
from slack_operator.auditor.agent.settings import AgentSettings
from slack_operator.auditor.controller.settings import ControllerSettings
from slack_operator.settings import OperatorSettings
from tests.cases import run_for_each

NOWHERE = Path("/nonexistent/namespace")
KINDS = (OperatorSettings, AgentSettings, ControllerSettings)


def settings(
    flags: dict[str, object] | None = None, environ: dict[str, str] | None = None, file: Path | None = None
) -> OperatorSettings:
    return load(OperatorSettings, flags or {}, environ or {}, file=file, files={"namespace": NOWHERE})


def test_no_setting_is_needed() -> None:
    found = settings()
    assert (found.extra_capacity_min_rate, found.namespace, found.interval) == (DEFAULT_RATE, "resource-slack", 10.0)
    assert host_port(found.listen) == ("127.0.0.1", 8080)


def test_flags_win_over_environment_over_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("extra-capacity-min-rate: 0.3\nlease-name: file\nimage: file\nleader-elect: false\n")
    environ = {"RESOURCE_SLACK_LEASE_NAME": "env", "RESOURCE_SLACK_IMAGE": "env"}
    found = settings({"image": "flag", "context": None}, environ, file)
    assert (found.extra_capacity_min_rate, found.lease_name, found.image, found.leader_elect) == (
        0.3,
        "env",
        "flag",
        False,
    )
    assert settings(environ={"RESOURCE_SLACK_CONFIG": str(file)}).lease_name == "file"


def test_the_namespace_is_the_pods_own(tmp_path: Path) -> None:
    file = tmp_path / "namespace"
    file.write_text("from-file\n")

    def namespace(flags: dict[str, object], environ: dict[str, str]) -> str:
        return load(OperatorSettings, flags, environ, files={"namespace": file}).namespace

    assert namespace({}, {}) == "from-file"
    assert namespace({}, {"POD_NAMESPACE": "from-env"}) == "from-env"
    assert namespace({"namespace": "from-flag"}, {"POD_NAMESPACE": "x"}) == "from-flag"


@pytest.mark.parametrize(("text", "seconds"), [("10s", 10), ("1m30s", 90), (5, 5)])
def test_an_interval_is_a_duration(text: object, seconds: int) -> None:
    assert settings({"interval": text}).interval == seconds


@run_for_each(
    ("flags", "words"),
    [
        ({"extra_capacity_min_rate": "10%"}, "--extra-capacity-min-rate: '10%' is a percentage; write 0.1"),
        ({"extra_capacity_min_rate": "much"}, "--extra-capacity-min-rate: 'much' is no number"),
        ({"extra_capacity_min_rate": -1}, "--extra-capacity-min-rate: should be a number from 0 to 10, not -1"),
        ({"extra_capacity_min_rate": "1.5"}, f"--extra-capacity-min-rate: '1.5': {NEEDS_CEILING}; a flag has no"),
        ({"extra_capacity_min_rate": True}, "--extra-capacity-min-rate: is no number"),
        ({"interval": "soon"}, "--interval: 'soon' is not a duration such as 30s"),
        ({"interval": "0s"}, "--interval: must be at least 1s and at most 168h, not '0s'"),
        ({"interval": "9999999h"}, "--interval: must be at least 1s and at most 168h, not '9999999h'"),
        ({"interval": float("nan")}, "--interval: must be at least 1s and at most 168h, not nan"),
        ({"listen": "8080"}, "--listen: '8080' is no address such as 127.0.0.1:8080"),
        ({"listen": "127.0.0.1:99999"}, "--listen: "),
        ({"listen": "::1:8080"}, "--listen: '::1:8080' is no address such as"),
        ({"listen": "[host]:8080"}, "--listen: '[host]:8080' is no address such as"),
        ({"listen": " host:8080"}, "--listen: "),
        ({"listen": "127.0.0.1:\u0663"}, "--listen: "),
        ({"image": ""}, "--image: must not be empty"),
        ({"kubeconfig": 5}, "--kubeconfig: should be a path, not 5"),
        ({"namespace": "My_Namespace"}, "--namespace: 'My_Namespace' is no Kubernetes name"),
        ({"log_format": "xml"}, "--log-format: should be 'console' or 'json', not 'xml'"),
        ({"leader_elect": "perhaps"}, "--leader-elect: should be true or false, not 'perhaps'"),
    ],
)
def test_a_bad_flag_is_named(flags: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        settings(flags)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("words", "value"), [("true t YES y on 1", True), ("false f No n off 0", False)], ids=["true", "false"]
)
def test_the_words_for_true_and_false(words: str, value: bool) -> None:
    for word in words.split():
        assert settings(environ={"RESOURCE_SLACK_LEADER_ELECT": word}).leader_elect is value


def test_a_bad_variable_is_named_with_its_flag() -> None:
    with pytest.raises(InvalidSettings, match=r"--listen \(from RESOURCE_SLACK_LISTEN\): 'x' is no address"):
        settings(environ={"RESOURCE_SLACK_LISTEN": "x"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("interwal: 10s", "interwal in .*: unknown setting; known are .*interval"),
        ("- 1", "expected keys such as lease-name, found list"),
        ("a: [", "is no YAML"),
        ("image: 2026-99-99", "is no YAML"),
        ("interval: 1.0e+30", r"--interval \(from interval in .*\): must be at least 1s and at most 168h, not 1e\+30$"),
        (
            f"interval: 1{'0' * 60}",
            r"^--interval \(from interval in .*\): must be at least 1s and at most 168h, not 10",
        ),
        (f"extra-capacity-min-rate: 1{'0' * 60}", "should be a number from 0 to 10, not 10"),
        (f"interval: 1{'0' * 400}", r"settings.yaml: line 1: interval: a number of 401 characters"),
        ("nothing:", "nothing in .*: unknown setting"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    with pytest.raises(InvalidSettings, match=words):
        settings(file=file)


def test_a_key_without_a_value_is_as_if_it_were_absent(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("".join(f"{found.key}:\n" for found in declared_settings(OperatorSettings)))
    found = settings(environ={"RESOURCE_SLACK_IMAGE": "mirror/pause"}, file=file)
    assert (found.kubeconfig, found.interval, found.image) == (None, 10, "mirror/pause")
    assert found.given == {"image"}


@pytest.mark.parametrize(("text", "user"), [("1000680000", 1_000_680_000), (65535, 65535), ("image", None)])
def test_the_user_of_placeholders_is_a_number_or_the_images(text: object, user: int | None) -> None:
    assert settings({"placeholder_user": text}).placeholder_user == user


@pytest.mark.parametrize("text", ["root", "0", "-1", "", True, 2**31])
def test_placeholders_never_run_as_root_nor_by_a_name(text: object) -> None:
    with pytest.raises(InvalidSettings, match=r"number of a user that is not root, such as 65535, or `image`"):
        settings({"placeholder_user": text})


@pytest.mark.parametrize(
    ("given", "found"),
    [("{}", None), ({}, None), ('{"labels": {"a": "b"}}', {"labels": {"a": "b"}}), ({"x": 1}, {"x": 1})],
)
def test_what_all_placeholders_have_is_a_mapping_or_json(given: object, found: object) -> None:
    assert settings({"placeholders": given}).placeholders == found


@pytest.mark.parametrize("given", ["{", "[]", "team=platform", 5, "[" * 100_000])
def test_other_texts_are_not_what_placeholders_have(given: object) -> None:
    with pytest.raises(
        InvalidSettings, match=r'--placeholders: expected JSON such as \{"labels": \{"team": "platform"\}\}'
    ):
        settings({"placeholders": given})


def test_a_week_is_the_longest_interval() -> None:
    assert settings({"interval": "168h"}).interval == 604_800


def test_every_duration_of_every_process_has_a_bound_that_a_thread_can_wait() -> None:
    found = [found for kind in KINDS for found in declared_settings(kind) if found.metavar == "DURATION"]
    assert len(found) == 4
    for duration in found:
        with pytest.raises(ValueError, match=r"must be at least [15]s and at most (24|168)h, not 1e\+30"):
            duration.parse(1e30)


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("unknown: 1\n")
    with pytest.raises(InvalidSettings) as caught:
        settings({"listen": "x", "interval": "y"}, file=file)
    assert len(caught.value.problems) == 3


def test_a_missing_or_empty_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="cannot be read"):
        settings(file=tmp_path / "none")
    empty = tmp_path / "empty"
    empty.write_text("")
    assert settings(file=empty) == settings()
