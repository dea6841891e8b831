"""`resource-slack reference`: the generated pages of docs/reference, a module a subject."""
