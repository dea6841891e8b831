"""The harness's authority: what it signs is good for TLS on loopback, in both directions, and for nothing else."""

import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from e2e.harness.cluster.certificates import Authority, Pair, service_account_keys


def server_context(authority: Authority, pair: Pair) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate_path))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(pair.certificate, pair.key)
    return context


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str = "127.0.0.1") -> bytes:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        try:
            with server.wrap_socket(connection, server_side=True) as secured:
                secured.sendall(b"hello")
        except OSError:
            connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with (
            socket.create_connection(listener.getsockname(), timeout=5) as plain,
            client.wrap_socket(plain, server_hostname=name) as secured,
        ):
            return secured.recv(5)
    finally:
        thread.join()
        listener.close()


@pytest.mark.parametrize("strict", [False, True])
def test_server_and_client_trust_each_other(tmp_path: Path, strict: bool) -> None:
    authority = Authority.create(tmp_path)
    client = ssl.create_default_context(cafile=str(authority.certificate_path))
    if strict:  # Python 3.13's default
        client.verify_flags |= ssl.VERIFY_X509_STRICT
    user = authority.issue("somebody")
    client.load_cert_chain(user.certificate, user.key)
    server = server_context(authority, authority.issue("server", hosts=["127.0.0.1", "localhost"]))
    assert shake_hands(server, client) == b"hello"


def test_a_users_certificate_serves_nothing(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path)
    client = ssl.create_default_context(cafile=str(authority.certificate_path))
    user = authority.issue("somebody")
    client.load_cert_chain(user.certificate, user.key)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server_context(authority, user), client)


def test_user_and_groups_are_where_kubernetes_looks(tmp_path: Path) -> None:
    pair = Authority.create(tmp_path).issue("system:kube-scheduler", organizations=["one", "two"])
    subject = x509.load_pem_x509_certificate(pair.certificate.read_bytes()).subject
    assert [entry.value for entry in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["system:kube-scheduler"]
    assert [entry.value for entry in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["one", "two"]


def test_keys_are_for_their_owner_only(tmp_path: Path) -> None:
    pair, account = Authority.create(tmp_path).issue("somebody"), service_account_keys(tmp_path)
    for key in (pair.key, account.key):
        assert key.stat().st_mode & 0o077 == 0


def test_an_authority_that_exists_can_sign_too(tmp_path: Path) -> None:
    first = Authority.create(tmp_path / "first")
    key = first._key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    second = Authority.load(tmp_path / "second", first.certificate_path.read_bytes(), key)
    client = ssl.create_default_context(cafile=str(first.certificate_path))
    user = second.issue("somebody")
    client.load_cert_chain(user.certificate, user.key)
    server = server_context(first, first.issue("server", hosts=["127.0.0.1"]))
    assert shake_hands(server, client) == b"hello"
