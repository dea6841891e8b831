"""Writing a picture: the format is checked before a long run, the file appears whole or not at all."""

from pathlib import Path

from slack.cli.problems import UserError
from slack.cli.scenarios import need
from slack.process.whole_file import write_whole


def check_picture(path: Path | None) -> str:
    """Return the picture's format, '' where none is wanted.

    Raises:
        UserError: for another ending than .png or .svg, a folder that is not there, or no matplotlib.
    """
    if path is None:
        return ""
    from slack.simulator.picture import FORMATS, format_of

    found = format_of(path)
    if found is None:
        raise UserError(f"--picture: {path} ends in neither .{' nor .'.join(FORMATS)}")
    if not path.absolute().parent.is_dir():
        raise UserError(f"--picture: {path.parent} is no folder; make it first")
    need("matplotlib", "pictures", "--picture")
    return found


def save_picture(path: Path, data: bytes) -> None:
    """Write a picture.

    Raises:
        UserError: when it cannot be written.
    """
    try:
        write_whole(path, data)
    except OSError as error:
        raise UserError(f"--picture: {path}: {(error.strerror or str(error)).lower()}") from None
