"""YAML is looked over before it is loaded: what is small as a text may be without end as a value.

Aliases of aliases ("a billion laughs") grow with each level, collections nested without end overflow the parser's own
stack, and a number of thousands of digits is refused by Python in words that name no field. One pass over the parser's
events, without recursion and in a tenth of the time of loading, finds all three with their line and path.
"""

from dataclasses import dataclass, field

import yaml

MOST_DEPTH = 200
MOST_ALIASED = 100_000
"""Nodes that aliases stand for, all together; a long text counts as several."""
MOST_DIGITS = 64
_TEXT_UNIT = 64
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
# The C parser where PyYAML was built with it; both give the same events.
_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER = yaml.resolver.Resolver()


class UnboundedYaml(yaml.YAMLError):
    """A text that is not loaded; the message says why and where, and quotes nothing of it."""

    def __init__(self, line: int, path: str, problem: str) -> None:
        self.line = line
        self.path = path
        self.problem = problem
        super().__init__(f"line {line}: {path + ': ' if path else ''}{problem}")


@dataclass(slots=True)
class _Collection:
    """One that is open."""

    mapping: bool
    anchor: str | None
    size: int = 1
    index: int = 0
    """Of the next item; of a mapping keys and values count alike."""
    key: str = ""


@dataclass(slots=True)
class _Walk:
    """What is known of a document so far."""

    open: list[_Collection] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    aliased: int = 0

    def path(self) -> str:
        """Return where the next node stands."""
        text = ""
        for collection in self.open:
            if not collection.mapping:
                text += f"[{collection.index}]"
            elif collection.index % 2:
                text += f".{collection.key}" if text else collection.key
        return text

    def add_node(self, size: int, anchor: str | None, key: str = "") -> None:
        """Take a node that is whole."""
        if anchor is not None:
            self.sizes[anchor] = size
        if self.open:
            parent = self.open[-1]
            if parent.mapping and parent.index % 2 == 0:
                parent.key = key[:_TEXT_UNIT]
            parent.size += size
            parent.index += 1


def check_bounds(data: bytes | str) -> None:
    """See that a text can be loaded in bounded time and memory.

    Raises:
        UnboundedYaml: it cannot. What is no YAML is left to who loads it.
    """
    walk = _Walk()
    try:
        for event in yaml.parse(data, Loader=_PARSER):
            if isinstance(event, yaml.DocumentStartEvent):
                walk = _Walk()
            elif isinstance(event, yaml.AliasEvent):
                _alias(walk, event)
            elif isinstance(event, yaml.ScalarEvent):
                _scalar(walk, event)
            elif isinstance(event, yaml.CollectionStartEvent):
                if len(walk.open) >= MOST_DEPTH:
                    raise UnboundedYaml(_line(event), "", f"it is nested too deeply, in more than {MOST_DEPTH} levels")
                walk.open.append(_Collection(isinstance(event, yaml.MappingStartEvent), event.anchor))
            elif isinstance(event, yaml.CollectionEndEvent):
                collection = walk.open.pop()
                walk.add_node(collection.size, collection.anchor)
    except UnboundedYaml:
        raise
    except (yaml.YAMLError, UnicodeError):
        return


def _alias(walk: _Walk, event: yaml.AliasEvent) -> None:
    if any(collection.anchor == event.anchor for collection in walk.open):
        raise UnboundedYaml(_line(event), walk.path(), "an alias stands within what it stands for")
    size = walk.sizes.get(event.anchor or "", 1)
    walk.aliased += size
    if walk.aliased > MOST_ALIASED:
        problem = f"aliases stand for more than {MOST_ALIASED:,} values; write them out"
        raise UnboundedYaml(_line(event), walk.path(), problem)
    walk.add_node(size, None)


def _scalar(walk: _Walk, event: yaml.ScalarEvent) -> None:
    length = len(event.value)
    if length > MOST_DIGITS and _is_number(event):
        problem = f"a number of {length:,} characters; none that anything here takes is longer than {MOST_DIGITS}"
        raise UnboundedYaml(_line(event), walk.path(), problem)
    walk.add_node(1 + length // _TEXT_UNIT, event.anchor, event.value)


def _is_number(event: yaml.ScalarEvent) -> bool:
    if event.tag:
        return event.tag in _NUMBERS
    tag = _RESOLVER.resolve(yaml.ScalarNode, event.value, (True, False))  # type: ignore[no-untyped-call]
    return bool(event.implicit[0]) and tag in _NUMBERS


def _line(event: yaml.Event) -> int:
    return 0 if event.start_mark is None else event.start_mark.line + 1
