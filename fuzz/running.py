"""How every fuzzer here that has seeds begins: its seeds go into the corpus, and atheris takes the rest."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import atheris


def run(try_input: Callable[[bytes], None], seeds: Mapping[str, bytes]) -> None:
    """Give atheris its arguments: those of libFuzzer, such as -max_total_time=120; the last one is the corpus."""
    corpus = Path(sys.argv[-1])
    if corpus.is_dir():
        for number, seed in enumerate(seeds.values()):
            (corpus / f"seed-{number}").write_bytes(seed)
    atheris.Setup(sys.argv, try_input)
    atheris.Fuzz()
