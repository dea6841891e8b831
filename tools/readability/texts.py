"""The texts that users read, and the lists of pages: for users, reference, for maintainers."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tools.readability.sentences import (
    Sentence,
    comment_sentences,
    markdown_sentences,
    plain_sentences,
    template_sentences,
)

ROOT = Path(__file__).resolve().parents[2]
CHART = "charts/resource-slack"
REFERENCE = (
    "docs/reference",
    "docs/details",
    "docs/runbooks",
    "docs/glossary.md",
    "docs/performance.md",
    "charts/resource-slack/README.md",
)
"""Pages and folders that people search, and do not read from the top."""
RUNBOOKS = "docs/runbooks"
"""Reference pages too, but read at night: their words are checked, and their length is not counted with the pages."""
MAINTAINERS = (
    "docs/architecture.md",
    "docs/decisions.md",
    "docs/fidelity.md",
    "docs/releasing.md",
    "docs/requirements.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
)
"""Pages for those who change the product: derivations, evidence, procedures."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text for users. A page has a bound of its length; messages and comments have none."""

    name: str
    sentences: tuple[Sentence, ...]
    is_page: bool = False

    @property
    def word_count(self) -> int:
        """How many words a reader meets."""
        return sum(sentence.word_count for sentence in self.sentences)


def below(name: str, places: Iterable[str]) -> bool:
    """Whether a path is one of these files, or in one of these folders."""
    return any(name == place or name.startswith(f"{place}/") for place in places)


def all_pages(root: Path = ROOT) -> list[str]:
    """Every Markdown page of the repository, by its path from the root."""
    found = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "charts").rglob("*.md")]
    return sorted(str(path.relative_to(root)) for path in found)


def user_pages(root: Path = ROOT) -> list[str]:
    """The pages that users read from the top: every page that is neither reference nor for maintainers."""
    return [name for name in all_pages(root) if not below(name, (*REFERENCE, *MAINTAINERS))]


def page_text(name: str, root: Path = ROOT) -> Text:
    """A page with its sentences."""
    return Text(name, tuple(markdown_sentences((root / name).read_text())), is_page=True)


def _helps(command: Any, name: str) -> Iterator[str]:
    """Yield the help of a command, of its options, and of the commands below it."""
    yield from filter(None, [command.help, command.epilog])
    yield from filter(None, (getattr(parameter, "help", None) for parameter in command.params))
    for below_name, inner in getattr(command, "commands", {}).items():
        yield from _helps(inner, f"{name} {below_name}")


def _command_help() -> Iterator[Sentence]:
    import typer

    from slack.cli.commands import app

    root: Any = typer.main.get_command(app)
    for help_text in dict.fromkeys(_helps(root, "resource-slack")):
        yield from plain_sentences(help_text)


def _reasons() -> Iterator[Sentence]:
    from slack_operator.web.reasons import REASONS

    for reason in REASONS:
        for words in (reason.meaning, reason.advice):
            yield from plain_sentences(words)


SOURCES: dict[str, Callable[[], Iterable[Sentence]]] = {
    "help of the command": _command_help,
    "reasons of conditions and Events": _reasons,
    f"{CHART}/values.yaml": lambda: comment_sentences((ROOT / CHART / "values.yaml").read_text()),
    f"{CHART}/templates/NOTES.txt": lambda: template_sentences((ROOT / CHART / "templates" / "NOTES.txt").read_text()),
}
"""Texts for users that are no pages, and what reads them."""


def all_texts() -> list[Text]:
    """Every text that the check covers."""
    pages = [page_text(name) for name in user_pages()]
    runbooks = [replace(page_text(name), is_page=False) for name in all_pages() if below(name, (RUNBOOKS,))]
    return [*pages, *runbooks, *(Text(name, tuple(read())) for name, read in SOURCES.items())]
