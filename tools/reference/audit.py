"""The references of CpuAuditPolicy and CpuAuditReport, from the schemas that the API server has."""

from slack.audit.api.crd import POLICY_PLURAL, REPORT_KIND, REPORT_PLURAL, policy_crd, report_crd
from slack.audit.api.policy import KIND, AuditPolicySpec
from tools.reference.markdown import head
from tools.reference.schema import columns, sections

_POLICY = """
What the [auditor](../cpu-audit.md) does in a cluster: which namespaces it judges, what is worth a word, and what it may
do. `kubectl explain cpuauditpolicy.spec --recursive` prints the same. Start with
[a policy with comments](../../examples/cpuauditpolicy.yaml); `spec: {}` is a good policy too: it reports on every
namespace and changes nothing. A policy has no namespace; of two that select one namespace the older has it.

- A *duration* is text such as `90s`, `10m`, `1h30m`.
- An *amount of CPU* is a quantity of Kubernetes: `500m`, `2`.
- A *ratio* is a number: 0.05 is five percent.
"""
_REPORT = """
What the [auditor](../cpu-audit.md) found in a namespace: one object named `cpu-audit` in each that has something to
report on, at most 256 KiB. The controller writes it when something that matters has changed, at most as often as
`report.every` of the [policy](cpuauditpolicy.md) says, and deletes it when the policy goes. Changes of yours are
written over. `kubectl explain cpuauditreport --recursive` prints the same.

```
kubectl get cpuauditreports -A
kubectl get cpuauditreport cpu-audit -n shop -o yaml
kubectl get cpuauditreport cpu-audit -n shop -o jsonpath='{range .findings[*]}{.patch}{"\\n"}{end}'
```

Shares are percent, and amounts of CPU are quantities as text.
"""


def policy_page() -> str:
    """Return the whole page of CpuAuditPolicy."""
    version = policy_crd()["spec"]["versions"][0]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    parts = [head(KIND, "slack/audit/api/policy.py and slack/documents/audit_status.py", _POLICY)]
    parts += sections("spec", properties["spec"], AuditPolicySpec)
    parts += sections("status", properties["status"], None)
    return "".join(parts) + columns(version["additionalPrinterColumns"], POLICY_PLURAL)


def report_page() -> str:
    """Return the whole page of CpuAuditReport."""
    version = report_crd()["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    own = {
        name: field for name, field in schema["properties"].items() if name not in ("apiVersion", "kind", "metadata")
    }
    parts = [head(REPORT_KIND, "slack/documents/audit_status.py", _REPORT)]
    parts += sections("report", {"properties": own}, None)
    return "".join(parts) + columns(version["additionalPrinterColumns"], REPORT_PLURAL)
