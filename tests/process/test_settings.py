"""Settings: precedence, and complaints that name the flag."""

from datetime import timedelta
from pathlib import Path

import pytest

from slack.process.settings import BadSettings, OperatorSettings, load

NOWHERE = Path("/nonexistent/namespace")


def settings(
    flags: dict[str, object] | None = None, environ: dict[str, str] | None = None, file: Path | None = None
) -> OperatorSettings:
    return load(flags or {}, environ or {}, file=file, namespace_file=NOWHERE)


def test_no_setting_is_needed() -> None:
    found = settings()
    assert (found.extra_capacity_min_rate, found.namespace, found.interval_seconds) == (0.1, "resource-slack", 10.0)
    assert found.listen_host_port == ("127.0.0.1", 8080)


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
    assert load({}, {}, namespace_file=file).namespace == "from-file"
    assert load({}, {"POD_NAMESPACE": "from-env"}, namespace_file=file).namespace == "from-env"
    assert load({"namespace": "from-flag"}, {"POD_NAMESPACE": "x"}, namespace_file=file).namespace == "from-flag"


@pytest.mark.parametrize(("text", "seconds"), [("10s", 10), ("1m30s", 90), (5, 5)])
def test_an_interval_is_a_duration(text: object, seconds: int) -> None:
    assert settings({"interval": text}).interval == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"extra_capacity_min_rate": "10%"}, "--extra-capacity-min-rate: '10%' is a percentage; write 0.1"),
        ({"extra_capacity_min_rate": "much"}, "--extra-capacity-min-rate: 'much' is no number"),
        ({"extra_capacity_min_rate": -1}, "--extra-capacity-min-rate: input should be greater than or equal to 0"),
        ({"extra_capacity_min_rate": True}, "--extra-capacity-min-rate: is no number"),
        ({"interval": "soon"}, "--interval: 'soon' is not a duration such as 30s"),
        ({"interval": "0s"}, "--interval: must be at least 1s"),
        ({"listen": "8080"}, "--listen: '8080' is no address such as 127.0.0.1:8080"),
        ({"listen": "127.0.0.1:99999"}, "--listen: "),
        ({"listen": "::1:8080"}, "--listen: '::1:8080' is no address such as"),
        ({"listen": "[host]:8080"}, "--listen: '[host]:8080' is no address such as"),
        ({"listen": " host:8080"}, "--listen: "),
        ({"listen": "127.0.0.1:\u0663"}, "--listen: "),
        ({"image": ""}, "--image: must not be empty"),
        ({"kubeconfig": 5}, "--kubeconfig: should be a path, not 5"),
        ({"namespace": "My_Namespace"}, "--namespace: 'My_Namespace' is no Kubernetes name"),
        ({"log_format": "xml"}, "--log-format: input should be 'console' or 'json', not 'xml'"),
        ({"leader_elect": "perhaps"}, "--leader-elect: should be true or false, not 'perhaps'"),
    ],
)
def test_a_bad_flag_is_named(flags: dict[str, object], words: str) -> None:
    with pytest.raises(BadSettings) as caught:
        settings(flags)
    assert words in str(caught.value)


def test_a_bad_variable_is_named_with_its_flag() -> None:
    with pytest.raises(BadSettings, match=r"--listen \(from RESOURCE_SLACK_LISTEN\): 'x' is no address"):
        settings(environ={"RESOURCE_SLACK_LISTEN": "x"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("interwal: 10s", "interwal in .*: unknown setting; known are .*interval"),
        ("- 1", "expected keys such as lease-name, found list"),
        ("a: [", "is no YAML"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    with pytest.raises(BadSettings, match=words):
        settings(file=file)


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("unknown: 1\n")
    with pytest.raises(BadSettings) as caught:
        settings({"listen": "x", "interval": "y"}, file=file)
    assert len(caught.value.problems) == 3


def test_a_missing_or_empty_file(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="cannot be read"):
        settings(file=tmp_path / "none")
    empty = tmp_path / "empty"
    empty.write_text("")
    assert settings(file=empty) == settings()
