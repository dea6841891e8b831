"""Static pods' gates: the node's secret speaks for mirror pods, and for nothing else."""

import stat
from pathlib import Path

import pytest

from slack_operator.throttler.agent.gate_server import NotLetIn
from slack_operator.throttler.agent.static_pods import FILE, StaticPods

MIRRORS = {("kube-system", "proxy-node1"): "uid-of-the-mirror"}


def tokens(token: str) -> str:
    """Judge service account tokens by their text."""
    if token != "token-u1":
        raise NotLetIn("the token is not valid")
    return "u1"


def made(folder: Path) -> StaticPods:
    found = StaticPods(tokens, folder, lambda namespace, name: MIRRORS.get((namespace, name)))
    found.prepare()
    return found


def test_the_secret_of_the_node_speaks_for_its_mirror_pods_and_tokens_go_to_the_api_server(tmp_path: Path) -> None:
    pods = made(tmp_path / "static")
    secret = (tmp_path / "static" / FILE).read_text()
    assert pods(f"static:kube-system/proxy-node1:{secret}") == "uid-of-the-mirror"
    assert pods("token-u1") == "u1"
    with pytest.raises(NotLetIn, match="no mirror pod"):
        pods(f"static:shop/web-0:{secret}")


@pytest.mark.parametrize("secret", ["", "x", "x" * 43])
def test_another_secret_is_refused_and_not_said(tmp_path: Path, secret: str) -> None:
    pods = made(tmp_path / "static")
    with pytest.raises(NotLetIn) as refusal:
        pods(f"static:kube-system/proxy-node1:{secret}")
    assert (tmp_path / "static" / FILE).read_text() not in str(refusal.value)


def test_only_the_owner_reads_it_also_where_the_kubelet_has_made_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "static"
    folder.mkdir(mode=0o755)
    made(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600


def test_the_next_agent_goes_on_with_it_and_a_torn_one_is_made_anew(tmp_path: Path) -> None:
    made(tmp_path)
    secret = (tmp_path / FILE).read_text()
    assert made(tmp_path)(f"static:kube-system/proxy-node1:{secret}") == "uid-of-the-mirror"
    (tmp_path / FILE).write_text(secret[:5])
    pods = made(tmp_path)
    assert len((tmp_path / FILE).read_text()) == len(secret)
    with pytest.raises(NotLetIn):
        pods(f"static:kube-system/proxy-node1:{secret[:5]}")


def test_without_a_folder_nothing_is_let_in_and_nothing_is_held_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    pods = made(tmp_path / "file" / "static")
    assert "static pods cannot say who they are" in caplog.text
    with pytest.raises(NotLetIn):
        pods("static:kube-system/proxy-node1:")
