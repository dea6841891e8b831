"""`make bench`: every benchmark, one after the other."""

from benchmarks import decoding, event_path, events, planning, simulator

for benchmark in (decoding, events, event_path, planning, simulator):
    benchmark.main()
    print()
