"""Prompt tokens estimated from characters, and the options that choose the way to count."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from batch_files import chat, completion, read
from hypothesis import given
from hypothesis import strategies as st

from sortedf.errors import OptionError
from sortedf.instances.reading import ReadOptions
from sortedf.instances.tokens import prompt_counter


@given(st.lists(st.text(min_size=1), min_size=1), st.integers(1, 10**6), st.integers(1, 1000))
def test_the_estimate_is_exact_arithmetic(texts: list[str], p: int, q: int) -> None:
    """chars/N counts code points, divides exactly, rounds up, and gives at least one token."""
    divisor = f"{p / 1000:.3f}" if q % 2 else str(q)
    notes: list[str] = []
    columns, notes = read([completion("a", texts)], prompt_tokens=f"chars/{divisor}")
    assert columns.prompt_tokens == [math.ceil(len(t) / Fraction(divisor)) for t in texts]
    assert len(notes) == 1
    assert "estimated" in notes[0]


def test_the_estimate_of_a_chat() -> None:
    """Of a chat the contents of all messages are counted together, and nothing else."""
    messages = [
        {"role": "system", "content": "12345"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "67"}, {"type": "text", "text": "8"}],
        },
    ]
    tools = [{"type": "function", "function": {"name": "f" * 100}}]
    columns, notes = read([chat(messages=messages, tools=tools)], prompt_tokens="chars/4")
    assert columns.prompt_tokens == [2]
    assert len(notes) == 1


@pytest.mark.parametrize(
    "rule", ["chars", "chars/", "chars/0", "chars/-4", "chars/4x", "words/4", ""]
)
def test_other_rules_are_refused(rule: str) -> None:
    """--prompt-tokens takes chars/N with a positive number; the error shows what would do."""
    with pytest.raises(OptionError, match="chars/4"):
        read([completion()], prompt_tokens=rule)


def test_no_rule_no_counter() -> None:
    """Without either option there is nothing to count with."""
    assert prompt_counter(ReadOptions(), print) is None
