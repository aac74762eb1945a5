"""Time stamps in exact integers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortedf.instances.json_values import BadLine
from sortedf.instances.timestamps import Clock


def test_seven_digits_keep_their_order() -> None:
    """Azure's stamps differ by 100 ns; none of that is lost."""
    clock = Clock()
    stamps = ["2023-11-16 18:17:03.9799600", "2023-11-16 18:17:05", "2023-11-16 18:17:05.0000001"]
    ticks = [clock.read(stamp) for stamp in stamps]
    assert [tick - ticks[0] for tick in ticks] == [0, 1_020_040_000, 1_020_040_100]


def test_digits_beyond_a_nanosecond_are_cut_off() -> None:
    """Any number of decimals is read; those past the ninth change nothing."""
    clock = Clock()
    assert clock.read("2024-05-10 00:00:01.0000000019") == clock.read(
        "2024-05-10 00:00:01.000000001"
    )
    assert Clock().read("1.0000000019") == 1_000_000_001


@pytest.mark.parametrize(
    "stamp",
    [
        "2024-05-10 00:00:01+00:00",
        "2024-05-10 00:00:01",
        "2024-05-10T00:00:01Z",
        "2024-05-10T02:00:01.000000+02:00",
        "2024-05-09 19:00:01-0500",
        " 2024-05-10 00:00:01.0 ",
        "2024-05-10 05:30:01 +05:30",
    ],
)
def test_one_instant_in_many_zones(stamp: str) -> None:
    """An offset is taken off, a stamp without one is UTC; both may stand in one column."""
    clock = Clock()
    assert clock.read(stamp) == clock.read("2024-05-10 00:00:01Z")


@given(
    st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)),
    st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)),
    st.integers(-14 * 60, 14 * 60),
)
def test_dates_as_in_the_standard_library(one: datetime, other: datetime, minutes: int) -> None:
    """Differences are those of datetime, for any dates, offset and microseconds."""
    there = one.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    clock = Clock()
    ticks = clock.read(str(there)) - clock.read(other.isoformat())
    assert ticks == (there - other.replace(tzinfo=UTC)) // timedelta(microseconds=1) * 1000


@given(st.decimals(-(10**12), 10**12, places=9), st.booleans())
def test_decimal_numbers_are_exact(number: Fraction, milliseconds: bool) -> None:
    """Seconds (milliseconds) in decimal text become nanoseconds, rounded down."""
    text = f"{number:f}"
    unit = 10**6 if milliseconds else 10**9
    assert Clock(milliseconds).read(text) == Fraction(text) * unit // 1


@pytest.mark.parametrize(
    ("stamp", "ticks"),
    [
        (3, 3_000_000_000),
        (0.1, 100_000_000),
        ("1e-05", 10_000),
        ("1.5E3", 1_500_000_000_000),
        (1787267980.0827403, 1_787_267_980_082_740_300),
        ("5.", 5_000_000_000),
        ("-0.25", -250_000_000),
    ],
)
def test_numbers_as_traces_write_them(stamp: object, ticks: int) -> None:
    """JSON numbers and exponents mean the decimal number that is in the file."""
    assert Clock().read(stamp) == ticks


@pytest.mark.parametrize(
    "stamp",
    [
        "",
        "yesterday",
        "16/11/2023 18:17",
        "2023-11-16",
        "2023-13-01 00:00:00",
        "2023-02-29 00:00:00",
        "2023-11-16 24:00:00",
        "2023-11-16 18:60:00",
        "2023-11-16 18:17:60",
        "2023-11-16 18:17:03+24:00",
        "\uff12\uff1023-11-16 18:17:03",
        "nan",
        "inf",
        "1_000",
        "1e999",
        "9" * 30,
        True,
        None,
        [1],
    ],
)
def test_no_time_stamp(stamp: object) -> None:
    """What is neither a date with a time nor a number is refused in words."""
    with pytest.raises(BadLine, match=r"^is "):
        Clock().read(stamp)


def test_dates_and_numbers_do_not_mix() -> None:
    """One column holds dates or numbers: differences between the two mean nothing."""
    clock = Clock()
    clock.read("5")
    with pytest.raises(BadLine, match="mixed"):
        clock.read("2023-11-16 18:17:03")


@given(st.lists(st.integers(-(10**20), 10**20), min_size=1))
def test_releases_count_whole_seconds_from_the_earliest(ticks: list[int]) -> None:
    """The earliest is released at 0; no release is later than its stamp, nor a second early."""
    releases = Clock().releases(ticks)
    assert min(releases) == 0
    for tick, release in zip(ticks, releases, strict=True):
        assert 0 <= tick - min(ticks) - release * 10**9 < 10**9


def test_no_stamps() -> None:
    """No stamps, no releases."""
    assert Clock().releases([]) == []
