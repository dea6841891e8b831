import copy
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster.quantity import (
    QuantityError,
    WrittenQuantity,
    amount,
    as_written,
    base_units,
    cpu_millis,
    format_compared,
    format_cpu,
    format_memory,
    format_quantity,
    rounded,
    thousandths,
)
from tests.cases import run_for_each

SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15),
    "E": Fraction(10**18), "Ki": Fraction(1 << 10), "Mi": Fraction(1 << 20), "Gi": Fraction(1 << 30),
    "Ti": Fraction(1 << 40), "Pi": Fraction(1 << 50), "Ei": Fraction(1 << 60),
}  # fmt: skip


@run_for_each(
    ("text", "millis"),
    [("1500m", 1500), ("1.5", 1500), ("2", 2000), ("100u", 1), ("1n", 1), ("0", 0), (".5", 500), ("1.", 1000),
     ("+1", 1000), ("-250m", -250), ("-1u", -1), ("1e3", 1_000_000), ("2E-3", 2), ("1k", 1_000_000)],
)  # fmt: skip
def test_cpu_is_read_in_millicores_rounded_up_as_milli_value_does(text: str, millis: int) -> None:
    assert cpu_millis(text) == millis


@run_for_each(
    ("text", "units"),
    [("1Gi", 1 << 30), ("1.5Gi", 3 << 29), ("128974848", 128974848), ("129e6", 129_000_000), ("129M", 129_000_000),
     ("123Mi", 128974848), ("100m", 1), ("1001m", 2), ("1E", 10**18), ("1E3", 1000), ("1Ei", 1 << 60), ("1n", 1),
     ("-1.5", -2), ("0.1Ki", 103), ("1P", 10**15)],
)  # fmt: skip
def test_other_resources_are_read_in_base_units_rounded_up(text: str, units: int) -> None:
    assert base_units(text) == units


def test_values_beyond_int64_are_capped_as_the_api_server_caps_them() -> None:
    assert base_units("9e300") == cpu_millis("9e300") == (1 << 63) - 1
    assert cpu_millis("-9e300") == 1 - (1 << 63)


@run_for_each(
    "text", ["", " 1", "1 ", "abc", "1kk", "1K", "1ki", "--1", ".", "1e", "0x10", "1_000", "१", "1.2.3", "9" * 70]
)
def test_what_is_no_quantity_is_named_in_the_error(text: str) -> None:
    with pytest.raises(QuantityError) as error:
        base_units(text)
    assert error.value.text == text
    assert str(error.value).startswith(repr(text)[:60])
    assert "500m, 2, 1.5Gi" in str(error.value)


def test_a_number_is_no_text() -> None:
    with pytest.raises(QuantityError):
        cpu_millis(2)  # type: ignore[arg-type]  # a caller without a type checker


def test_the_unit_follows_the_resource() -> None:
    assert amount("cpu", "1500m") == 1500
    assert amount("nvidia.com/gpu", "2") == 2
    assert rounded("cpu", 1500) == 1500
    assert rounded("memory", 1500) == 2
    assert rounded("memory", -1500) == -2


def test_quantities_are_written_as_kubernetes_writes_them() -> None:
    assert [format_cpu(v) for v in (500, 2000, 0, 1250)] == ["500m", "2", "0", "1250m"]
    assert [format_memory(v) for v in (1 << 30, 512 << 20, 1000, 0, 3 << 29)] == ["1Gi", "512Mi", "1000", "0", "1536Mi"]
    assert format_quantity("cpu", 500) == "500m"
    assert format_quantity("hugepages-2Mi", 4 << 20) == "4Mi"
    assert format_quantity("ephemeral-storage", 1 << 30) == "1Gi"
    assert format_quantity("nvidia.com/gpu", 1024) == "1024"


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 6), st.sampled_from(sorted(SUFFIXES)))
def test_reading_equals_exact_arithmetic(whole: int, part: int, digits: int, suffix: str) -> None:
    decimals = f"{part:06d}"[:digits]
    text = f"{whole}.{decimals}{suffix}" if digits else f"{whole}{suffix}"
    exact = (Fraction(whole) + Fraction(int(decimals or 0), 10 ** len(decimals))) * SUFFIXES[suffix]
    assert thousandths(text) == min(-(-exact * 1000 // 1), ((1 << 63) - 1) * 1000)
    assert base_units(text) == min(-(-exact // 1), (1 << 63) - 1)


@given(st.integers(0, 1 << 50))
def test_what_is_written_reads_back_the_same(value: int) -> None:
    assert cpu_millis(format_cpu(value)) == value
    assert base_units(format_memory(value)) == value


@pytest.mark.parametrize(
    ("resource", "value", "other", "texts"),
    [
        ("memory", 256 << 20, 1280 << 20, ("256Mi", "1.2Gi")),
        ("memory", (10 << 30) - 1, 10 << 30, (str((10 << 30) - 1), "10Gi")),
        ("memory", 6452 << 20, 6455 << 20, ("6452Mi", "6455Mi")),
        ("memory", 10 << 30, 10 << 30, ("10Gi", "10Gi")),
        ("cpu", 12341, 12344, ("12341m", "12344m")),
        ("cpu", 12341, 14000, ("12300m", "14")),
    ],
)
def test_amounts_that_are_compared_never_look_the_same_unless_they_are(
    resource: str, value: int, other: int, texts: tuple[str, str]
) -> None:
    assert format_compared(resource, value, other) == texts


def test_an_amount_knows_what_was_written_for_it_also_as_a_copy_and_in_another_process() -> None:
    amount = WrittenQuantity(2000, "2000m")
    for same in (
        amount,
        copy.deepcopy(amount),
        pickle.loads(pickle.dumps(amount)),
        max(amount, WrittenQuantity(1999, "1999m")),
    ):
        assert (same, same.text, as_written("cpu", same)) == (2000, "2000m", "2000m")
    assert as_written("cpu", amount + 500) == "2500m"  # nobody has written that
    assert as_written("cpu", 2000) == "2"
