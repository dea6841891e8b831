"""What keeps placeholders: `loop` observes (`view`), plans, acts (`act`) and reports (`report`)."""
