"""Sizing by what comes: what arrives within the lead time of a node is learnt, and corrected by what was late. Pure."""
