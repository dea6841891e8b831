"""The commands of `resource-slack` as a table, and the help text of all of them. Only the standard library is loaded.

A command's module is loaded when the command is run; a test holds each line to the command's own first sentence.
"""

from pathlib import Path

from slack.cli.terminal.command_entry import CommandEntry
from slack.cli.terminal.help_layout import HelpRow, Section, render_help

LOOK, SIZE, CLUSTER, SELF = "Look (reads only)", "Choose a size", "In the cluster", "About the command itself"
"""Panels of the help text, in the order in which people need them."""

ENTRIES = (
    CommandEntry(
        "status",
        "slack.cli.status.command",
        LOOK,
        "Show whether the reserved capacity is in place, and how to fix it if not.",
    ),
    CommandEntry(
        "plan", "slack.cli.plan", LOOK, "Show what slack would be kept. A dry run: nothing is written anywhere."
    ),
    CommandEntry(
        "explain",
        "slack.cli.explain",
        LOOK,
        "Show which placeholder has the capacity for a workload's next pod, or why none does.",
    ),
    CommandEntry(
        "simulate",
        "slack.cli.simulation.simulate",
        SIZE,
        "Play a scenario: how fast its pods start, and what that costs.",
    ),
    CommandEntry(
        "tune",
        "slack.cli.simulation.tune",
        SIZE,
        "Find the cheapest rate with which enough pods start without waiting, and print a SlackPolicy with it.",
    ),
    CommandEntry(
        "record",
        "slack.cli.simulation.record",
        SIZE,
        "Record the arrivals of pods and the starts of nodes, for `tune --from-trace`.",
    ),
    CommandEntry(
        "migrate",
        "slack.cli.migrate.command",
        SIZE,
        "Print SlackPolicies that replace an overprovisioner or a CapacityBuffer.",
    ),
    CommandEntry(
        "load",
        "slack.cli.load.command",
        CLUSTER,
        "Load a cluster with pods for a while: how fast they start, and whether the extra nodes are removed.",
    ),
    CommandEntry("operator", "slack.cli.operator", CLUSTER, "Run the operator until it is stopped (SIGTERM, Ctrl-C)."),
    CommandEntry(
        "scorer",
        "slack.cli.scorer.command",
        CLUSTER,
        "Score nodes by what is really used there, for the stock kube-scheduler.",
    ),
    CommandEntry(
        "throttler",
        "slack.cli.throttler.command",
        CLUSTER,
        "Limit and order container start-ups: show what waits, check policies, simulate, run the processes.",
    ),
    CommandEntry(
        "demand",
        "slack.cli.demand.command",
        CLUSTER,
        "Scale container pools by queue length: show pools, explain decisions, replay, run the controller.",
    ),
    CommandEntry(
        "crd",
        "slack.cli.crd",
        CLUSTER,
        "Print a CustomResourceDefinition: that of SlackPolicy, or of another kind.",
    ),
    CommandEntry(
        "upgrade-crds",
        "slack.cli.upgrade_crds",
        CLUSTER,
        "Update the CustomResourceDefinitions of a cluster. Those of a newer version stay as they are.",
    ),
    CommandEntry(
        "uninstall",
        "slack.cli.uninstall",
        CLUSTER,
        "Delete the placeholders, their PriorityClass and the lease. Stop the operator first, or name its Deployment.",
    ),
    CommandEntry("help", "slack.cli.help", SELF, "Print the help text of a command."),
    CommandEntry(
        "completion",
        "slack.cli.completion",
        SELF,
        "Print a script that completes commands, flags, values and names of policies.",
    ),
    CommandEntry(
        "schema",
        "slack.cli.schema",
        SELF,
        "Print the JSON schema of what a command prints with `-o json` and `-o yaml`.",
    ),
    CommandEntry("version", "slack.cli.version", SELF, "Print the version."),
    CommandEntry(
        "audit",
        "slack.cli.audit.command",
        LOOK,
        "Show which containers a CPU limit throttles, why, and what to do.",
    ),
    CommandEntry(
        "load-watcher",
        "slack.cli.loadwatcher.command",
        CLUSTER,
        "Show the measured use of nodes, to schedulers and to people.",
    ),
    CommandEntry(
        "monitoring",
        "slack.cli.monitoring",
        CLUSTER,
        "Print what Prometheus and Grafana need: rules with alerts, and dashboards.",
    ),
)
SUMMARY = "Keep spare capacity on autoscaled Kubernetes clusters, so that pods start without waiting for a node."
EPILOG = (
    "Start with a dry run: kubectl get nodes,pods -A -o json | resource-slack plan --snapshot -\n\n"
    "Is my slack there? kubectl slack status"
)
OPTIONS = Section(
    "Options", (HelpRow("--version", "Print the version."), HelpRow("-h, --help", "Show this message and exit."))
)


def program(argv0: str) -> str:
    """Return how the program is called in help texts: `kubectl slack` when kubectl runs it as its plugin."""
    return "kubectl slack" if Path(argv0).name.startswith("kubectl-slack") else "resource-slack"


def help_text(name: str) -> str:
    """Return the program's own help text: every command with its line."""
    panels = dict.fromkeys(entry.panel for entry in ENTRIES)
    sections = [
        Section(panel, tuple(HelpRow(entry.name, entry.summary) for entry in ENTRIES if entry.panel == panel))
        for panel in panels
    ]
    return render_help(f"{name} COMMAND [FLAGS]", SUMMARY, [*sections, OPTIONS], EPILOG)
