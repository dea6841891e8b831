"""What bound and unbound placeholders cost for the same starts: nodes at an equal share of pods without waiting.

    python -m benchmarks.holding                    # six loads, small and large pods, both scores, ten seeds
    python -m benchmarks.holding --only bursts,mixed --seeds 20 -o json
    python -m benchmarks.holding --autoscaler karpenter
    python -m benchmarks.holding --soft-taint       # the same, with the taint on nodes that hold unbound placeholders
    python -m benchmarks.holding --recordings FOLDER --keep runs.jsonl     # goes on where it was interrupted

Both forms are simulated with the same seeds, so with the same arrivals. A form's rate is found by its own runs: where
its share of pods without waiting crosses the one that both forms reach. A last run with that rate is what counts.
"""
