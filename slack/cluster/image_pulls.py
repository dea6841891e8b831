"""What a kubelet's Event `Pulled` says: which image, how long its pull took, and how large it is.

The text differs by release of Kubernetes (pkg/kubelet/images/image_manager.go):
1. up to 1.25: `Successfully pulled image "a:1" in 1.2s`
2. from 1.26: `Successfully pulled image "a:1" in 1.2s (2.5s including waiting)`
3. from 1.30: `... (2.5s including waiting). Image size: 123 bytes.`
4. an image that is there: `Container image "a:1" already present on machine`, from 1.35 on with
   `and can be accessed by the pod`.
The waiting is for other pulls of the node; the pod waits for it too, so it counts. Pure.
"""

import re
from dataclasses import dataclass

from slack.cluster import wire

PULLED = "Pulled"
"""The reason of such an Event."""
PULLED_EVENTS = f"reason={PULLED},involvedObject.kind=Pod"
"""The field selector of them."""
_TEXT = re.compile(
    r'Successfully pulled image "(?P<image>[^"]*)" in (?P<alone>[0-9.a-zµμ]+)'
    r"(?: \((?P<whole>[0-9.a-zµμ]+) including waiting\))?(?:\. Image size: (?P<bytes>\d{1,15}) bytes)?"
)
_PRESENT = re.compile(r'Container image "(?P<image>[^"]*)" already present on machine')
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(h|ms|m|s|us|µs|μs|ns)")
_UNIT_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_LONGEST_TEXT = 4096


@dataclass(frozen=True, slots=True)
class ImagePull:
    """One image of one container of a pod."""

    image: str
    """As the pod names it."""
    seconds: float
    """How long the pod waited for it; 0 for an image that was there."""
    size_bytes: int
    """0 if the kubelet does not say, and for an image that was there."""
    present: bool
    """It was there, and nothing was pulled."""


def image_pull(event: wire.Event) -> ImagePull | None:
    """Read an Event; None for one that says nothing of a pulled image."""
    if event.reason != PULLED or not event.message or len(event.message) > _LONGEST_TEXT:
        return None
    if there := _PRESENT.search(event.message):
        return ImagePull(there["image"], 0.0, 0, present=True)
    found = _TEXT.search(event.message)
    seconds = None if found is None else go_seconds(found["whole"] or found["alone"])
    if found is None or seconds is None:
        return None
    return ImagePull(found["image"], seconds, int(found["bytes"] or 0), present=False)


def go_seconds(text: str) -> float | None:
    """Return the seconds of a duration as Go prints it, such as `1m2.5s`; None if it is none."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)
