"""Takes the pictures of docs/web.md: `python -m e2e.screenshots [FOLDER]`, or `make screenshots`.

The page is the operator's own, over a made-up cluster at a fixed time. The pictures are small: few colours, as the page
has few. Each carries a digest of the words that the page had, so that one of an old page is found.
"""

import sys
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from e2e.harness.product.browser import Browser, unavailable
from e2e.harness.product.page_scene import scene
from e2e.harness.product.pictures import Box, note_of, regions_in, words_in

FOLDER = Path(__file__).parent.parent / "docs/pictures"
AT = 1_800_000_000.0
COLOURS = 256
LOAD_AGE_SECONDS = 40.0


class Shot(NamedTuple):
    """One picture."""

    name: str
    width: int
    height: int
    dark: bool
    trouble: bool


class Taken(NamedTuple):
    """A picture's file, and what the page had on it by its DOM."""

    path: Path
    words: str
    regions: Mapping[str, Box]


SHOTS = (
    Shot("page.png", 1440, 2150, dark=False, trouble=False),
    Shot("page-trouble.png", 768, 1000, dark=True, trouble=True),
    Shot("page-narrow.png", 390, 1500, dark=False, trouble=True),
)


def take(browser: Browser, shot: Shot, folder: Path) -> Taken:
    """Take one picture."""
    with (
        scene(AT, trouble=shot.trouble, load_age=LOAD_AGE_SECONDS) as origin,
        browser.visit(origin, width=shot.width, height=shot.height, dark=shot.dark, at=AT) as visit,
    ):
        visit.wait_for_text("#connection", "live")
        visit.wait_for_text("#map", "web · ")
        visit.wait_for_text("#node-load", "Really used")
        visit.page.locator(".chart").wait_for()
        raw = visit.page.screenshot()
        words, regions = words_in(visit, shot.height), regions_in(visit, shot.width, shot.height)
    picture = (
        Image.open(BytesIO(raw)).convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    )
    path = folder / shot.name
    picture.save(path, optimize=True, pnginfo=note_of(words))
    return Taken(path, words, regions)


def main(folder: Path) -> None:
    """Take them all."""
    missing = unavailable()
    if missing:
        raise SystemExit(missing)
    with Browser() as browser:
        for shot in SHOTS:
            path = take(browser, shot, folder).path
            print(f"{path.name}: {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
