"""SlackHistory objects: where what a policy has learnt lives while no operator does.

Read when a leader first needs it and looked at before each write, and written rarely; by force, for the object is ours.
Whoever may write there may write anything: what is read is bounded and checked, and what cannot be used is told. The
object is owned by its policy and goes with it; one of an earlier policy of that name is none of this one's.
"""

from dataclasses import dataclass

from slack.cluster.labels import API_VERSION, LABEL_MANAGED_BY, MANAGED_BY
from slack.kube.apply import Json, Writer, refusal_text
from slack.kube.errors import ApiError
from slack.kube.paths import resource_path
from slack.kube.retry import is_transient
from slack.planner.objective.codec import InvalidState, OtherVersion
from slack.planner.objective.history_object import learner_of, learnt
from slack.planner.objective.learner import Learner
from slack.planner.policy.history import HISTORY_KIND, HISTORY_PLURAL
from slack.planner.policy.spec import KIND


class HistoryRefused(Exception):
    """The API server will not let it be read or written until somebody changes something; the text says why."""


@dataclass(frozen=True, slots=True)
class StoredHistory:
    """What there is of a policy."""

    version: str | None = None
    """The resourceVersion; None where there is no object."""
    learner: Learner | None = None
    """What is kept; None where that is nothing, of no use, or none of this policy's."""
    problem: str | None = None
    """Why what is there cannot be used."""
    is_other_version: bool = False
    """What is there may be of use to another version of the operator."""


class Histories:
    """Reads and writes them; for one thread."""

    def __init__(self, writer: Writer, *, namespace: str) -> None:
        self._writer = writer
        self._namespace = namespace

    def find(self, policy: str, uid: str, *, beside: str | None = None) -> StoredHistory | None:
        """Return what is kept of a policy; None where the object is still of the version `beside`.

        Raises:
            Refused: it cannot be said whether there is anything.
            KubeError: the API server did not answer as it would at another time; ask again.
        """
        try:
            found = self._writer.get(self._path(policy))
        except ApiError as error:
            if is_transient(error):
                raise
            if error.not_found and error.reason == "NotFound":
                return StoredHistory()
            # without its kind a server answers 404 as well, but in another way: that nobody has deleted
            raise HistoryRefused(f"SlackHistory {policy} cannot be read: {error}") from None
        metadata = found.get("metadata", {})
        version = str(metadata.get("resourceVersion", ""))
        if version == beside:
            return None
        owners = metadata.get("ownerReferences") or ()
        if owners and all(owner.get("uid") != uid for owner in owners):
            others = sorted({f"{owner.get('kind')} {owner.get('name')}" for owner in owners})
            if others == [f"{KIND} {policy}"]:
                return StoredHistory(version)  # of a policy that is no more; it is on its way out
            return StoredHistory(version, problem=f"SlackHistory {policy} belongs to {', '.join(others)}")
        try:
            return StoredHistory(version, learner_of(found))
        except InvalidState as error:
            problem = f"SlackHistory {policy}: learnt.state {error}"
            return StoredHistory(version, problem=problem, is_other_version=isinstance(error, OtherVersion))

    def save(self, policy: str, owner: Json, learner: Learner, saved_at: str) -> str:
        """Write what was learnt; return the version that it has then.

        Raises:
            Refused: it may not be written as it is.
            KubeError: the API server did not answer as it would at another time; try again.
        """
        manifest: Json = {
            "apiVersion": API_VERSION,
            "kind": HISTORY_KIND,
            "metadata": {
                "name": policy,
                "namespace": self._namespace,
                "labels": {LABEL_MANAGED_BY: MANAGED_BY},
                "ownerReferences": [owner],
            },
            "learnt": learnt(learner, saved_at),
        }
        try:
            written = self._writer.apply(self._path(policy), manifest, force=True)
        except ApiError as error:
            if is_transient(error):
                raise
            raise HistoryRefused(f"SlackHistory {policy} cannot be written: {refusal_text(error)}") from None
        return str(written.get("metadata", {}).get("resourceVersion", ""))

    def _path(self, policy: str) -> str:
        return resource_path(API_VERSION, HISTORY_PLURAL, namespace=self._namespace, name=policy)
