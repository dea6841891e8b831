"""What all our kinds have in common: how a user's text becomes a value, and how a model becomes a CRD's schema."""
