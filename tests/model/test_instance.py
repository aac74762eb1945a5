"""The model: what an instance accepts, refuses, keeps and hashes."""

from __future__ import annotations

import csv
import hashlib
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortedf import Instance, InvalidRequestError, Request, Schedule


def make(**changes: Any) -> Instance:
    """Build a small valid instance with some arguments changed."""
    arguments: dict[str, Any] = {
        "prompt_tokens": [3, 1, 4],
        "output_tokens": [1, 5, 9],
        "kv_tokens": 20,
        "release": [0, 2, 6],
        "ids": ["a", "b", "c"],
    }
    return Instance(**(arguments | changes))


def test_instance_is_frozen() -> None:
    """Neither attributes nor arrays of an instance can be changed, nor its inputs through them."""
    given_prompts = np.array([3, 1, 4])
    instance = make(prompt_tokens=given_prompts)
    with pytest.raises(AttributeError, match="replace"):
        instance.kv_tokens = 3
    with pytest.raises(AttributeError):
        del instance.ids
    for array in (
        instance.prompt_tokens,
        instance.output_tokens,
        instance.release,
        instance.volume,
    ):
        assert array.dtype == np.int64
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7
    given_prompts[0] = 99
    assert instance.prompt_tokens[0] == 3


@pytest.mark.parametrize(
    ("change", "index", "message"),
    [
        ({"prompt_tokens": [3, 0, 4]}, 1, "prompt_tokens of request 1 is 0, below 1"),
        ({"output_tokens": [1, 5, -9]}, 2, "output_tokens of request 2 is -9, below 1"),
        ({"release": [0, -1, 0]}, 1, "release of request 1 is -1, below 0"),
        ({"prompt_tokens": [3, 1.5, 4]}, 0, "not an integer"),
        ({"prompt_tokens": [3, True, 4.0]}, 0, "not an integer"),
        ({"prompt_tokens": [3, "1", 4]}, 0, "not an integer"),
        ({"prompt_tokens": [3, None, 4]}, 1, "request 1 is None, not an integer"),
        ({"prompt_tokens": np.array([True, True, True])}, 0, "not an integer"),
        ({"prompt_tokens": [3, 2**70, 4]}, 1, "2\\^40"),
        ({"prompt_tokens": np.array([3, 2**63 + 1, 4], np.uint64)}, 1, "over 2\\^40"),
        ({"prompt_tokens": [3, 2**41, 4]}, 1, "over 2\\^40"),
        ({"prompt_tokens": [1, 2]}, None, "output_tokens has length 3"),
        ({"release": [1, 2]}, None, "release has length 2"),
        ({"prompt_tokens": [[1, 2, 3]]}, None, "2 dimensions"),
        ({"prompt_tokens": [[1], [2, 3]]}, None, "not a sequence"),
        ({"prompt_tokens": 3}, None, "0 dimensions"),
        ({"kv_tokens": 0}, None, "kv_tokens is 0"),
        ({"kv_tokens": True}, None, "kv_tokens is True"),
        ({"kv_tokens": 2.5}, None, "not an integer"),
        ({"kv_tokens": 2**62}, None, "kv_tokens"),
        ({"ids": ["a", "b"]}, None, "ids has length 2"),
        ({"ids": ["a", "b", "a"]}, 2, "request 2 repeats the id 'a' of request 0"),
        ({"ids": ["a", "", "c"]}, 1, "not a name"),
        ({"ids": ["a", 7, "c"]}, 1, "not a name"),
        ({"ids": ["a", "\ud800", "c"]}, 1, "UTF-8"),
        ({"prompt_tokens": [2**39, 2**39, 2**39]}, 1, "2\\^40 tokens in all"),
        ({"output_tokens": [1, 2**38, 1], "prompt_tokens": [1, 2**30, 1]}, 1, "volume"),
        ({"prompt_tokens": [1], "output_tokens": [1], "release": [2**40], "ids": None}, None, None),
    ],
)
def test_rules_of_the_model(change: dict[str, Any], index: int | None, message: str | None) -> None:
    """Each rule that is broken is named, with the request that breaks it; the edge is allowed."""
    if message is None:
        assert len(make(**change)) == 1
        return
    with pytest.raises(InvalidRequestError, match=message) as caught:
        make(**change)
    assert caught.value.index == index


def test_latency_sums_cannot_overflow() -> None:
    """A horizon over which latency sums could reach 2^62 is refused; a shorter one is not."""
    n = 3 * 2**20
    lengths = {"prompt_tokens": np.ones(n, int), "output_tokens": np.full(n, 2**18)}
    assert len(make(**lengths, release=None, ids=None)) == n
    with pytest.raises(InvalidRequestError, match="overflow"):
        make(**lengths, release=np.full(n, 2**40), ids=None)


def test_empty_is_refused() -> None:
    """An instance holds at least one request."""
    with pytest.raises(InvalidRequestError, match="at least one"):
        make(prompt_tokens=[], output_tokens=[], release=[], ids=[])


def test_requests_come_back() -> None:
    """Iteration gives the requests, and from_requests takes them back."""
    instance = make()
    assert instance[1] == Request("b", 1, 5, 2)
    assert Instance.from_requests(instance, 20) == instance


def test_defaults() -> None:
    """Without ids a backlog gets "0", "1", ... by position; without releases all are 0."""
    instance = Instance([1, 1], [1, 1], 9)
    assert instance.ids == ("0", "1")
    assert instance.release.tolist() == [0, 0]


def test_replace_validates() -> None:
    """Replace copies with a change, validates it, and refuses unknown names."""
    instance = make()
    assert instance.replace(kv_tokens=30).kv_tokens == 30
    assert instance.replace(kv_tokens=30).sha256 == instance.sha256
    assert instance.replace(kv_tokens=30) != instance
    with pytest.raises(InvalidRequestError):
        instance.replace(release=[-1, 0, 0])
    with pytest.raises(TypeError, match="prompts"):
        instance.replace(prompts=[1])


def test_select_and_oversized() -> None:
    """Oversized names what no schedule can serve; select keeps the rest with their ids."""
    instance = make(kv_tokens=6)
    assert instance.oversized.tolist() == [2]
    assert make(kv_tokens=13).oversized.tolist() == []
    assert instance.select([0, 1]).ids == ("a", "b")
    assert instance.select(np.array([True, False, True])).prompt_tokens.tolist() == [3, 4]


def test_blocks_are_safe() -> None:
    """In blocks of B a sequence is B - 1 tokens larger and the budget is whole blocks."""
    blocks = make(kv_tokens=35).in_blocks(16)
    assert blocks.kv_tokens == 32
    assert blocks.prompt_tokens.tolist() == [18, 16, 19]
    assert make().in_blocks(1) == make()
    with pytest.raises(InvalidRequestError, match="holds no block"):
        make(kv_tokens=15).in_blocks(16)
    with pytest.raises(InvalidRequestError, match="block size"):
        make().in_blocks(0)


texts = st.text(st.characters(codec="utf-8"), min_size=1)


@given(st.lists(texts, min_size=1, max_size=5, unique=True))
def test_hash_is_that_of_the_csv_lines(ids: list[str]) -> None:
    """The content hash is SHA-256 of the CSV lines id,prompt,output,release, quoted as CSV is."""
    n = len(ids)
    instance = Instance(range(1, n + 1), [2] * n, 99, release=[3] * n, ids=ids)
    text = io.StringIO(newline="")
    for i, name in enumerate(ids):
        quoted = '"' + name.replace('"', '""') + '"' if set(name) & set(',"\r\n') else name
        text.write(f"{quoted},{i + 1},2,3\n")
    assert instance.sha256 == hashlib.sha256(text.getvalue().encode()).hexdigest()
    assert [row[0] for row in csv.reader(io.StringIO(text.getvalue(), newline=""))] == ids


def test_schedule_measures() -> None:
    """Latency counts from release to completion; the makespan is the last completion."""
    instance = make()
    schedule = Schedule([0, 2, 6])
    assert schedule.latencies(instance).tolist() == [1, 5, 9]
    assert schedule.total_latency(instance) == 15
    assert schedule.makespan(instance) == 15
    with pytest.raises(TypeError):
        Schedule([0.5])
    with pytest.raises(AttributeError):
        schedule.starts = np.zeros(3, np.int64)
    assert schedule == Schedule(np.array([0, 2, 6]))
