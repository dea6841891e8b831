"""`monitoring`: rules, alerts and dashboards, the files of charts/resource-slack/{rules,dashboards}."""

from collections.abc import Mapping
from enum import StrEnum
from importlib import resources
from typing import Annotated, Any

import typer

from slack.cli.terminal.formats import FileFormat, YamlFile, print_document
from slack.cli.terminal.problems import Command, CommandGroup, UserError

RUNBOOKS = "docs/runbooks"
"""Where the runbook pages are in the project, as the packaged rules name them."""


class MonitoredComponent(StrEnum):
    """What a release may have; each has rules and a dashboard of its own."""

    OPERATOR = "operator"
    AUDIT = "audit"
    SCORER = "scorer"
    THROTTLER = "throttler"
    DEMAND = "demand"


RULE_GROUPS: Mapping[MonitoredComponent, tuple[str, ...]] = {
    MonitoredComponent.OPERATOR: ("resource-slack.recording", "resource-slack.operator", "resource-slack.policies"),
    MonitoredComponent.AUDIT: ("resource-slack.cpu-limits",),
    MonitoredComponent.SCORER: ("resource-slack.scoring", "resource-slack.load-watcher"),
    MonitoredComponent.THROTTLER: ("resource-slack.throttler",),
    MonitoredComponent.DEMAND: ("resource-slack.demand",),
}
"""The groups of the rule file that belong to a component: an alert on what is not installed would be false."""

app = typer.Typer(
    cls=CommandGroup,
    help="Print what Prometheus and Grafana need: rules with alerts, and dashboards.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(cls=Command)
def rules(
    component: Annotated[
        list[MonitoredComponent] | None,
        typer.Option(
            help="Rules of this component; may be repeated. Without it: rules of all, but no alert that a component is "
            "absent, because nothing says which ones you run."
        ),
    ] = None,
    runbooks: Annotated[
        str, typer.Option(help="Address of the folder that holds the runbook pages.", metavar="URL")
    ] = RUNBOOKS,
    output: YamlFile = FileFormat.YAML,
) -> None:
    """Print recording rules and alerts as a Prometheus rule file.

    [bold]Example[/bold]

        resource-slack monitoring rules --component operator --runbooks https://wiki.example.com/slack > rules.yaml

        promtool check rules rules.yaml
    """
    import yaml

    if not runbooks.strip():
        raise UserError(
            f"--runbooks: empty; expected an address such as https://wiki.example.com/runbooks or {RUNBOOKS}"
        )
    document = yaml.safe_load(_packaged_text("rules.yaml"))
    if component:
        wanted = {name for chosen in component for name in RULE_GROUPS[chosen]}
        document["groups"] = [group for group in document["groups"] if group["name"] in wanted]
    else:
        for group in document["groups"]:
            group["rules"] = [rule for rule in map(_without_absence, group["rules"]) if rule is not None]
    for rule in (rule for group in document["groups"] for rule in group["rules"] if "alert" in rule):
        page = rule["annotations"]["runbook_url"].removeprefix(RUNBOOKS)
        rule["annotations"]["runbook_url"] = runbooks.strip().rstrip("/") + page
    if output is FileFormat.YAML:
        typer.echo("# Recording rules and alerts of resource-slack.")
        if not component:
            typer.echo("# Without alerts that a component is absent: --component COMPONENT adds those of what you run.")
    print_document(document, output)


def _without_absence(rule: dict[str, Any]) -> dict[str, Any] | None:
    """Return a rule that says nothing of series that are not there; None if it is about nothing else.

    A component that was never installed has no series either, and an alert on them would fire for ever.
    """
    expression = str(rule["expr"])
    if "alert" not in rule or "absent(" not in expression:
        return rule
    rest = " or ".join(part for part in expression.split(" or ") if not part.startswith("absent("))
    return {**rule, "expr": rest} if rest else None


@app.command(cls=Command)
def dashboard(
    component: Annotated[
        MonitoredComponent,
        typer.Argument(help="Whose: operator, audit, scorer, throttler or demand.", metavar="[COMPONENT]"),
    ] = MonitoredComponent.OPERATOR,
    output: Annotated[
        FileFormat, typer.Option("--output", "-o", help="As what it is printed; Grafana imports json.")
    ] = FileFormat.JSON,
) -> None:
    """Print the Grafana dashboard of a component.

    [bold]Example[/bold]

        resource-slack monitoring dashboard > resource-slack.json

        resource-slack monitoring dashboard audit > cpu-limits.json
    """
    import json

    print_document(json.loads(_packaged_text(f"dashboards/{component}.json")), output)


def _packaged_text(name: str) -> str:
    """Read a file that comes with the package."""
    return resources.files("slack.monitoring").joinpath(name).read_text(encoding="utf-8")
