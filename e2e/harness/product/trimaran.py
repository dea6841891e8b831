"""A scheduler with upstream's load-aware plugins, when who runs this has its binary (`TRIMARAN_SCHEDULER`).

That of kubernetes-sigs/scheduler-plugins; it is not built here. Its plugins ask a load watcher in upstream's format.
"""

import os
from pathlib import Path

from e2e.harness.api import Json
from e2e.harness.errors import UnavailableError
from e2e.harness.product.scorer import SCHEDULER

VARIABLE = "TRIMARAN_SCHEDULER"
LOAD_PACKING = "TargetLoadPacking"


def binary() -> Path:
    """Return the program.

    Raises:
        UnavailableError: none is named, or there is none.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        raise UnavailableError(f"{VARIABLE} names no scheduler with upstream's plugins")
    if not os.access(named, os.X_OK):
        raise UnavailableError(f"{VARIABLE}: {named} cannot be run")
    return Path(named)


def configuration(watcher: str, **arguments: object) -> Json:
    """Return a configuration by which TargetLoadPacking scores, instead of what it conflicts with.

    Args:
        watcher: address of a load watcher.
        arguments: more of the plugin's.
    """
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": f"{LOAD_PACKING}Args"}
    own = {"name": LOAD_PACKING, "args": {**kind, "watcherAddress": watcher, **arguments}}
    return scored_by(LOAD_PACKING, pluginConfig=[own])


def scored_by(plugin: str, **more: object) -> Json:
    """Return a configuration by which a plugin scores, instead of those that go by requests."""
    score = {
        "enabled": [{"name": plugin, "weight": 10}],
        "disabled": [{"name": name} for name in ("NodeResourcesFit", "NodeResourcesBalancedAllocation")],
    }
    return {"profiles": [{"schedulerName": SCHEDULER, "plugins": {"score": score}, **more}]}
