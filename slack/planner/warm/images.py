"""Images as values: those that are wanted, and what nodes say of them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slack.cluster.image_names import full_name

UNKNOWN_BYTES = 1 << 30
"""What an image counts as that no node has yet."""


@dataclass(frozen=True, slots=True)
class WantedImage:
    """An image of a workload that is likely to arrive."""

    name: str
    """As the pod has it."""
    workload: str
    share: float
    """Of the arrivals that the policy covers."""


@dataclass(frozen=True, slots=True)
class KnownImages:
    """What the nodes that were read lately say of images, by full name."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    """Of a tag; a tag that has two on different nodes has none here."""

    def size(self, name: str) -> int:
        """Return the bytes of an image."""
        full = full_name(name)
        return self.sizes.get(full) or UNKNOWN_BYTES

    def digest(self, name: str) -> str:
        """Return the digest of an image, '' if it is not known."""
        full = full_name(name)
        return full.partition("@")[2] or self.digests.get(full, "")


def digests_of(images: Iterable[str]) -> set[str]:
    """Return the digests among full names."""
    return {digest for name in images if (digest := name.partition("@")[2])}


def known_images(nodes: Iterable[Iterable[tuple[Sequence[str], int]]]) -> KnownImages:
    """Return what nodes say of images.

    Args:
        nodes: for each node the names of each image, and its bytes.
    """
    sizes: dict[str, int] = {}
    digests: dict[str, set[str]] = {}
    for images in nodes:
        for names, size in images:
            of = digests_of(names)
            for name in names:
                sizes[name] = size
                if "@" not in name:
                    digests.setdefault(name, set()).update(of)
    return KnownImages(sizes, {name: next(iter(of)) for name, of in digests.items() if len(of) == 1})


def wanted_images(
    arrivals: Mapping[str, int],
    images_of: Mapping[str, Sequence[str]],
    *,
    least_share: float,
    named: Sequence[str] = (),
) -> list[WantedImage]:
    """Return the images of the workloads that are likely to arrive, each once, and those that a policy names.

    Args:
        arrivals: of the window, by workload; of workloads that the policy covers.
        images_of: of a workload's newest template or pod.
        least_share: of all arrivals; a workload with less is left out.
        named: by the policy.
    """
    total = sum(arrivals.values())
    found = {full_name(name): WantedImage(name, "", 1.0) for name in named}
    for workload, count in sorted(arrivals.items(), key=lambda pair: (-pair[1], pair[0])):
        if not total or count < least_share * total:
            break
        for name in images_of.get(workload, ()):
            found.setdefault(full_name(name), WantedImage(name, workload, count / total))
    return list(found.values())
