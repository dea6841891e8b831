"""`python -m tools.reference`: the generated pages of docs/reference, a module per subject."""
