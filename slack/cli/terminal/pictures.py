"""Writing a picture: the format is checked before a long run, the file appears whole or not at all."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from slack.cli.terminal.extras import require_extra
from slack.cli.terminal.problems import UserError
from slack.process.atomic_write import write_atomically

PictureFile = Annotated[
    Path | None, typer.Option("--picture", help="Draw it into this file, .png or .svg.", metavar="FILE")
]


@dataclass(frozen=True, slots=True)
class PictureTarget:
    """Where a picture goes, and as what."""

    path: Path
    format: str

    def save(self, data: bytes) -> None:
        """Write the picture.

        Raises:
            UserError: when it cannot be written.
        """
        try:
            write_atomically(self.path, data)
        except OSError as error:
            raise UserError(f"--picture: {self.path}: {(error.strerror or str(error)).lower()}") from None


def checked_picture(path: Path | None) -> PictureTarget | None:
    """Return where a picture goes, None where none is wanted.

    Raises:
        UserError: for another ending than .png or .svg, a folder that is not there, or no matplotlib.
    """
    if path is None:
        return None
    from slack.simulator.runs.picture import FORMATS, format_of

    picture_format = format_of(path)
    if picture_format is None:
        raise UserError(f"--picture: {path} ends in neither .{' nor .'.join(FORMATS)}")
    if not path.absolute().parent.is_dir():
        raise UserError(f"--picture: {path.parent} is no folder; make it first")
    require_extra("matplotlib", "pictures", "--picture")
    return PictureTarget(path, picture_format)
