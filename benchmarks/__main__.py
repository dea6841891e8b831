"""`make bench`: every benchmark, one after the other."""

from benchmarks import decoding, planning, simulator

for benchmark in (decoding, planning, simulator):
    benchmark.main()
    print()
