"""The scheduler's extender protocol, as kube-scheduler 1.36 speaks it: what it sends, and what it takes for an answer.

Types are those of k8s.io/kube-scheduler/extender/v1: keys with capitals, null where nothing is sent. The scheduler
sends names alone when the extender is configured with `nodeCacheCapable: true`; whole nodes are read too, for their
names only, and cost thirty to fifty times as much. Scores are integers: a 7.0 would be an error to the scheduler.
Foreign bytes: whatever comes is an answer with a reason, and no more than `MOST_BYTES` are read.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated

import msgspec

from slack.cluster.wire import ABSENT, Pod
from slack.errors import InvalidInput

MOST_BYTES = 96 << 20
"""5,000 whole nodes are 78 MB; names of as many 0.2 MB."""
MOST_NAMES = 20_000
_LONGEST_NAME = 253
_NULL = (ABSENT, msgspec.Raw(b"null"))

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST_NAME)]
_Names = Annotated[list[_Name], msgspec.Meta(max_length=MOST_NAMES)]
_Uid = Annotated[str, msgspec.Meta(max_length=_LONGEST_NAME)]
MOST_VICTIMS = 5_000
"""Of a node: more pods than any node runs."""


class InvalidRequest(InvalidInput):
    """A request that is none; the text says what is wrong where, and has nothing of the pod."""


class _Args(msgspec.Struct, rename="pascal"):
    pod: Pod | None = None
    nodes: msgspec.Raw = ABSENT
    node_names: _Names | None = None


class _NodeMetadata(msgspec.Struct, gc=False):
    name: _Name


class _Node(msgspec.Struct):
    metadata: _NodeMetadata


class _NodeList(msgspec.Struct):
    items: Annotated[list[_Node], msgspec.Meta(max_length=MOST_NAMES)] | None = None


class MetaPod(msgspec.Struct, gc=False, rename={"uid": "UID"}):
    """A victim of a preemption."""

    uid: _Uid


class MetaVictims(msgspec.Struct, rename={"pods": "Pods", "pdb_violations": "NumPDBViolations"}):
    """The pods that would be evicted from a node."""

    pods: Annotated[list[MetaPod], msgspec.Meta(max_length=MOST_VICTIMS)] | None = None
    pdb_violations: int = 0


class _VictimMetadata(msgspec.Struct, gc=False):
    uid: _Uid


class _Victim(msgspec.Struct):
    metadata: _VictimMetadata


class _Victims(msgspec.Struct, rename={"pods": "Pods", "pdb_violations": "NumPDBViolations"}):
    pods: Annotated[list[_Victim], msgspec.Meta(max_length=MOST_VICTIMS)] | None = None
    pdb_violations: int = 0


class _PreemptionArgs(msgspec.Struct, rename="pascal"):
    pod: Pod | None = None
    node_name_to_victims: Annotated[dict[_Name, _Victims | None], msgspec.Meta(max_length=MOST_NAMES)] | None = None
    node_name_to_meta_victims: (
        Annotated[dict[_Name, MetaVictims | None], msgspec.Meta(max_length=MOST_NAMES)] | None
    ) = None


class AskedToPreempt(msgspec.Struct, frozen=True):
    """What the scheduler asks before it evicts: this pod, with the victims on each candidate node."""

    pod: Pod
    victims: Mapping[str, MetaVictims]


class ExtenderRequest(msgspec.Struct, frozen=True):
    """What the scheduler asks: this pod, among these nodes."""

    pod: Pod
    names: Sequence[str]
    whole_nodes: msgspec.Raw | None = None
    """What came where names were to come: the scheduler has no `nodeCacheCapable: true` for us."""


_ARGS = msgspec.json.Decoder(_Args)
_PREEMPTION = msgspec.json.Decoder(_PreemptionArgs)
_NODES = msgspec.json.Decoder(_NodeList | None)
_ITEMS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENCODER = msgspec.json.Encoder()


def decode(body: bytes) -> ExtenderRequest:
    """Read ExtenderArgs.

    Raises:
        InvalidRequest: with what is wrong.
    """
    try:
        args = _ARGS.decode(body)
        if args.pod is None:
            raise InvalidRequest("Pod: is missing")
        if args.node_names is not None:
            return ExtenderRequest(args.pod, args.node_names)
        if args.nodes in _NULL:
            raise InvalidRequest(
                "NodeNames: is missing, and so is Nodes; nodeCacheCapable: true makes the scheduler send names"
            )
        bytes(args.nodes).decode()  # what is passed over here, /filter gives back
        listed = _NODES.decode(args.nodes)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise InvalidRequest(f"no ExtenderArgs: {error}") from None
    names = [node.metadata.name for node in (listed.items or () if listed else ())]
    return ExtenderRequest(args.pod, names, args.nodes)


def decode_preemption(body: bytes) -> AskedToPreempt:
    """Read ExtenderPreemptionArgs; victims as whole pods are reduced to their UIDs, which an answer needs.

    Raises:
        InvalidRequest: with what is wrong.
    """
    try:
        args = _PREEMPTION.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise InvalidRequest(f"no ExtenderPreemptionArgs: {error}") from None
    if args.pod is None:
        raise InvalidRequest("Pod: is missing")
    if args.node_name_to_meta_victims is not None:
        given = args.node_name_to_meta_victims
        return AskedToPreempt(args.pod, {name: own for name, own in given.items() if own is not None})
    if args.node_name_to_victims is None:
        raise InvalidRequest("NodeNameToMetaVictims: is missing, and so is NodeNameToVictims")
    found = {
        name: MetaVictims([MetaPod(pod.metadata.uid) for pod in own.pods or ()], own.pdb_violations)
        for name, own in args.node_name_to_victims.items()
        if own is not None
    }
    return AskedToPreempt(args.pod, found)


def preemption_reply(asked: AskedToPreempt, refused: Collection[str]) -> bytes:
    """Return the answer to /preempt: the candidate nodes without those that are refused, victims unchanged."""
    kept = {name: victims for name, victims in asked.victims.items() if name not in refused}
    return _ENCODER.encode({"NodeNameToMetaVictims": kept})


class ScoreReplies:
    """HostPriorityLists for nodes that are known beforehand: all but the number is written once."""

    def __init__(self, names: Iterable[str]) -> None:
        self._openings = {name: _opening(name) for name in names}

    def reply(self, names: Sequence[str], scores: Sequence[int]) -> bytes:
        """Return the answer to /prioritize; a name that is not known is written as it comes."""
        parts = [b""] * (2 * len(names))
        try:
            parts[0::2] = map(self._openings.__getitem__, names)
        except KeyError:
            parts[0::2] = [self._openings.get(name) or _opening(name) for name in names]
        try:
            parts[1::2] = map(_ENDINGS.__getitem__, scores)
        except KeyError:
            parts[1::2] = [_ENDINGS.get(score) or b"%d}," % score for score in scores]
        return b"[%s]" % b"".join(parts)[:-1]


_ENDINGS = {number: b"%d}," % number for number in range(101)}


def _opening(name: str) -> bytes:
    return b'{"Host":' + _ENCODER.encode(name) + b',"Score":'


def filter_reply(asked: ExtenderRequest, refused: Mapping[str, str]) -> bytes:
    """Return the answer to /filter: the nodes that stay, and why others do not.

    Args:
        asked: what was asked; whole nodes are given back as whole nodes.
        refused: reasons by name of the node.
    """
    nodes: msgspec.Raw | None = None
    names: list[str] | None = [name for name in asked.names if name not in refused]
    if asked.whole_nodes is not None:
        nodes, names = _without(asked.whole_nodes, refused), None
    return _ENCODER.encode(
        {
            "Nodes": nodes,
            "NodeNames": names,
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": dict(refused),  # to evict pods there would not help: they stay in the metrics
            "Error": "",
        }
    )


def _without(nodes: msgspec.Raw, refused: Mapping[str, str]) -> msgspec.Raw:
    document = _ITEMS.decode(nodes)
    items = msgspec.json.decode(document.get("items", b"null"), type=list[msgspec.Raw] | None) or []
    kept = [item for item in items if msgspec.json.decode(item, type=_Node).metadata.name not in refused]
    return msgspec.Raw(_ENCODER.encode({**document, "items": kept}))
