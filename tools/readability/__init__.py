"""A check that texts for users can be read once and understood: short sentences, and standard words.

`make check` runs it, and `python -m tools.readability` prints the figures of each text.
"""
