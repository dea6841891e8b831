"""The kernel table: which release of which series has the fix of the CFS quota bugs, line by line, with its source.

Two bugs. Clock drift: 51f2176d74ac (3.16-rc1) until 512ac999d275 (4.18); its side effect was that slices of quota
never expired. Slice expiry (CVE-2019-19922): 512ac999d275 (4.18, and where it was ported back) until de53fd7aedb1
(5.4-rc1); quota that one CPU holds and does not use is lost at the period's end, so cgroups stop with quota left.
"""

import re
from dataclasses import dataclass

from slack.audit.kernel.states import Bug, Confidence

MAINLINE_FIXED = (5, 4)
MAINLINE_SOURCE = "de53fd7aedb1 in 5.4-rc1 (LKML; LWN 792268)"
FIRST_DRIFT = (3, 16)
DRIFT_SOURCE = "51f2176d74ac (3.16-rc1), 512ac999d275 (4.18)"


@dataclass(frozen=True, slots=True)
class Series:
    """A series of kernel.org, and of distributions that keep its numbers."""

    series: tuple[int, int]
    fixed: int | None
    """The first patch level that is good; None for a series that ended without."""
    bug: Bug
    """Of the releases before."""
    source: str
    confidence: Confidence = Confidence.HIGH
    after: Bug | None = None
    """What the releases from `fixed` on have instead: where the first bug's fix was taken back."""


SERIES = (
    Series((5, 3), 9, Bug.SLICE_EXPIRY, "ChangeLog-5.3.9; CVE-2019-19922"),
    Series((4, 19), 84, Bug.SLICE_EXPIRY, "LKML, 4.19 review 066/125, 2019-11-11"),
    Series((4, 14), 154, Bug.EITHER, "LKML, [PATCH v4.14.y]; rancher/os#2972"),
    Series(
        (3, 16),
        81,
        Bug.EITHER,
        "LKML, 3.16 review 58/63 (the fix of the clock drift was reverted as unsuitable for stable)",
        Confidence.MEDIUM,
        after=Bug.CLOCK_DRIFT,
    ),
    *(
        Series(series, None, Bug.SLICE_EXPIRY, "ended before de53fd7aedb1 (5.4-rc1) was ported back")
        for series in ((4, 18), (4, 20), (5, 0), (5, 1), (5, 2))
    ),
    *(
        Series(
            series,
            None,
            Bug.CLOCK_DRIFT,
            "never got de53fd7aedb1; whether 512ac999d275 was ported back is not established",
            Confidence.MEDIUM,
        )
        for series in ((4, 4), (4, 9))
    ),
)


@dataclass(frozen=True, slots=True)
class Vendor:
    """Releases of a distribution with numbers of its own."""

    name: str
    pattern: re.Pattern[str]
    """Of the whole `uname -r`; the group `number` is compared with `fixed`, number by number."""
    fixed: tuple[int, ...]
    bug: Bug
    """Of the releases before."""
    source: str
    confidence: Confidence = Confidence.HIGH
    digits: int = 1
    """With how many a release writes its number, at least."""

    @property
    def fixed_text(self) -> str:
        """The first good number, as the release writes it."""
        return ".".join(f"{number:0{self.digits}}" for number in self.fixed)


_INDEED = "Indeed Engineering's list of fixed kernels"
_USN = "USN-4226-1"
_COREOS = "coreos-overlay 3790, 3796, 3800: ported back to 4.19.81-r1, before kernel.org's 4.19.84"


def _ubuntu(base: str, flavour: str, number: int, bug: Bug, source: str) -> Vendor:
    pattern = re.compile(rf"{re.escape(base)}-(?P<number>[0-9]+)-{flavour}")
    return Vendor(f"Ubuntu {flavour} {base}", pattern, (number,), bug, source)


VENDORS = (
    _ubuntu("4.15.0", "generic", 67, Bug.EITHER, f"{_INDEED}; {_USN}"),
    _ubuntu("5.3.0", "generic", 24, Bug.SLICE_EXPIRY, f"{_INDEED}; {_USN}"),
    _ubuntu("5.0.0", "generic", 38, Bug.SLICE_EXPIRY, f"{_INDEED}; {_USN}"),
    *(
        _ubuntu("5.0.0", flavour, number, Bug.SLICE_EXPIRY, _USN)
        for flavour, number in (
            ("aws", 1023),
            ("azure", 1028),
            ("gke", 1027),
            ("gcp", 1028),
            ("oracle", 1009),
            ("oem-osp1", 1033),
            ("kvm", 1024),
            ("raspi2", 1024),
        )
    ),
    Vendor(
        "RHEL 7",
        re.compile(r"3\.10\.0-(?P<number>[0-9]+(?:\.[0-9]+)*)\.el7(?:\.centos\.plus)?(?:\.[a-z0-9_]+)?"),
        (1062, 8, 1),
        Bug.EITHER,
        f"{_INDEED}, two independent copies",
    ),
    Vendor(
        "RHEL 8",
        re.compile(r"4\.18\.0-(?P<number>[0-9]+(?:\.[0-9]+)*)\.el8(?:_[0-9]+)?(?:\.centos\.plus)?(?:\.[a-z0-9_]+)?"),
        (147, 2, 1),
        Bug.SLICE_EXPIRY,
        f"{_INDEED}, two independent copies",
    ),
    Vendor(
        "CoreOS 4.19.81",
        re.compile(r"4\.19\.81-coreos-r(?P<number>[0-9]+)"),
        (1,),
        Bug.SLICE_EXPIRY,
        _COREOS,
        Confidence.MEDIUM,
    ),
    Vendor(
        "CoreOS 4.19",
        re.compile(r"4\.19\.(?P<number>8[23])-coreos(?:-r[0-9]+)?"),
        (82,),
        Bug.SLICE_EXPIRY,
        _COREOS,
        Confidence.MEDIUM,
    ),
    Vendor(
        "TencentOS",
        re.compile(r"4\.14\.105-19-(?P<number>[0-9]{4})(?:[.-].*)?"),
        (13,),
        Bug.EITHER,
        "imroc's Kubernetes handbook",
        Confidence.MEDIUM,
        digits=4,
    ),
)

KEEPS_UPSTREAM = (
    ("Amazon Linux", re.compile(r"-[0-9.]+\.amzn[12](?:\.[a-z0-9_]+)?")),
    ("Container-Optimized OS", re.compile(r"\+")),
    ("CoreOS or Flatcar", re.compile(r"-(?:coreos|flatcar)(?:-r[0-9]+)?")),
    ("ELRepo", re.compile(r"-[0-9]+\.el[678]\.elrepo(?:\.[a-z0-9_]+)?")),
    ("LinuxKit", re.compile(r"-linuxkit")),
    ("Talos", re.compile(r"-talos")),
    ("Alpine", re.compile(r"-[0-9]+-(?:lts|virt|vanilla)")),
)
"""Distributions whose names keep kernel.org's patch level, by what follows it."""

DEBIAN = re.compile(
    r"(?P<series>[0-9]+\.[0-9]+)\.0-(?:0\.bpo\.)?[0-9]+(?:\.[a-z0-9.]+)?(?:-[a-z0-9]+)*"
    r"-(?:amd64|arm64|armmp|armmp-lpae|686|686-pae|s390x|powerpc64le|marvell|rpi)"
)
"""Debian's `uname -r` has the series and the ABI's number, no patch level: 4.19.0-6-amd64."""
DEBIAN_VERSION = r"Debian (?P<version>{series}\.[0-9]+)[-+~]"
"""In /proc/version, once the series is filled in, as the compiler's version stands there, too."""
