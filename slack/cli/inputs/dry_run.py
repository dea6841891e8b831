"""Where a dry run takes its input from: policy files, a snapshot file, stdin, or a live cluster, read once.

Only reads. Every complaint names the file (`-` is called stdin) and the field.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slack.cli.inputs import files
from slack.cli.inputs.files import STDIN, name_of, read_bytes
from slack.cli.inputs.flag_values import instant
from slack.cli.inputs.learned_state import amounts
from slack.cli.inputs.measured import PolicyMeasurement, measurements_of
from slack.cli.terminal.problems import UserError
from slack.cluster.node_prices import NO_PRICES
from slack.kube.access import ClusterAccess

if TYPE_CHECKING:
    from slack.cli.inputs.cluster import DryRunCluster
    from slack.cluster.classes import TaintKeys
    from slack.cluster.node_prices import NodePrices
    from slack.cluster.snapshot import Snapshot
    from slack.cluster.wire import ResourceQuota
    from slack.planner.model.pool import Pool
    from slack.planner.model.result import ExistingShape, Plan
    from slack.planner.objective.amount import Amount
    from slack.planner.objects.priority_classes import PriorityClasses
    from slack.planner.policy.spec import Policy


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that a plan needs."""

    snapshot: "Snapshot"
    policies: "tuple[Policy, ...]"
    existing: "tuple[ExistingShape, ...]"
    priority_classes: "PriorityClasses"
    now: float
    built_in: bool
    """There was no policy; the built-in one is used."""
    measured: Mapping[str, PolicyMeasurement] = field(default_factory=dict)
    """By policy of the cluster, also of another spec than is planned for: what its status says."""
    of_cluster: bool = False
    """The policies are those of the cluster, and not of files."""
    live: bool = False
    """A cluster was read, and not a file."""
    objectives: "Mapping[str, Amount]" = field(default_factory=dict)
    """By policy with an objective, what its operator would keep now, as far as that is known here."""
    prices: "NodePrices" = NO_PRICES
    pools: "tuple[Pool, ...]" = ()
    """What ActivationPools announce."""
    quotas: "tuple[ResourceQuota, ...]" = ()
    quotas_of: "Sequence[ResourceQuota] | None" = ()
    """Of the namespace that was asked for; None where one may not list them."""

    def plan(self, default_rate: float) -> "Plan":
        """Return the plan for these inputs."""
        from slack.planner.plan import plan

        return plan(
            self.snapshot,
            self.policies,
            now=self.now,
            existing=self.existing,
            default_rate=default_rate,
            priority_classes=self.priority_classes,
            prices=self.prices,
            objectives=self.objectives,
            pools=self.pools,
            quotas=self.quotas,
        )


def gather(
    policy_files: Sequence[Path],
    snapshot: Path | None,
    access: ClusterAccess,
    at: str | None,
    placeholder_namespace: str,
    prices: Path | None = None,
    quotas_of: str | None = None,
    transient_taints: str = "",
) -> Inputs:
    """Read everything that the flags name, and the ResourceQuotas of a namespace.

    Raises:
        UserError, InvalidPolicy, InvalidSnapshot, KubeError: for what cannot be read, with its name.
    """
    now = time.time() if at is None else instant(at)
    if snapshot is not None and access.is_chosen:
        raise UserError("--snapshot: give either a snapshot file or a cluster (--kubeconfig, --context), not both")
    if [*policy_files, snapshot, prices].count(STDIN) > 1:
        raise UserError("-: stdin can be read once only; put one of them into a file")
    taint_keys = _taint_keys(transient_taints)
    known_prices = files.node_prices(prices) if prices is not None else NO_PRICES
    given = list(_policies(policy_files))  # first: a mistake in them is found before a large cluster is read
    if snapshot is not None:
        seen = _cluster_of_file(snapshot, given, now, placeholder_namespace, taint_keys)
    else:
        seen = _live_cluster(access, given, now, placeholder_namespace, quotas_of, taint_keys)
    from slack.cli.inputs.forms import with_forms
    from slack.planner.objects.adoption import BUILT_IN

    documents = [] if policy_files else list(seen.policies)
    found = given if policy_files else list(_parse(documents))
    _distinct(found)
    known = measurements_of(document for _, document in seen.policies)
    policies = tuple(found) or (BUILT_IN,)
    snapshot_now, existing = seen.snapshot(policies, now, known_prices), seen.existing(policies)
    ways = {name: each.release_nodes for name, each in known.items()}
    policies = with_forms(policies, existing, snapshot_now.placeholders, ways)
    return Inputs(
        snapshot=snapshot_now,
        policies=policies,
        existing=existing,
        priority_classes=seen.priority_classes,
        now=now,
        built_in=not found,
        measured=known,
        of_cluster=not policy_files,
        live=snapshot is None,
        objectives=amounts(policies, seen.uids, seen.histories, known, now),
        prices=known_prices,
        pools=seen.pools,
        quotas=seen.quotas,
        quotas_of=seen.quotas_of,
    )


def _taint_keys(text: str) -> "TaintKeys":
    from slack.cluster.classes import KNOWN_TAINTS
    from slack.process.slack_values import taint_keys

    try:
        return taint_keys(text) or KNOWN_TAINTS
    except ValueError as error:
        raise UserError(f"--transient-taints: {error}") from None


def _cluster_of_file(
    path: Path, policies: "Sequence[Policy]", now: float, placeholder_namespace: str, taint_keys: "TaintKeys"
) -> "DryRunCluster":
    from slack.cli.inputs import cluster

    return cluster.from_file(
        read_bytes(path),
        source=name_of(path),
        now=now,
        placeholder_namespace=placeholder_namespace,
        taint_keys=taint_keys,
        nodes_needed=not any(policy.spec.node_templates for policy in policies),
    )


def _live_cluster(
    access: ClusterAccess,
    policies: "Sequence[Policy]",
    now: float,
    placeholder_namespace: str,
    quotas_of: str | None,
    taint_keys: "TaintKeys",
) -> "DryRunCluster":
    from slack.cli.inputs import cluster

    return cluster.from_api(
        access,
        now=now,
        placeholder_namespace=placeholder_namespace,
        taint_keys=taint_keys,
        objectives_of=[policy.name for policy in policies if policy.spec.objective is not None],
        quotas_of=quotas_of,
    )


def _documents(path: Path) -> Iterator[tuple[str, Any]]:
    name = name_of(path)
    example = "a SlackPolicy, as in examples/slackpolicy.yaml"
    documents = list(files.documents(files.read_yaml(path), source=name, example=example))
    if not documents:
        raise UserError(f"{name}: there is no SlackPolicy in it")
    for number, document in enumerate(documents, 1):
        where = f"{name} (document {number})" if len(documents) > 1 else name
        if isinstance(document, dict) and document.get("kind") in ("List", "SlackPolicyList"):
            items = document.get("items")
            for index, item in enumerate(items if isinstance(items, list) else []):
                yield f"{where} items[{index}]", item
        else:
            yield where, document


def _policies(paths: Iterable[Path]) -> "Iterator[Policy]":
    for path in paths:
        yield from _parse(_documents(path))


def _parse(documents: Iterable[tuple[str, Any]]) -> "Iterator[Policy]":
    from slack.planner.policy.spec import parse_policy

    for source, document in documents:
        yield parse_policy(document, source=source)


def _distinct(policies: "Sequence[Policy]") -> None:
    seen: set[str] = set()
    for policy in policies:
        if policy.name in seen:
            raise UserError(f"metadata.name: two policies are named {policy.name!r}; give each its own name")
        seen.add(policy.name)
