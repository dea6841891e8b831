"""A broker's credentials: from a file only, which is a mounted Secret; never in a URL, a log or an error."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from slack.demand.broker import BrokerRefused

_MOST_BYTES: Final = 64 << 10
_NATS_CREDS: Final = "-----BEGIN NATS USER JWT-----"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCredentials:
    """What the file holds: a user with a password, a word alone (token or password), or a JWT with its key."""

    user: str | None = None
    secret: str | None = field(default=None, repr=False)
    creds_file: Path | None = None
    """NATS's own form, which its library reads."""
    file: Path | None = field(default=None, compare=False)
    """Where they come from."""

    def fresh(self) -> "BrokerCredentials":
        """Read the file again, for each new connection: a Secret may have been rotated since.

        Raises:
            BrokerRefused: as `read_credentials`.
        """
        return self if self.file is None else read_credentials(self.file)


NONE: Final = BrokerCredentials()


def read_credentials(file: Path | None) -> BrokerCredentials:
    """Read the file: `user:password`, a token or password alone, or what `nsc` writes (`.creds`).

    Raises:
        BrokerRefused: it cannot be read, or holds nothing; the text names the file, and nothing that is in it.
    """
    if file is None:
        return NONE
    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST_BYTES + 1)
        text = data.decode().strip()
    except OSError as error:
        raise BrokerRefused(f"credentials file {file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BrokerRefused(f"credentials file {file}: is no text: {_RIGHT}") from None
    if len(data) > _MOST_BYTES:
        raise BrokerRefused(f"credentials file {file}: is longer than {_MOST_BYTES >> 10} KiB: {_RIGHT}")
    if text.startswith(_NATS_CREDS):
        return BrokerCredentials(creds_file=file, file=file)
    if not text or "\n" in text:
        raise BrokerRefused(f"credentials file {file}: must hold one line: {_RIGHT}")
    user, colon, password = text.partition(":")
    if colon:
        return BrokerCredentials(user=user or None, secret=password, file=file)
    return BrokerCredentials(secret=text, file=file)


_RIGHT = "user:password, a token or password alone, or a NATS .creds file"
