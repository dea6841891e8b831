"""The certificate of a process: without files it serves plain HTTP, with bad ones it does not start, and says why."""

import ssl
from pathlib import Path

import pytest

from e2e.harness.cluster.certificates import Authority
from slack.process.running import CannotStart
from slack_operator.runtime.certificates import Certificate


def test_without_files_there_is_no_certificate() -> None:
    assert Certificate.from_files(None, None) is None


def test_files_that_cannot_be_used_are_named_with_their_flags(tmp_path: Path) -> None:
    pair = Authority.create(tmp_path).issue("server", hosts=["127.0.0.1"])
    with pytest.raises(CannotStart, match=r"^--tls-cert-file, --tls-key-file: \S*absent\.key: cannot be read: No such"):
        Certificate.from_files(pair.certificate, tmp_path / "absent.key")
    broken = tmp_path / "broken.key"
    broken.write_text("no key")
    with pytest.raises(CannotStart, match=r"^--tls-cert-file, --tls-key-file: \S+\.crt and \S*broken\.key: "):
        Certificate.from_files(pair.certificate, broken)


def test_clients_need_a_certificate_only_of_an_authority_that_is_given(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path)
    pair = authority.issue("server", hosts=["127.0.0.1"])
    anyone = Certificate.from_files(pair.certificate, pair.key)
    known = Certificate.from_files(pair.certificate, pair.key, authority.certificate_path)
    assert anyone is not None
    assert known is not None
    assert (anyone.context.verify_mode, known.context.verify_mode) == (ssl.CERT_NONE, ssl.CERT_REQUIRED)
