"""How all tests run: Hypothesis's profile and the order of the tests.

`HYPOTHESIS_PROFILE=thorough` looks at many examples, without it at few, always at the same; `search` looks at as many
as thorough does, at others each time, and EXAMPLES=5000 at so many others. `--shuffle SEED` runs the tests in an order
of its own, for who looks for tests that lean on others.
"""

import gc
import logging
import os
import random
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.examples import PROFILE, by_profile, examples

os.environ.pop("COLUMNS", None)  # the width of the terminal that runs the tests
os.environ.setdefault("MPLCONFIGDIR", str(Path(__file__).parents[1] / ".cache" / "matplotlib"))  # its list of fonts
settings.register_profile("quick", examples())
settings.register_profile("thorough", examples())
settings.register_profile("search", examples())
settings.load_profile(PROFILE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", metavar="SEED", help="run the tests in a random order; the same seed, the same order")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what has been imported and collected, which stays until the end, out of every garbage collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and getattr(item.module, "by_profile", None) is by_profile:
            item.add_marker("sized")
    if (seed := config.getoption("--shuffle")) is not None:
        random.Random(seed).shuffle(items)


@pytest.fixture(autouse=True)
def _logs_end_with_their_test() -> Iterator[None]:
    """Take away what a process's own set-up of its logs left: it would write into the closed stderr of its test."""
    root = logging.getLogger()
    level = root.level
    yield
    for handler in root.handlers[:]:
        if type(handler) is logging.StreamHandler:
            root.removeHandler(handler)
    root.setLevel(level)
