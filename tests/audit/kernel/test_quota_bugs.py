"""The table of kernels, row by row, and the traps in their names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.audit.kernel.quota_bugs import Bug, Confidence, KernelState, kernel_features, kernel_verdict
from slack.audit.kernel.releases import SERIES, VENDORS
from tests.audit.build import present
from tests.cases import run_for_each

BUSTER = (
    "Linux version 4.19.0-6-amd64 (debian-kernel@lists.debian.org) (gcc version 8.3.0 (Debian 8.3.0-6)) "
    "#1 SMP Debian {} (2019-11-11)"
)
BEFORE_AND_AFTER = [
    ("mainline", "5.3.0-rc8", "5.4.0-rc1", Bug.SLICE_EXPIRY),
    ("5.3.y", "5.3.8", "5.3.9", Bug.SLICE_EXPIRY),
    ("4.19.y", "4.19.83", "4.19.84", Bug.SLICE_EXPIRY),
    ("4.14.y", "4.14.153", "4.14.154", Bug.EITHER),
    ("Ubuntu 4.15", "4.15.0-66-generic", "4.15.0-67-generic", Bug.EITHER),
    ("Ubuntu 5.3", "5.3.0-23-generic", "5.3.0-24-generic", Bug.SLICE_EXPIRY),
    ("Ubuntu 5.0", "5.0.0-37-generic", "5.0.0-38-generic", Bug.SLICE_EXPIRY),
    ("Ubuntu aws", "5.0.0-1022-aws", "5.0.0-1023-aws", Bug.SLICE_EXPIRY),
    ("Ubuntu azure", "5.0.0-1027-azure", "5.0.0-1028-azure", Bug.SLICE_EXPIRY),
    ("Ubuntu gke", "5.0.0-1026-gke", "5.0.0-1027-gke", Bug.SLICE_EXPIRY),
    ("Ubuntu gcp", "5.0.0-1027-gcp", "5.0.0-1028-gcp", Bug.SLICE_EXPIRY),
    ("Ubuntu oracle", "5.0.0-1008-oracle", "5.0.0-1009-oracle", Bug.SLICE_EXPIRY),
    ("Ubuntu oem-osp1", "5.0.0-1032-oem-osp1", "5.0.0-1033-oem-osp1", Bug.SLICE_EXPIRY),
    ("Ubuntu kvm", "5.0.0-1023-kvm", "5.0.0-1024-kvm", Bug.SLICE_EXPIRY),
    ("Ubuntu raspi2", "5.0.0-1023-raspi2", "5.0.0-1024-raspi2", Bug.SLICE_EXPIRY),
    ("RHEL 7", "3.10.0-1062.7.1.el7.x86_64", "3.10.0-1062.8.1.el7.x86_64", Bug.EITHER),
    ("RHEL 8", "4.18.0-147.0.3.el8_1.x86_64", "4.18.0-147.2.1.el8_1.x86_64", Bug.SLICE_EXPIRY),
    ("CentOS Plus", "3.10.0-1062.el7.centos.plus.x86_64", "4.18.0-240.el8.centos.plus.x86_64", Bug.EITHER),
    ("TencentOS", "4.14.105-19-0012", "4.14.105-19-0013", Bug.EITHER),
    ("Amazon Linux 2", "4.14.146-119.123.amzn2.x86_64", "4.14.154-128.181.amzn2.x86_64", Bug.EITHER),
    ("Container-Optimized OS", "4.19.76+", "4.19.84+", Bug.SLICE_EXPIRY),
    ("CoreOS", "4.19.78-coreos", "4.19.84-coreos", Bug.SLICE_EXPIRY),
    ("CoreOS 4.19.81", "4.19.81-coreos", "4.19.81-coreos-r1", Bug.SLICE_EXPIRY),
    ("CoreOS 4.19.82", "4.19.80-coreos-r2", "4.19.82-coreos", Bug.SLICE_EXPIRY),
    ("CoreOS 4.19.83", "4.19.81-coreos-r0", "4.19.83-coreos-r1", Bug.SLICE_EXPIRY),
    ("Flatcar", "4.19.81-flatcar", "4.19.84-flatcar", Bug.SLICE_EXPIRY),
]


@run_for_each(("row", "before", "after", "bug"), BEFORE_AND_AFTER, ids=[row[0] for row in BEFORE_AND_AFTER])
def test_a_row_of_the_table(row: str, before: str, after: str, bug: Bug) -> None:
    bad, good = kernel_verdict(before), kernel_verdict(after)
    assert (bad.state, bad.bug) == (KernelState.AFFECTED, bug), row
    assert (good.state, good.bug) == (KernelState.FIXED, None), row
    assert bad.why
    assert bad.source
    assert bad.fixed_in
    assert good.source


@pytest.mark.parametrize("release", ["4.18.20", "4.20.17", "5.0.21", "5.1.21", "5.2.21"])
def test_series_that_ended_without_the_fix(release: str) -> None:
    verdict = kernel_verdict(release)
    assert (verdict.state, verdict.bug, verdict.fixed_in) == (KernelState.AFFECTED, Bug.SLICE_EXPIRY, None)


@pytest.mark.parametrize("release", ["4.4.302", "4.9.337", "4.15.18"])
def test_before_4_18_it_is_the_clock_drift_and_not_quite_sure(release: str) -> None:
    verdict = kernel_verdict(release)
    assert (verdict.state, verdict.bug, verdict.confidence) == (
        KernelState.AFFECTED,
        Bug.CLOCK_DRIFT,
        Confidence.MEDIUM,
    )


def test_3_16_took_the_first_fix_back() -> None:
    assert kernel_verdict("3.16.80").bug is Bug.EITHER
    assert kernel_verdict("3.16.81").bug is Bug.CLOCK_DRIFT


@pytest.mark.parametrize("release", ["3.15.10", "2.6.39", "3.2.102"])
def test_older_than_both_bugs(release: str) -> None:
    assert kernel_verdict(release).state is KernelState.NEVER_HAD_IT


@pytest.mark.parametrize(
    "release", ["6.18.44", "5.4.0-42-generic", "5.14.0-427.el9.x86_64", "6.1.0-13-amd64", "5.10.0-1-anything"]
)
def test_all_that_was_made_after_5_4_is_fixed_whoever_made_it(release: str) -> None:
    assert kernel_verdict(release).state is KernelState.FIXED


@run_for_each(
    "release",
    [
        "4.15.0-1064-azure",
        "4.15.0-1064-aws",
        "4.15.0-99-lowlatency",
        "5.3.0-1007-gcp",
        "4.4.0-170-generic",
        "4.14.35-1902.8.4.el7uek.x86_64",
        "4.12.14-122.12-default",
        "5.3.8-300.fc31.x86_64",
        "2.6.32-754.el6.x86_64",
        "4.14.105-1-tlinux3-0013",
        "4.19.84-microsoft-standard",
    ],
)
def test_a_number_of_another_flavour_or_vendor_says_nothing(release: str) -> None:
    verdict = kernel_verdict(release)
    assert (verdict.state, verdict.bug, verdict.confidence, verdict.source) == (KernelState.UNKNOWN, None, None, None)
    assert "CVE-2019-19922" in present(verdict.ask)
    assert "uname -v" in present(verdict.ask)
    assert release in present(verdict.ask)


@pytest.mark.parametrize("release", ["4.19.0-6-amd64", "4.19.0-6-cloud-amd64", "4.14.0-3-amd64", "5.3.0-2-arm64"])
def test_debians_uname_r_is_not_enough_where_the_patch_level_decides(release: str) -> None:
    verdict = kernel_verdict(release)
    assert verdict.state is KernelState.UNKNOWN
    assert "uname -v" in present(verdict.ask)


@pytest.mark.parametrize(
    ("release", "state", "bug"),
    [
        ("4.9.0-11-amd64", KernelState.AFFECTED, Bug.CLOCK_DRIFT),
        ("4.9.0-0.bpo.12-arm64", KernelState.AFFECTED, Bug.CLOCK_DRIFT),
        ("4.16.0-2-amd64", KernelState.AFFECTED, Bug.CLOCK_DRIFT),
        ("4.18.0-3-amd64", KernelState.AFFECTED, Bug.SLICE_EXPIRY),
        ("3.16.0-11-amd64", KernelState.AFFECTED, Bug.EITHER),
        ("3.2.0-4-amd64", KernelState.NEVER_HAD_IT, None),
    ],
)
def test_debians_uname_r_is_enough_where_a_whole_series_is_in_one_state(
    release: str, state: KernelState, bug: Bug | None
) -> None:
    verdict = kernel_verdict(release)
    assert (verdict.state, verdict.bug, verdict.ask, verdict.fixed_in) == (state, bug, None, None)
    assert verdict.confidence is Confidence.MEDIUM, "Debian may have taken a fix of its own"
    assert ".0 is " not in verdict.why, "the ABI's name is told as a patch level"
    assert "999" not in verdict.why
    assert verdict.source


@given(st.sampled_from(sorted({line.series for line in SERIES})), st.integers(0, 400))
def test_what_is_said_of_a_whole_series_holds_at_every_patch_level(series: tuple[int, int], patch: int) -> None:
    name = f"{series[0]}.{series[1]}"
    whole = kernel_verdict(f"{name}.0-1-amd64")
    one = kernel_verdict(f"{name}.0-1-amd64", f"#1 SMP Debian {name}.{patch}-1 (2020-01-26)")
    if whole.state is not KernelState.UNKNOWN:
        assert whole.state is one.state
        assert whole.bug in (one.bug, Bug.EITHER)


@pytest.mark.parametrize(
    ("version", "state"),
    [("4.19.67-2+deb10u2", KernelState.AFFECTED), ("4.19.98-1", KernelState.FIXED), ("nothing", KernelState.UNKNOWN)],
)
def test_debians_version_text_decides_and_its_compilers_version_does_not(version: str, state: KernelState) -> None:
    assert kernel_verdict("4.19.0-6-amd64", BUSTER.format(version)).state is state


def test_uname_v_alone_is_enough_for_debian() -> None:
    assert kernel_verdict("4.19.0-8-amd64", "#1 SMP Debian 4.19.98-1 (2020-01-26)").state is KernelState.FIXED


def test_an_older_stream_of_a_vendor_is_less_sure() -> None:
    assert kernel_verdict("3.10.0-957.el7.x86_64").confidence is Confidence.MEDIUM
    assert kernel_verdict("3.10.0-1062.el7.x86_64").confidence is Confidence.HIGH


@pytest.mark.parametrize("release", ["", "linux", "v5.4", "10", "5", "\n"])
def test_what_is_no_release_is_unknown_and_asks_for_one(release: str) -> None:
    verdict = kernel_verdict(release)
    assert (verdict.state, verdict.ask) == (KernelState.UNKNOWN, "uname -r")


def test_every_line_has_its_source() -> None:
    assert all([line.source for line in SERIES] + [vendor.source for vendor in VENDORS])
    assert len({line.series for line in SERIES}) == len(SERIES)


KEEP_KERNEL_ORGS_NUMBERS = {
    "kernel.org, Bottlerocket, minikube": "{version}",
    "a candidate": "{series}.{patch}-rc{build}",
    "Container-Optimized OS": "{version}+",
    "CoreOS": "{version}-coreos",
    "Flatcar": "{version}-flatcar",
    "Flatcar, rebuilt": "{version}-flatcar-r{build}",
    "Amazon Linux 1": "{version}-{build}.77.amzn1.x86_64",
    "Amazon Linux 2": "{version}-{build}.257.amzn2.x86_64",
    "Amazon Linux 2, Arm": "{version}-{build}.192.amzn2.aarch64",
    "ELRepo": "{version}-{build}.el7.elrepo.x86_64",
    "Talos": "{version}-talos",
    "LinuxKit": "{version}-linuxkit",
    "Alpine": "{version}-{build}-lts",
}
"""Releases of distributions whose patch level is kernel.org's."""
KEEP_OTHERS = {
    "Ubuntu": "{series}.0-{build}-generic",
    "Ubuntu, cloud": "{series}.0-10{build:02}-aws",
    "RHEL 7": "3.10.0-{build}.{patch}.1.el7.x86_64",
    "RHEL 8": "4.18.0-{build}.{patch}.1.el8_1.x86_64",
    "RHEL 8, real time": "4.18.0-{build}.rt24.{patch}.el8_1.x86_64",
    "Oracle UEK": "4.14.35-{build}.{patch}.1.el7uek.x86_64",
    "SUSE": "4.12.14-{build}.{patch}-default",
    "SUSE, Azure": "5.3.18-{build}.{patch}-azure",
    "Debian": "{series}.0-{build}-amd64",
    "Debian, backported": "{series}.0-0.bpo.{build}-cloud-amd64",
    "Fedora": "{version}-{build}.fc31.x86_64",
    "WSL": "{version}-microsoft-standard",
    "Tencent": "4.14.105-19-00{build:02}",
    "a build of one's own": "{version}-dirty",
}
"""Releases whose patch level says nothing, or something else."""
KNOWN_SERIES = st.sampled_from(sorted({line.series for line in SERIES} | {(3, 10), (4, 15), (5, 3)}))


def named(form: str, series: tuple[int, int], patch: int, build: int) -> str:
    name = f"{series[0]}.{series[1]}"
    return form.format(series=name, patch=patch, version=f"{name}.{patch}", build=build)


@given(st.sampled_from(sorted(KEEP_KERNEL_ORGS_NUMBERS)), KNOWN_SERIES, st.integers(0, 400), st.integers(1, 40))
def test_a_distribution_that_keeps_the_patch_level_is_judged_by_it(
    name: str, series: tuple[int, int], patch: int, build: int
) -> None:
    """CoreOS had the fix one patch level before kernel.org, and its releases from there on have lines of their own."""
    release = named(KEEP_KERNEL_ORGS_NUMBERS[name], series, patch, build)
    verdict, plain = kernel_verdict(release), kernel_verdict(named("{version}", series, patch, build))
    if name == "CoreOS" and (series, patch) in {((4, 19), 82), ((4, 19), 83)}:
        assert verdict.state is KernelState.FIXED
        return
    assert (verdict.state, verdict.bug) == (plain.state, plain.bug), release
    assert verdict.ask is None


@given(
    st.sampled_from(sorted(KEEP_KERNEL_ORGS_NUMBERS | KEEP_OTHERS)),
    st.tuples(st.sampled_from([5, 6, 7]), st.integers(0, 30)).filter(lambda series: series >= (5, 4)),
    st.integers(0, 400),
    st.integers(1, 40),
)
def test_whatever_a_distribution_calls_it_a_series_after_the_fix_has_it(
    name: str, series: tuple[int, int], patch: int, build: int
) -> None:
    form = (KEEP_KERNEL_ORGS_NUMBERS | KEEP_OTHERS)[name]
    if "{series}" in form or "{version}" in form:
        assert kernel_verdict(named(form, series, patch, build)).state is KernelState.FIXED


@given(
    st.sampled_from(sorted(KEEP_OTHERS)),
    KNOWN_SERIES,
    st.integers(0, 20),
    st.lists(st.integers(1, 2000), min_size=2, max_size=6).map(sorted),
)
def test_no_later_build_of_a_distribution_is_said_to_have_lost_a_fix(
    name: str, series: tuple[int, int], patch: int, builds: list[int]
) -> None:
    verdicts = [kernel_verdict(named(KEEP_OTHERS[name], series, patch, build)) for build in builds]
    states = [verdict.state for verdict in verdicts if verdict.state is not KernelState.UNKNOWN]
    assert states == sorted(states, key=lambda state: state is KernelState.FIXED)
    for verdict in verdicts:
        assert verdict.source or verdict.ask, "what is not known says what to ask for"
        assert (verdict.bug is not None) == (verdict.state is KernelState.AFFECTED)


@given(KNOWN_SERIES, st.integers(0, 400))
def test_the_patch_level_of_a_distribution_with_its_own_numbers_is_not_taken_for_kernel_orgs(
    series: tuple[int, int], patch: int
) -> None:
    for name in ("Fedora", "WSL", "a build of one's own"):
        verdict = kernel_verdict(named(KEEP_OTHERS[name], series, patch, 1))
        assert verdict.state is KernelState.UNKNOWN
        assert "uname -v" in present(verdict.ask)


@given(st.text(max_size=60), st.text(max_size=80))
def test_any_text_has_a_verdict(release: str, version: str) -> None:
    verdict = kernel_verdict(release, version)
    assert verdict.why
    assert (verdict.state is KernelState.UNKNOWN) == bool(verdict.ask)
    assert (verdict.state is KernelState.AFFECTED) == (verdict.bug is not None)
    kernel_features(release)


@given(st.from_regex(r"[2-6]\.[0-9]{1,2}\.[0-9]{1,3}(-[a-z0-9.]{0,12})?", fullmatch=True), st.text(max_size=20))
def test_any_release_has_a_verdict(release: str, version: str) -> None:
    assert (kernel_verdict(release, version).state is KernelState.UNKNOWN) == bool(kernel_verdict(release, version).ask)


def test_features_by_version() -> None:
    new, old, vendor = kernel_features("6.18.44"), kernel_features("5.13.19"), kernel_features("4.18.0-553.el8.x86_64")
    assert [new.burst.present, new.burst_statistics.present, new.stat_local.present] == [True, True, True]
    assert [old.burst.present, old.burst_statistics.present, old.stat_local.present] == [False, False, False]
    assert vendor.burst.present is None
    assert kernel_features("nonsense").burst.present is None


@pytest.mark.parametrize(
    ("release", "burst", "statistics", "local", "survives"),
    [
        ("5.14.0", True, False, False, False),
        ("5.15.0", True, True, False, False),
        ("6.1.0-13-amd64", True, True, False, False),
        ("6.6.1", True, True, True, False),
        ("6.10.0", True, True, True, True),
    ],
)
def test_the_version_that_brought_a_feature(
    release: str, burst: bool, statistics: bool, local: bool, survives: bool
) -> None:
    features = kernel_features(release)
    found = (features.burst, features.burst_statistics, features.stat_local, features.burst_survives_quota)
    assert [feature.present for feature in found] == [burst, statistics, local, survives]
    assert features.burst.confidence is Confidence.HIGH
    assert features.task_throttling.confidence is Confidence.LOW


@pytest.mark.parametrize("release", ["10.0.20348.2031", "10.0.17763.5329", "10.0.26100"])
def test_a_windows_build_is_not_judged_as_a_linux_kernel(release: str) -> None:
    verdict = kernel_verdict(release)
    assert verdict.state is KernelState.UNKNOWN
    assert "Windows" in verdict.why
    assert not verdict.ask
    assert kernel_verdict("10.0.1").state is KernelState.FIXED
