"""Which rates are likely a slip of the pen, and what is said of them: the same words wherever a rate is judged."""

MOST_WITHOUT_CEILING = 1.0
"""Above it a ceiling must bound what the rate can cost: who writes 10 for ten percent asks for ten clusters."""
LARGE = 0.5
"""Above it the first plan and the first status say so."""
NEEDS_CEILING = (
    "a rate above 1 keeps more than all that runs again, and needs extraCapacity.ceiling with cpu and memory; "
    "ten percent is 0.1"
)
BOUNDING = ("cpu", "memory")
"""What such a ceiling names: the resources that a rate is taken of."""
