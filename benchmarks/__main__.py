"""`make bench`: every benchmark, one after the other."""

from benchmarks import decoding, planning

for benchmark in (decoding, planning):
    benchmark.main()
    print()
