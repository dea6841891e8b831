"""`make bench`: every benchmark, one after the other."""

from benchmarks import decoding, events, planning, simulator

for benchmark in (decoding, events, planning, simulator):
    benchmark.main()
    print()
