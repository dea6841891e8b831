"""Flags of the page: off by default, and open to other machines only with a token."""

from pathlib import Path

import pytest

from slack.process.exit_codes import BAD_INPUT
from slack.process.settings import InvalidSettings, load
from slack.process.values import host_port, is_loopback
from slack_operator.app import main
from slack_operator.settings import OperatorSettings

NOWHERE = Path("/nonexistent/namespace")


def settings(**flags: object) -> OperatorSettings:
    return load(OperatorSettings, flags, {}, files={"namespace": NOWHERE})


def test_the_page_is_off_and_would_listen_on_loopback() -> None:
    found = settings()
    assert (found.web, host_port(found.web_listen), found.web_token_file) == (False, ("127.0.0.1", 8081), None)


@pytest.mark.parametrize("address", ["127.0.0.1:0", "127.0.0.2:9000", "[::1]:8081", "localhost:8081"])
def test_a_loopback_address_needs_no_token(address: str) -> None:
    assert settings(web=True, web_listen=address).web_listen == address


@pytest.mark.parametrize("address", ["0.0.0.0:8081", "[::]:8081", "10.0.0.7:8081", "slack.example:8081"])
def test_another_address_needs_a_token_file(address: str) -> None:
    with pytest.raises(InvalidSettings) as error:
        settings(web=True, web_listen=address)
    (problem,) = error.value.problems
    assert problem.startswith(
        f"--web-token-file: needed, as --web-listen {address} is no loopback address: name a file"
    )
    assert settings(web=True, web_listen=address, web_token_file="/run/token").web_token_file == Path("/run/token")
    assert settings(web=False, web_listen=address).web is False


def test_a_bad_address_is_told_once() -> None:
    with pytest.raises(InvalidSettings) as error:
        settings(web=True, web_listen="8081")
    assert [problem.partition(":")[0] for problem in error.value.problems] == ["--web-listen"]


def test_a_name_that_only_looks_like_loopback_is_none() -> None:
    assert not is_loopback("localhost.example")
    assert not is_loopback("")


def test_a_token_file_that_cannot_be_read_ends_the_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "none"
    assert main(["--web", "--web-listen=0.0.0.0:0", f"--web-token-file={missing}"]) == BAD_INPUT
    assert f"--web-token-file: {missing} cannot be read: No such file or directory" in capsys.readouterr().err
