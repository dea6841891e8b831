"""Words and phrases that texts for users do not have, each with what to write instead.

They are house words where Kubernetes has a standard one, or phrases in the word order of another language.
"""

import re
from collections.abc import Iterator

_UNITS = "hour|day|week|month|second|minute|node|policy|pod|namespace|slot|zone|shape|container|service|report|run"
_COUNTED = "EUR|USD|cores?|nodes?|pods?|messages?|lines?|placeholders?|ReplicaSets?|events?"
REFUSED: tuple[tuple[str, str], ...] = (
    (r"(?<!there is )\brooms?\b", "capacity, space"),
    (r"\bat once\b", "without waiting for a node; immediately; at the same time"),
    (r"\banew\b", "again"),
    (r"\b(?:make|makes|making|made) way\b|\bway is made\b", "free capacity in one step"),
    (r"\bdisplac(?:e|es|ed|ing|ement)\b|\bpushed out\b", "preempt, evict"),
    (r"\b(?:bring|brings|brought) (?:a |the |its |their |new |nodes?\b)", "add"),
    (r"\bstands? (?:still|by|at|behind|beside|in place)\b", "is throttled; is ready; is"),
    (r"\bmend(?:s|ed|ing)?\b", "fix"),
    (r"\b(?:tell|tells|told|telling)\b", "report, show, print"),
    (r"\bin place of\b", "instead of, replaces"),
    (r"\bbesides?\b", "next to, in addition to"),
    (r"\bby and by\b", "gradually"),
    (r"\bas ever\b", "as before"),
    (r"\ball the same\b", "anyway"),
    (r"\bwill not do\b|\bof no use\b", "is not usable"),
    (r"\bof (?:yours|ours|theirs|his)\b", "your, our, their"),
    (r"\b(?:whoever|nobody but|who pulls)\b", "each person who; only"),
    (r"\b(?:come|comes|came|go|goes|went|coming|going) (?:again|anew|away again)\b", "be recreated; be removed"),
    (r"\bwhat (?:comes|came|is left to)\b", "arriving pods, incoming messages"),
    (r"\bto come\b", "arriving, expected"),
    (r"\bfor ever\b", "forever"),
    (r"\bthere(?:of|by|in|upon)\b|\bwhere(?:in|of|by|upon)\b|\bhere(?:by|in|of)\b", "a plain clause"),
    (r"(?:^|(?<=[.:;] ))Where (?!is\b|are\b|do\b|does\b|can\b|to\b|from\b)", "If"),
    (r"\bin vain\b", "without success"),
    (r"\bby itself\b|\bby themselves\b", "automatically"),
    (r"\b(?:is|are|was|were) there to\b", "is for"),
    (r"\bno less than\b|\bno other than\b|\bnothing but\b", "at least; only"),
    (rf"\b(?:{_COUNTED}) an? (?:{_UNITS})\b", "per"),
    (r"\blone\b", "single"),
    (r"\btwice over\b|\bafter the other\b", "one by one"),
    (r"\bof (?:his|her|its|one's) own\b", "its own"),
    (r"\bso many (?:fewer|more)\b|\bby as many\b", "the same number"),
)
"""A pattern, upper or lower case, and what to write instead."""
_PATTERNS = tuple(
    (re.compile(pattern, re.IGNORECASE if "Where" not in pattern else 0), better) for pattern, better in REFUSED
)


def refused_words(sentence: str) -> Iterator[tuple[str, str]]:
    """Yield each refused phrase in a sentence, and what to write instead. Names of columns are skipped."""
    for pattern, better in _PATTERNS:
        for found in pattern.finditer(sentence):
            if not found[0].isupper():
                yield found[0].strip(), better
