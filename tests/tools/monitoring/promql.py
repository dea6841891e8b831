"""The little that tests read out of PromQL: which series an expression reads, and whose they are."""

import re

_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACES = re.compile(r"\{[^{}]*\}|\[[^\[\]]*\]")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)")
_NAME = re.compile(r"(?<![\w:.$])[a-zA-Z_:][\w:]*(?!\s*\()(?![\w:])")
_WORDS = frozenset(
    {"and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring", "group_left", "group_right"}
    | {"inf", "nan"}
)
_SUFFIXES = ("_bucket", "_sum", "_count")


def metric_names(expression: str) -> set[str]:
    """Return the names of the series that an expression reads.

    No parser: texts, label matchers, ranges and lists of labels are cut out, and what is left of names is neither a
    function (a bracket follows) nor a word of the language.
    """
    rest = _BRACES.sub(" ", _TEXT.sub('""', expression))
    rest = _GROUPING.sub(" ", rest)
    return {name for name in _NAME.findall(rest) if name.lower() not in _WORDS}


def family_of(name: str) -> str:
    """Return the metric that a series belongs to: a histogram's for its buckets, sum and count."""
    return next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), name)
