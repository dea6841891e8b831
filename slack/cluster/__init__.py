"""The cluster as data: quantities, wire structs, classes, and columns kept current by events. No I/O, no clock."""
