"""The statuses of our kinds, each declared once: a struct builds, decodes and describes it. Pure."""
