"""What a user can fix: the base class of every error whose text is meant for the person who gave the input.

    Exception
    - UserFacingError            problems and where they are; a command prints it and ends with exit code 2
      - InvalidInput             a value, a file, an object or a message that cannot be used; also a ValueError
        - InvalidPolicy, InvalidSnapshot, InvalidSettings, ...: one class per kind of input
      - KubeError                no usable answer of an API server (`slack.kube.errors`)
      - UserError                flags of a command that do not go together (`slack.cli.terminal.problems`)

Every package may raise them. An exception of another class that reaches a command is a mistake of the program.
"""

from collections.abc import Iterable


class UserFacingError(Exception):
    """Something that the user can fix; each problem says what is wrong and what would be right."""

    def __init__(self, problems: str | Iterable[str], source: str = "") -> None:
        """Join the problems to one text.

        Args:
            problems: One text, or several of the same input.
            source: The file, object or field that they are about; '' where the texts name it.
        """
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        self.source = source
        text = "; ".join(self.problems)
        super().__init__(f"{source}: {text}" if source else text)


class InvalidInput(UserFacingError, ValueError):
    """Input that cannot be used; a subclass says of which kind it is."""
