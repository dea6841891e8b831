"""The statuses of our kinds, each declared once: a struct builds it, decodes it, and makes its CRD schema. Pure."""
