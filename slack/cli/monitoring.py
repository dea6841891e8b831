"""`monitoring`: rules, alerts and dashboard, the files of charts/resource-slack/{rules,dashboards}."""

from importlib import resources
from typing import Annotated

import typer

from slack.cli.terminal.formats import FileFormat, YamlFile, print_document
from slack.cli.terminal.problems import Command, CommandGroup, UserError

RUNBOOKS = "docs/runbooks"
"""Where the runbook pages are in the project, as the packaged rules name them."""

app = typer.Typer(
    cls=CommandGroup,
    help="Print what Prometheus and Grafana need: rules with alerts, a dashboard.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(cls=Command)
def rules(
    runbooks: Annotated[
        str, typer.Option(help="Address of the folder that holds the runbook pages.", metavar="URL")
    ] = RUNBOOKS,
    output: YamlFile = FileFormat.YAML,
) -> None:
    """Print recording rules and alerts as a Prometheus rule file.

    [bold]Example[/bold]

        resource-slack monitoring rules --runbooks https://wiki.example.com/resource-slack > rules.yaml

        promtool check rules rules.yaml
    """
    import yaml

    if not runbooks.strip():
        raise UserError(
            f"--runbooks: empty; expected an address such as https://wiki.example.com/runbooks or {RUNBOOKS}"
        )
    text = _packaged_text("rules.yaml")
    document = yaml.safe_load(text)
    for rule in (rule for group in document["groups"] for rule in group["rules"] if "alert" in rule):
        page = rule["annotations"]["runbook_url"].removeprefix(RUNBOOKS)
        rule["annotations"]["runbook_url"] = runbooks.strip().rstrip("/") + page
    if output is FileFormat.YAML:
        typer.echo(text.partition("\n")[0])
    print_document(document, output)


@app.command(cls=Command)
def dashboard(
    output: Annotated[
        FileFormat, typer.Option("--output", "-o", help="As what it is printed; Grafana imports json.")
    ] = FileFormat.JSON,
) -> None:
    """Print the Grafana dashboard.

    [bold]Example[/bold]

        resource-slack monitoring dashboard > resource-slack.json
    """
    import json

    print_document(json.loads(_packaged_text("dashboard.json")), output)


def _packaged_text(name: str) -> str:
    """Read a file that comes with the package."""
    return resources.files("slack.monitoring").joinpath(name).read_text(encoding="utf-8")
