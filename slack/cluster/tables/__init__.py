"""The columns, a table each: nodes, pods, placeholders, kinds of pods, reserved workloads; and texts as integers."""
