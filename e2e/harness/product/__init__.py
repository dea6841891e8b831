"""What is tested, as its users run it: operator, auditor, chart, page."""
