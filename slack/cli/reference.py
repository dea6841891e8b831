"""`reference`: every field of a scenario, the text of docs/reference/scenario.md."""

import typer


def reference() -> None:
    """Print the reference of a scenario's fields: types, defaults, upstream's names and defaults, examples.

    [bold]Example[/bold]

        resource-slack reference | less
    """
    from slack.simulator.reference import reference as written

    typer.echo(written(), nl=False)


if __name__ == "__main__":
    reference()
