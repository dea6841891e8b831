"""What it costs to start pods at once: no slack, static and proportional pause pods, a rate, an objective.

    python -m benchmarks.sizing                   # every case with five seeds: about an hour on two cores
    python -m benchmarks.sizing --quick           # one seed, four cases, coarse: ten minutes
    python -m benchmarks.sizing --only ci,weeks --seeds 2 -o json
    python -m benchmarks.sizing --recordings FOLDER --keep runs.jsonl    # goes on where it was interrupted

Every kind of slack gets the cheapest size that reaches the goal, found by search over the same seeds, so the same
arrivals; its cost is what it takes beyond no slack at all. An objective has no size: it is asked for, and what it
reaches and costs is what it has learnt in the two days before the measured time.
"""
