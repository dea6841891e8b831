"""SlackPolicies of a cluster by their labels."""

from slack.cli.inputs.api_server import api_server
from slack.cli.terminal.problems import UserError
from slack.kube.access import ClusterAccess


def policies_with(access: ClusterAccess, selector: str) -> frozenset[str]:
    """Return the names of the SlackPolicies that have these labels.

    Raises:
        UserError: none has them.
        KubeError: there is no answer, or no permission.
    """
    from slack.cli.inputs.objects import items
    from slack.cluster.labels import API_VERSION, SLACK_POLICIES
    from slack.kube.paths import resource_path

    with api_server(access) as connection:
        found = items(connection, resource_path(API_VERSION, SLACK_POLICIES), selector)
    if not found:
        raise UserError(f"--selector: no SlackPolicy has the labels {selector}")
    return frozenset(str(item["metadata"]["name"]) for item in found)
