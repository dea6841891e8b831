"""The reference of SlackPolicy, from the schema that the API server has."""

from slack.planner.policy.crd import crd
from slack.planner.policy.spec import PolicySpec
from tools.reference.markdown import head
from tools.reference.schema import columns, sections

_TEXT = """
`kubectl explain slackpolicy.spec --recursive` prints the same. Start with
[a policy with comments](../../examples/slackpolicy.yaml); `spec: {}` is a good policy too: ten percent of what real
pods request, cut so that the pods that come most often each fit the room of one placeholder.

- A *duration* is text such as `90s`, `10m`, `1h30m`.
- *Quantities* are Kubernetes': `{cpu: 500m, memory: 1Gi, nvidia.com/gpu: 1}`.
- A *rate* is a number: 0.1 is ten percent.

`kubectl slack plan -f policy.yaml` shows what a policy would do before you apply it.
"""


def page() -> str:
    """Return the whole page."""
    version = crd()["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    parts = [head("SlackPolicy", "slack/planner/policy/spec.py and slack/documents/slackpolicy_status.py", _TEXT)]
    parts += sections("spec", schema["properties"]["spec"], PolicySpec)
    parts += sections("status", schema["properties"]["status"], None)
    return "".join(parts) + columns(version["additionalPrinterColumns"], "slackpolicies")
