"""What can be said of the image without an engine to build it: its Dockerfile beside the files that it names."""

import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text()
STEPS = [
    (word, rest.strip())
    for word, _, rest in (
        line.partition(" ") for line in re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", TEXT)).splitlines() if line
    )
]
STAGES = [number for number, (word, _) in enumerate(STEPS) if word == "FROM"]
COPIED = [
    source for word, rest in STEPS if word == "COPY" and not rest.startswith("--from=") for source in rest.split()[:-1]
]


def test_it_is_built_from_package_registries_alone() -> None:
    assert {word for word, _ in STEPS} <= {
        "ARG", "FROM", "ENV", "WORKDIR", "COPY", "RUN", "LABEL", "USER", "ENTRYPOINT", "CMD"
    }  # fmt: skip
    assert "://" not in TEXT
    for word, rest in STEPS:
        if word == "RUN":
            assert re.match(r"(pip|python -m venv) ", rest), rest
            assert not re.search(r"curl|wget|git|apt|[|;&`$]", rest), rest


def test_every_package_is_locked_and_hashed() -> None:
    installs = [rest for word, rest in STEPS if word == "RUN" and re.search(r"pip (.* )?install ", rest)]
    assert len(installs) == 3
    for command in installs:
        assert "--require-hashes -r requirements/" in command or "--no-deps dist/*.whl" in command, command
    (wheel,) = [rest for word, rest in STEPS if word == "RUN" and "pip wheel" in rest]
    assert "--no-deps --no-build-isolation" in wheel  # isolation would fetch the build's packages without hashes


def test_the_requirements_are_those_that_the_page_about_installing_installs() -> None:
    page = (ROOT / "docs" / "quickstart.md").read_text()
    assert "install --require-hashes -r requirements/run.txt" in page
    assert "install --require-hashes -r requirements/run.txt" in TEXT


PINNED = re.compile(r"[a-z0-9][a-z0-9._/:-]*@sha256:[0-9a-f]{64}")


def test_every_stage_begins_with_an_image_of_one_digest() -> None:
    arguments = dict(rest.partition("=")[::2] for word, rest in STEPS[: STAGES[0]] if word == "ARG")
    assert PINNED.fullmatch(arguments["BASE"]), "a tag may name another image tomorrow: NAME:TAG@sha256:... (image.md)"
    built: set[str] = set()
    for rest in (rest for word, rest in STEPS if word == "FROM"):
        source, _, name = rest.partition(" AS ")
        given = re.sub(r"\$\{(\w+)\}", lambda name: arguments[name[1]], source)
        assert source in built or PINNED.fullmatch(given), rest
        built.add(name)


def test_the_page_about_the_image_says_which_base_it_is_and_where_its_digest_is_from() -> None:
    page = (ROOT / "docs" / "image.md").read_text()
    (base,) = [rest.removeprefix("BASE=") for word, rest in STEPS if word == "ARG" and rest.startswith("BASE=")]
    assert f"`{base.partition('@')[0]}`" in page
    assert base.partition("@sha256:")[2][:12] in page
    assert "docker-library/repo-info" in page


@pytest.mark.parametrize(("given", "taken"), [("", True), ("mirror/python@sha256:1", True), ("mirror/python:3", False)])
def test_ci_builds_on_no_mirror_that_is_not_pinned(tmp_path: Path, given: str, taken: bool) -> None:
    (begin,) = re.findall(r"(?m)^image\(\) \{\n(?:.*\n)*?\}\n", (ROOT / ".ci" / "run").read_text())
    environment = {"PATH": str(tmp_path), **({"IMAGE_BASE": given} if given else {})}
    found = subprocess.run(
        ["/bin/bash", "-c", begin + "image"], env=environment, capture_output=True, text=True, check=False
    )
    assert (found.returncode == 0) is taken, found.stdout + found.stderr
    assert taken or "by digest" in found.stdout


@pytest.mark.parametrize("base", ["FROM ${BASE} AS build", "FROM ${BASE}"])
def test_the_base_can_be_a_mirror(base: str) -> None:
    assert TEXT.index("\nARG BASE=") < TEXT.index(f"\n{base}\n")


def test_the_last_stage_runs_the_command_as_a_numeric_user_that_is_not_root() -> None:
    last = STEPS[STAGES[-1] :]
    words = [word for word, _ in last]
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", dict(last)["USER"])
    assert dict(last)["ENTRYPOINT"] == '["resource-slack"]'
    assert "RUN" not in words
    values = (ROOT / "charts" / "resource-slack" / "values.yaml").read_text()
    assert f"that is the image's, {dict(last)['USER'].partition(':')[0]}," in values  # the chart names none


def allowed(path: str) -> bool:
    """Say whether the ignore file lets a path through: the last line that matches it, or a folder above it, decides."""
    verdict = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        if not line or line.startswith("#"):
            continue
        parts = path.split("/")
        above = ["/".join(parts[: n + 1]) for n in range(len(parts))]
        if any(fnmatch(folder, pattern) or fnmatch(folder, pattern.removeprefix("**/")) for folder in above):
            verdict = line.startswith("!")
    return verdict


@pytest.mark.parametrize("source", COPIED)
def test_what_is_copied_is_there_and_is_sent_to_the_engine(source: str) -> None:
    assert (ROOT / source).exists()
    assert allowed(source)


def test_nothing_else_is_sent() -> None:
    assert not any(allowed(path) for path in (".git/config", "tests/cli/build.py", "requirements/dev.txt", ".env"))
    assert not allowed("slack/__pycache__/a.pyc")
    assert allowed("operator/slack_operator/app.py")
    assert allowed("slack/cli/main.py")


def test_the_page_about_the_image_names_every_build_argument() -> None:
    page = (ROOT / "docs" / "image.md").read_text()
    for word, rest in STEPS:
        if word == "ARG":
            assert f"`{rest.partition('=')[0]}`" in page
