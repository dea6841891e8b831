"""What pods request: the shape that published traces of large clusters share, in the numbers that people write.

Most pods are small with a long tail (a request of 100m is the commonest, one workload in sixty asks for eight cores or
more), and memory follows CPU loosely: the ratio is log-normal around 2.5 GiB a core.
"""

import math
import random

_CPU_MILLIS = (10, 25, 50, 100, 200, 250, 500, 1000, 1500, 2000, 4000, 8000, 16000)
_CPU_WEIGHTS = (3, 4, 8, 18, 8, 14, 14, 12, 3, 7, 4, 1.2, 0.3)
_MEMORY_MEBIBYTES = (32, 64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288)
_LARGE_MEBIBYTES = (16384, 24576, 32768, 49152, 65536)
_MEMORY_STEPS = _MEMORY_MEBIBYTES + _LARGE_MEBIBYTES
_MEDIAN_MEBIBYTES_PER_CORE = 2560
_SIGMA = 0.8
_MANY_REPLICAS = 200


def draw(rng: random.Random, replicas: int) -> tuple[int, int]:
    """Return millicores and MiB; what runs in hundreds of replicas is smaller than what runs alone."""
    millis = rng.choices(_CPU_MILLIS, _CPU_WEIGHTS)[0]
    if replicas > _MANY_REPLICAS:
        millis = min(millis, rng.choices(_CPU_MILLIS, _CPU_WEIGHTS)[0])
    wanted = millis / 1000 * _MEDIAN_MEBIBYTES_PER_CORE * math.exp(rng.gauss(0, _SIGMA))
    return millis, nearest_memory(wanted)


def nearest_memory(mebibytes: float) -> int:
    """Return the number that people would write, nearest in proportion."""
    return min(_MEMORY_STEPS, key=lambda step: abs(math.log(step / max(mebibytes, 1))))


def smaller(millis: int, mebibytes: int) -> tuple[int, int]:
    """Return the next smaller request of about the same ratio; the smallest is its own."""
    step = max(_CPU_MILLIS.index(millis) - 1, 0)
    fewer = _CPU_MILLIS[step]
    return fewer, nearest_memory(mebibytes * fewer / millis) if fewer != millis else _MEMORY_STEPS[0]
