"""`simulate`, `tune` and `record`: scenarios played, and the traces that they are played from."""
