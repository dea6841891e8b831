"""Who sets the replicas of a workload that keeps room, beside a proportional autoscaler: HPAs and KEDA's ScaledObjects.

Their metrics have no counterpart in a policy, so what they do is told and not guessed.
"""

from collections.abc import Iterator, Mapping, Sequence

from slack.migration.findings import Json, may_be_in, namespace_of, object_name

_KINDS = {
    "HorizontalPodAutoscaler": (("minReplicas", 1), ("maxReplicas", 1)),
    "ScaledObject": (("minReplicaCount", 0), ("maxReplicaCount", 100)),
}
"""With the fields of the least and the most replicas, and what they are where they are left out."""


def warnings_of_scalers(target: Json, manifests: Sequence[Json], kept: str) -> Iterator[str]:
    """Yield what sets the replicas of a workload.

    Args:
        target: the workload.
        manifests: all that was given with it.
        kept: what is kept in place of what they would set.
    """
    name, kind = str(target["metadata"]["name"]), target.get("kind")
    for manifest in manifests:
        fields = _KINDS.get(str(manifest.get("kind")))
        spec = manifest.get("spec") or {}
        ref = spec.get("scaleTargetRef") or {}
        if fields is None or ref.get("name") != name or (ref.get("kind") or "Deployment") != kind:
            continue
        if not may_be_in(target, (manifest.get("metadata") or {}).get("namespace") or namespace_of(target)):
            continue
        least, most = (default if spec.get(field) is None else spec[field] for field, default in fields)
        yield (
            f"{object_name(manifest)} sets the replicas of {name} from {least} to {most}, and the policy keeps {kept}; "
            f"an autoscaler may set extraCapacity.replicas of a policy instead (SlackScale){''.join(_windows(spec))}"
        )


def _windows(spec: Mapping[str, object]) -> Iterator[str]:
    """Yield what KEDA's cron triggers ask for: a policy has windows for it."""
    triggers = spec.get("triggers")
    for trigger in triggers if isinstance(triggers, list) else ():
        if isinstance(trigger, Mapping) and trigger.get("type") == "cron":
            own = trigger.get("metadata") or {}
            yield (
                f"; write a window into extraCapacity.schedule for its cron trigger: {own.get('desiredReplicas')} "
                f"replicas from {own.get('start')!r} to {own.get('end')!r}, {own.get('timezone') or 'UTC'}"
            )
