"""What can be said of the image without an engine to build it: its Dockerfile beside the files that it names."""

import re
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


def test_the_requirements_are_those_that_the_readme_installs() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "install --require-hashes -r requirements/run.txt" in readme
    assert "install --require-hashes -r requirements/run.txt" in TEXT


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
    assert (
        "runAsUser: " + dict(last)["USER"].partition(":")[0]
        in (ROOT / "charts" / "resource-slack" / "templates" / "_helpers.tpl").read_text()
    )


def allowed(path: str) -> bool:
    """Say whether the ignore file lets a path through: the last line that matches it, or a folder above it, decides."""
    verdict = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        if not line or line.startswith("#"):
            continue
        parts = path.split("/")
        above = ["/".join(parts[: n + 1]) for n in range(len(parts))]
        if any(fnmatch(one, pattern) or fnmatch(one, pattern.removeprefix("**/")) for one in above):
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
