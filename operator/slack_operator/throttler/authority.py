"""Who signs the agents' certificates, as gates are told it: certificates and nothing else that may be in a file."""

import re
import ssl
from pathlib import Path

from slack.throttler.protocol import MAX_AUTHORITY_BYTES
from slack_operator.runtime.certificates import InvalidCertificate

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----[\sA-Za-z0-9+/=]+-----END CERTIFICATE-----")
_MOST_FILE_BYTES = 1 << 20


def authority_of(file: Path) -> str:
    """Read certificates, and nothing else that may be in a file.

    Raises:
        InvalidCertificate: naming the file.
    """
    try:
        with file.open("rb") as opened:
            text = opened.read(_MOST_FILE_BYTES).decode("ascii", "replace")
    except OSError as error:
        raise InvalidCertificate(f"{file}: cannot be read: {error.strerror}") from None
    authority = "\n".join(found[0] for found in _CERTIFICATE.finditer(text))
    if not authority or len(authority) > MAX_AUTHORITY_BYTES:
        raise InvalidCertificate(
            f"{file}: should have certificates of at most {MAX_AUTHORITY_BYTES >> 10} KiB together"
        )
    try:
        ssl.create_default_context(cadata=authority)
    except (ssl.SSLError, ValueError) as error:
        raise InvalidCertificate(f"{file}: a certificate cannot be read: {error}") from None
    return authority
