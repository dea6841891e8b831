"""The scorer's arguments, read and judged, and the configuration of a scheduler that asks it. Pure."""
