"""Token counts, sizes and shares typed on a command line."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortedf.cli.quantities import (
    BYTE_UNITS,
    TOKEN_UNITS,
    parse_bytes,
    parse_share,
    parse_tokens,
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("1", 1),
        ("16492", 16492),
        ("0016", 16),
        ("16k", 16000),
        ("16K", 16000),
        ("16Ki", 16384),
        ("1.5k", 1500),
        ("16.492k", 16492),
        ("0.5Ki", 512),
        ("1.25Mi", 1310720),
        ("2M", 2_000_000),
        ("2Mi", 2_097_152),
        ("1G", 10**9),
        ("1Gi", 2**30),
        ("16.0", 16),
        ("0.001k", 1),
    ],
)
def test_tokens_are_read_exactly(text: str, tokens: int) -> None:
    """A suffix is a power of 1000, with an i of 1024, and the product is exact."""
    assert parse_tokens(text) == tokens


NOT_NUMBERS = [
    *("", " ", "16 k", " 16", "16\n", "16,492", "1_000", "-5", "+5", "0x10", "1e3", "1E3"),
    *("nan", "inf", "k", ".5k", "5.", "1.2.3", "12.k", "9" * 33, "9" * 5000, "auto"),
    *("\uff11\uff16", "\u0661\u0666", "16\xb2", "\xbd", "\x00", "16k\x00", "16kk2"),
]


@pytest.mark.parametrize("text", [*NOT_NUMBERS, "0", "0k", "1.0005k", "0.3", "16KI", "16m", "16GB"])
def test_other_texts_are_no_tokens(text: str) -> None:
    """Whatever is not exactly a whole number of tokens, at least 1, is one clear line."""
    with pytest.raises(ValueError, match=r"write a number of tokens like 16492") as caught:
        parse_tokens(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1073741824", 2**30),
        ("16B", 16),
        ("80GiB", 80 * 2**30),
        ("80Gi", 80 * 2**30),
        ("80GB", 80 * 10**9),
        ("141GB", 141 * 10**9),
        ("512MiB", 2**29),
        ("64kB", 64000),
        ("64KB", 64000),
        ("64KiB", 65536),
        ("1.5TiB", 3 * 2**39),
        ("79.6GiB", 85469849190),
    ],
)
def test_sizes_are_read_exactly(text: str, size: int) -> None:
    """GB is 1000^3 bytes, GiB is 1024^3, and a part of a byte is cut off."""
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", [*NOT_NUMBERS, "0", "0.1B", "80gib", "80Gb", "8GiBs", "80G", "1k"])
def test_other_texts_are_no_sizes(text: str) -> None:
    """Whatever is not exactly a size of at least one byte is one clear line."""
    with pytest.raises(ValueError, match=r"write|least") as caught:
        parse_bytes(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_a_bare_g_is_refused_with_both_readings() -> None:
    """The message for 80G spells out 80GB and 80GiB, so that the user picks one."""
    with pytest.raises(ValueError, match="write 80GB or 80GiB"):
        parse_bytes("80G")


def test_a_size_of_zero_is_allowed_where_asked_for() -> None:
    """Weights may be 0 bytes; a GPU may not."""
    assert parse_bytes("0", minimum=0) == 0
    with pytest.raises(ValueError, match="below the least allowed, 1"):
        parse_bytes("0")


@pytest.mark.parametrize(
    ("text", "share"), [("0.9", Fraction(9, 10)), (".92", Fraction(23, 25)), ("1", Fraction(1))]
)
def test_shares_are_read_exactly(text: str, share: Fraction) -> None:
    """0.9 is nine tenths, not the nearest binary fraction."""
    assert parse_share(text) == share


@pytest.mark.parametrize("text", [*NOT_NUMBERS, "0", "0.0", "1.01", "90%", "9/10", "1."])
def test_other_texts_are_no_shares(text: str) -> None:
    """A share is above 0 and at most 1, in plain decimals."""
    with pytest.raises(ValueError, match="write a decimal number above 0 and up to 1"):
        parse_share(text)


@given(st.integers(1, 10**9), st.sampled_from(sorted(TOKEN_UNITS)))
def test_whole_numbers_of_any_token_unit_are_products(number: int, unit: str) -> None:
    """A whole number with a suffix is their product."""
    assert parse_tokens(f"{number}{unit}") == number * TOKEN_UNITS[unit]


@given(st.integers(1, 10**15), st.sampled_from(sorted(BYTE_UNITS)))
def test_whole_numbers_of_any_byte_unit_are_products(number: int, unit: str) -> None:
    """A whole number with a suffix is their product."""
    assert parse_bytes(f"{number}{unit}") == number * BYTE_UNITS[unit]


@given(st.decimals(min_value=1, max_value=10**9, places=3))
def test_thousands_with_three_decimals_are_whole_tokens(number: object) -> None:
    """With three decimals, k always gives a whole number of tokens, without rounding."""
    assert parse_tokens(f"{number}k") == Fraction(str(number)) * 1000


@given(st.one_of(st.text(max_size=40), st.text("0123456789.kKMGTiB-+e_, ", max_size=12)))
def test_any_text_is_a_number_or_a_value_error(text: str) -> None:
    """Nothing but ValueError comes out, and what is accepted is at least 1."""
    for parse in (parse_tokens, parse_bytes):
        try:
            value = parse(text)
        except ValueError:
            continue
        assert value >= 1
