"""Certificates that follow their files: what renews them writes the files, and no process is restarted for it."""

import logging
import ssl
from pathlib import Path

from slack.errors import UserFacingError
from slack.process.running import CannotStart
from slack.process.settings import flag

log = logging.getLogger(__name__)


class InvalidCertificate(UserFacingError):
    """Certificate or key cannot be used; the text names the files."""


class Certificate:
    """A TLS context whose certificate follows its files. Owned by the thread that calls `refresh`."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Read both files.

        Raises:
            InvalidCertificate: naming the file.
        """
        self._files = certificate, key
        self._stamp: tuple[float, ...] = ()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._load(self._stamps())

    @classmethod
    def from_files(
        cls, certificate: Path | None, key: Path | None, client_authority: Path | None = None
    ) -> "Certificate | None":
        """Read the files of a process's settings; None where there is no certificate, so that plain HTTP is served.

        Args:
            certificate: of --tls-cert-file.
            key: of --tls-key-file.
            client_authority: signs the certificates that clients must show; None: they need none.

        Raises:
            CannotStart: a file cannot be used; it is named.
        """
        if certificate is None or key is None:
            return None
        try:
            found = cls(certificate, key)
        except InvalidCertificate as error:
            raise CannotStart(f"{flag('tls_cert_file')}, {flag('tls_key_file')}: {error}") from None
        try:
            if client_authority is not None:
                found.require_client_certificates(client_authority)
        except InvalidCertificate as error:
            raise CannotStart(str(error)) from None
        return found

    def require_client_certificates(self, authority: Path) -> None:
        """Answer clients only that show a certificate of an authority.

        Raises:
            InvalidCertificate: naming the authority's file.
        """
        try:
            self.context.load_verify_locations(cafile=authority)
        except (OSError, ssl.SSLError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise InvalidCertificate(f"{authority}: no certificate of an authority: {why}") from None
        self.context.verify_mode = ssl.CERT_REQUIRED

    def refresh(self) -> None:
        """Load the files again if they have changed; a bad pair leaves the old one in use, and is told."""
        try:
            stamp = self._stamps()
            if stamp != self._stamp:
                self._load(stamp)
                log.info("the certificate was read anew: %s", self._files[0])
        except InvalidCertificate as error:
            log.warning("the certificate is kept as it was: %s", error)

    def _stamps(self) -> tuple[float, ...]:
        try:
            return tuple(part for file in self._files for part in (file.stat().st_mtime, float(file.stat().st_ino)))
        except OSError as error:
            raise InvalidCertificate(f"{error.filename}: cannot be read: {error.strerror}") from None

    def _load(self, stamp: tuple[float, ...]) -> None:
        certificate, key = self._files
        # tried apart first: a pair that does not fit would leave half of itself in the context that serves
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
            self.context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            why = error.strerror or str(error) or "no certificate with its key"
            raise InvalidCertificate(f"{certificate} and {key}: {why}") from None
        self._stamp = stamp
