"""SlackPolicy: its typed value, its schedule, and the CRD made of it."""
