"""A certificate authority for one run of the control plane: everything it signs is valid for a day, on loopback.

Keys are on the curve P-256: an RSA key takes a tenth of a second to make, and a run makes about ten.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from e2e.harness.errors import HarnessError

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """The paths of a certificate and of its key, both PEM."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates and keeps them in one folder.

    Usage:

        authority = Authority.create(folder)
        admin = authority.issue("admin", organizations=["system:masters"])
        server = authority.issue("kube-apiserver", hosts=["127.0.0.1", "localhost", "kubernetes.default.svc"])
    """

    def __init__(
        self, folder: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, certificate: x509.Certificate
    ) -> None:
        self.folder = folder
        self.certificate_path = folder / "ca.crt"
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Make the authority's own key and certificate in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("resource-slack test control plane", [])
        certificate = (
            _builder(name, key)
            .issuer_name(name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(authority=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        authority = cls(folder, key, certificate)
        authority.certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return authority

    @classmethod
    def load(cls, folder: Path, certificate: bytes, key: bytes) -> Self:
        """Take over an authority that exists (kind's), whose certificate and key are PEM; only the former is kept."""
        folder.mkdir(parents=True, exist_ok=True)
        private = serialization.load_pem_private_key(key, password=None)
        if not isinstance(private, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise HarnessError(f"the authority's key is neither RSA nor elliptic: {type(private).__name__}")
        authority = cls(folder, private, x509.load_pem_x509_certificate(certificate))
        authority.certificate_path.write_bytes(certificate)
        return authority

    def issue(self, common_name: str, organizations: Sequence[str] = (), hosts: Sequence[str] = ()) -> Pair:
        """Sign a certificate; Kubernetes takes the common name as the user, the organizations as the groups.

        Args:
            common_name: user or server name; also names the files.
            organizations: the user's groups.
            hosts: addresses and names of a server; without any it can only be used by a client.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH] + ([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])
        builder = (
            _builder(_name(common_name, organizations), key)
            .issuer_name(self._certificate.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            # Python 3.13's strict checks ask for it.
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        stem = common_name.replace(":", "_").replace("/", "_")
        pair = Pair(self.folder / f"{stem}.crt", self.folder / f"{stem}.key")
        certificate = builder.sign(self._key, hashes.SHA256())
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        write_key(pair.key, key)
        return pair


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Write a private key that only its owner may read."""
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )


def service_account_keys(folder: Path) -> Pair:
    """Make the key pair that signs service account tokens; `certificate` is the bare public key here."""
    key = ec.generate_private_key(ec.SECP256R1())
    pair = Pair(folder / "service-account.pub", folder / "service-account.key")
    write_key(pair.key, key)
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    pair.certificate.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, public))
    return pair


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + _DAY)
    )


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
