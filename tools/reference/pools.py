"""The references of ActivationPool and ActivationQuota, from the models that judge them."""

from typing import Any

from slack.demand.crd import POOL_PLURAL, QUOTA_PLURAL, pool_crd, quota_crd
from slack.demand.policy import POOL_KIND, QUOTA_KIND, ActivationPoolSpec, ActivationQuotaSpec
from tools.reference.markdown import head
from tools.reference.schema import columns, sections

_SOURCE = "slack/demand/policy.py and slack/demand/crd.py"
_POOL = """
Containers of one action that follow its queue. `kubectl explain activationpool.spec` prints the same.

- A *duration* is text such as `300ms`, `90s`, `10m`, `1h30m`.
- Only `template` is needed; what is absent has its default.
- `template` is a pod as a Deployment's template has it, all fields of a pod included; only those that are judged here
  are listed.
- The queue is `act.NAMESPACE.POOL.MEMORY`, with what the first container requests in MiB: new memory is a new queue.
- `kubectl scale activationpool NAME --replicas N` and autoscalers set `limits.minContainers`.
"""
_QUOTA = """
What all ActivationPools of a namespace may have together; of several in one namespace each holds. Without any, only the
pools' own limits do. `kubectl explain activationquota.spec` prints the same.
"""


def pool_page() -> str:
    """Return the whole page of ActivationPool."""
    return _page(pool_crd(), POOL_KIND, POOL_PLURAL, _POOL, ActivationPoolSpec)


def quota_page() -> str:
    """Return the whole page of ActivationQuota."""
    return _page(quota_crd(), QUOTA_KIND, QUOTA_PLURAL, _QUOTA, ActivationQuotaSpec)


def _page(crd: dict[str, Any], kind: str, plural: str, intro: str, model: Any) -> str:
    version = crd["spec"]["versions"][0]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    parts = [head(kind, _SOURCE, intro), *sections("spec", properties["spec"], model)]
    parts += sections("status", properties["status"], None)
    return "".join(parts) + columns(version["additionalPrinterColumns"], plural)
