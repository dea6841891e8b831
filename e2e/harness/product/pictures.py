"""Pictures of the page held to what they are to show: its regions and words, nothing blank, and today's page.

A picture in the docs carries a digest of the words that the page had on it; fonts and colours may differ a little from
machine to machine, words may not. How it looks is compared in coarse blocks.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, PngImagePlugin

from e2e.harness.product.browser import Visit

WORDS = "resource-slack words"
"""Key of the digest among the texts of a PNG file."""
REGIONS = ("#headline", "#figures", "#policy-list", "#map", "#timeline")
"""What each picture shows, as far down as it goes."""
LEAST_SHADES = 8
_BLOCK_PIXELS = 16
_MOST_SHADES_APART = 16
"""Of 256: a block whose mean is further off looks different."""
_SEEN = """
(selector) => {
  const box = document.querySelector(selector).getBoundingClientRect();
  return [box.left, box.top, box.right, box.bottom].map(Math.round);
}
"""
_WORDS = """
(height) => [...document.querySelectorAll('header, main section')]
  .filter((part) => part.checkVisibility() && part.getBoundingClientRect().top < height)
  .map((part) => part.innerText.split(/\\s+/).join(' ').trim())
  .join('\\n')
"""

Box = tuple[int, int, int, int]
Shades = npt.NDArray[np.float64]


def regions_in(visit: Visit, width: int, height: int) -> Mapping[str, Box]:
    """Return where the regions are that a picture of this size shows, as the DOM has them: left, top, right, bottom."""
    found: dict[str, Box] = {}
    for selector in REGIONS:
        left, top, right, bottom = visit.page.evaluate(_SEEN, selector)
        if top < height and left < width and right > left and bottom > top:
            found[selector] = (max(left, 0), max(top, 0), min(right, width), min(bottom, height))
    return found


def words_in(visit: Visit, height: int) -> str:
    """Return the words of all parts of the page that begin within a picture of this height.

    Without the age of the figures: the page's steady clock goes on while the picture is taken.
    """
    return re.sub(r"\b\d+ s ago", "just now", str(visit.page.evaluate(_WORDS, height)))


def note_of(words: str) -> PngImagePlugin.PngInfo:
    """Return what a picture's file says of its words."""
    note = PngImagePlugin.PngInfo()
    note.add_text(WORDS, hashlib.sha256(words.encode()).hexdigest())
    return note


def digest_in(path: Path) -> str:
    """Return the digest that a picture's file carries, '' for none."""
    with Image.open(path) as picture:
        return str(getattr(picture, "text", {}).get(WORDS, ""))


def blank_regions(picture: Image.Image, regions: Mapping[str, Box]) -> Sequence[str]:
    """Return the regions that have hardly a shade: nothing is drawn there."""
    grey = picture.convert("L")
    return [name for name, box in regions.items() if np.count_nonzero(grey.crop(box).histogram()) < LEAST_SHADES]


def share_that_differs(left: Image.Image, right: Image.Image) -> float:
    """Return how much of two pictures of one size looks different, in coarse blocks."""
    if left.size != right.size:
        return 1.0
    return float(np.mean(np.abs(_blocks(left) - _blocks(right)) > _MOST_SHADES_APART))


def _blocks(picture: Image.Image) -> Shades:
    rows, columns = (size // _BLOCK_PIXELS for size in (picture.height, picture.width))
    shades = np.asarray(picture.convert("L"), dtype=np.float64)[: rows * _BLOCK_PIXELS, : columns * _BLOCK_PIXELS]
    blocks: Shades = shades.reshape(rows, _BLOCK_PIXELS, columns, _BLOCK_PIXELS).mean(axis=(1, 3))
    return blocks
