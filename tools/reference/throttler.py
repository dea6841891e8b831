"""The references of ThrottlePolicy and of scenarios of start-ups, from the models that judge them."""

from slack.schema.structural import structural
from slack.throttler.config import KIND, ThrottlePolicySpec
from slack.throttler.crd import PLURAL, throttle_crd
from slack.throttler.scenario import StartScenario
from tools.reference.markdown import head
from tools.reference.schema import columns, sections

_POLICY = """
How many containers start at once on a node, how fast, and at what load. `kubectl explain throttlepolicy.spec` prints
the same. Start with [a policy with comments](../../examples/throttlepolicy.yaml); `spec: {}` is a good policy too.

- A *duration* is text such as `90s`, `10m`, `1h30m`.
- Numbers and percentages are text in quotes, `"0.5"` and `"80%"`, and `null` turns that limit off.
- Of two policies that select a node the one with more labels has it; of two with as many, the older.

`resource-slack throttler check -f policy.yaml --cores 8` tells what a policy comes to on a node.
"""
_SCENARIO = """
What `resource-slack throttler simulate` plays: containers that start on one node. The decision is the one that agents
take, and `policy` is the spec of a [ThrottlePolicy](throttlepolicy.md). Start with
[the storm](../../examples/starting/storm.yaml).

```
resource-slack throttler simulate examples/starting/storm.yaml --compare none,2,4,6 --picture storm.svg
```

`-o json` has, for each limit, every event (`at`, `pod`, `container`, `event`: start, ready or failed, `forced`,
`reason`), the order of starts, the most that started at a time, the makespan and the failures
([schema](schemas/throttler-simulate.json)). Times are seconds from the beginning, and may have fractions.
"""


def policy_page() -> str:
    """Return the whole page of ThrottlePolicy."""
    version = throttle_crd()["spec"]["versions"][0]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    parts = [head(KIND, "slack/throttler/config.py and slack/throttler/crd.py", _POLICY)]
    parts += sections("spec", properties["spec"], ThrottlePolicySpec)
    parts += sections("status", properties["status"], None)
    whole = "".join(parts) + columns(version["additionalPrinterColumns"], PLURAL)
    return whole.replace("| `0.8` |", "| `80%` |").replace("| `0.4` |", "| `40%` |")  # as users write them


def scenario_page() -> str:
    """Return the whole page of scenarios of start-ups."""
    schema = structural(StartScenario.model_json_schema(by_alias=True), "Scenario", {})
    policy = schema["properties"]["policy"]
    schema["properties"]["policy"] = {"type": "object", "description": policy["description"]}
    schema["properties"]["policy"]["additionalProperties"] = {"type": "string"}
    return "".join(
        [
            head("Scenarios of start-ups", "slack/throttler/scenario.py", _SCENARIO),
            *sections("scenario", schema, StartScenario),
        ]
    )
