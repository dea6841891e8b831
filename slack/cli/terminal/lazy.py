"""Commands that are loaded when they are run: a help text of all of them, or a key press, takes none of their modules.

The table has each command's line of that help text; a test holds it to the command's own first sentence.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup

from slack.cli.terminal.command_entry import CommandEntry
from slack.cli.terminal.problems import Command, help_text, plain_usage_errors, show_help_of_bare


class LazyGroup(TyperGroup):
    """A program's commands by a table. `commands` loads what is looked up in it; listings take the table's words."""

    entries: ClassVar[Sequence[CommandEntry]] = ()

    def __init__(self, **attrs: Any) -> None:
        """Take the table's commands; what is registered otherwise is none."""
        super().__init__(**attrs)
        self._by_name = {entry.name: entry for entry in self.entries}
        self.commands: Any = _Commands(self._by_name)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the table's order."""
        return list(self._by_name)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return what a listing shows of a command."""
        entry = self._by_name.get(cmd_name)
        return None if entry is None else Command(entry.name, help=entry.summary, rich_help_panel=entry.panel)

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the words before the command."""
        with plain_usage_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Read the command's words, and run it."""
        with plain_usage_errors():
            return super().invoke(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the help text where nothing else is asked for."""
        if show_help_of_bare(self, ctx, args):
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help text in a layout of ours, which cuts nothing."""
        formatter.write(help_text(self, ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command itself, to run it or to complete its words."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and self.commands[name], rest


class _Commands(Mapping[str, Any]):
    """The commands themselves; each is loaded when it is looked up."""

    def __init__(self, entries: Mapping[str, CommandEntry]) -> None:
        self._entries = entries
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(self._entries[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _load(entry: CommandEntry) -> Any:
    module = import_module(entry.module)
    holder = typer.Typer(rich_markup_mode=None, add_completion=False, callback=lambda: None)
    below = getattr(module, "app", None)
    if below is not None:
        holder.add_typer(below, name=entry.name, rich_help_panel=entry.panel)
    else:
        holder.command(entry.name, cls=Command, rich_help_panel=entry.panel)(
            getattr(module, entry.name.replace("-", "_"))
        )
    group: Any = typer.main.get_group(holder)
    return group.commands[entry.name]
