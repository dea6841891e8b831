"""A signature by a key of one's own, over the list of sums: what `cosign sign-blob --key` makes, by openssl alone.

The workflow signs with its identity instead, which no machine of a person has. This is for who publishes a build of
their own, and for the rehearsal. `cosign verify-blob --key KEY.pub --signature SHA256SUMS.sig SHA256SUMS` takes the
same file.
"""

import base64
import subprocess
from pathlib import Path

SIGNATURE = "SHA256SUMS.sig"


class BadSignature(ValueError):
    """A file is not what was signed, or another key has signed it."""


def make_key(folder: Path) -> tuple[Path, Path]:
    """Make a key pair (ECDSA, P-256), and return the private key and the public one."""
    private, public = folder / "release.key", folder / "release.pub"
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(private))
    _openssl("ec", "-in", str(private), "-pubout", "-out", str(public))
    return private, public


def sign(file: Path, private: Path) -> str:
    """Return the signature of a file: ECDSA over its SHA-256, in base64."""
    return base64.b64encode(_openssl("dgst", "-sha256", "-sign", str(private), str(file))).decode()


def verify(file: Path, signature: str, public: Path, scratch: Path) -> None:
    """Check a signature.

    Raises:
        BadSignature: the file was changed, or another key has signed it.
    """
    raw = scratch / "signature"
    raw.write_bytes(base64.b64decode(signature))
    try:
        _openssl("dgst", "-sha256", "-verify", str(public), "-signature", str(raw), str(file))
    except subprocess.CalledProcessError as error:
        raise BadSignature(f"{file.name}: {error.stdout.decode().strip() or 'not verified'}") from error


def _openssl(*words: str) -> bytes:
    return subprocess.run(["openssl", *words], check=True, capture_output=True).stdout
