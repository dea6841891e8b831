"""Output that cannot be written, and a reader who has gone: for the whole program, with the standard library alone."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from slack.process.exit_codes import NOT_WRITTEN

_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


@contextmanager
def output_checked() -> Iterator[None]:
    """Around the whole program: output that cannot be written is one line and no success, for help texts too."""
    if sys.stdout is None:
        # Closed by the caller (`>&-`). Python then drops what is printed; written to this, it fails as it should.
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except OSError as error:
        if not is_unwritable(error):
            raise
        discard_output()
        print(f"error: the output cannot be written: {(error.strerror or str(error)).lower()}", file=sys.stderr)
        sys.exit(NOT_WRITTEN)


def is_unwritable(error: BaseException) -> bool:
    """Whether writing to something that was open has failed; errors of opening a file have its name."""
    return isinstance(error, OSError) and error.errno in _UNWRITABLE and error.filename is None


def discard_output() -> None:
    """Let what is still buffered go nowhere, or Python would complain once more at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
