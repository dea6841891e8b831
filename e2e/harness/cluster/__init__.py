"""A control plane of stock programs, on this machine or on kind, and who may do what there."""
