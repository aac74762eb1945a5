"""Batch files: which lines are planned, as what, and what is said of the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from batch_files import ESTIMATE, chat, completion, faults, read, rows
from hypothesis import given
from hypothesis import strategies as st

from sortedf.errors import OptionError
from sortedf.instances.batch_entries import MOST_SEQUENCES
from sortedf.instances.batch_line import MOST_CHOICES


def test_each_line_is_a_request_with_its_own_lengths() -> None:
    """Ids, lengths and lines are those of the file, line by line; blank lines count as lines."""
    entries = [
        chat("one", "x" * 9, max_tokens=3),
        b"",
        completion("two", [5, 6, 7, 8], max_tokens=9),
        b"  \r",
        completion("three", "x" * 4, max_tokens=6),
    ]
    columns, _ = read(entries, **ESTIMATE)
    assert rows(columns) == [("one", 3, 3, 1), ("two", 4, 9, 3), ("three", 1, 6, 5)]


@pytest.mark.parametrize(
    "url",
    [
        "/v1/chat/completions",
        "/v1/chat/completions/",
        "/chat/completions",
        "https://api.example.com/v1/chat/completions",
        "http://10.0.0.1:8000/chat/completions/",
    ],
)
def test_spellings_of_the_chat_url(url: str) -> None:
    """The Azure form, a slash at the end and a whole address name the same endpoint."""
    entry = chat() | {"url": url}
    assert rows(read([entry], **ESTIMATE)[0]) == [("a", 2, 8, 1)]


def test_contents_that_are_fine() -> None:
    """Empty text, text in parts, any role and an assistant that only calls tools are accepted."""
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    conversation = [
        {"role": "developer", "content": "1234"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "56"}, {"type": "text", "text": "7"}],
        },
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "8"},
        {"role": "assistant", "function_call": {"name": "add"}},
        {"role": "anything", "content": "9"},
    ]
    columns, _ = read([chat("a", ""), chat("b", messages=conversation)], **ESTIMATE)
    assert rows(columns) == [("a", 1, 8, 1), ("b", 3, 8, 2)]


def test_a_sequence_for_each_prompt_and_answer() -> None:
    """Two prompts with n = 3 are six requests in the order of the choices, all on their line."""
    entries = [completion("q", [[1] * 10, [2] * 20], n=3, max_tokens=5), completion("r", ["xy"])]
    columns, _ = read(entries, **ESTIMATE)
    first = [(f"q#{k}", 10 if k < 3 else 20, 5, 1) for k in range(6)]
    assert rows(columns) == [*first, ("r", 1, 8, 2)]


@given(st.integers(1, 5), st.lists(st.lists(st.integers(0, 9), min_size=1), min_size=1, max_size=5))
def test_work_is_multiplied(n: int, prompts: list[list[int]]) -> None:
    """The tokens planned are n times those of the prompts and n times the limit for each prompt."""
    columns, _ = read([completion("q", prompts, n=n, max_tokens=7)])
    assert sum(columns.prompt_tokens) == n * sum(map(len, prompts))
    assert sum(columns.output_tokens) == n * len(prompts) * 7
    assert columns.ids is not None
    assert len(set(columns.ids)) == n * len(prompts)


def test_null_is_absent() -> None:
    """Optional settings that are null count as not given."""
    entry = chat(n=None, best_of=None, use_beam_search=None, max_completion_tokens=None)
    assert rows(read([entry], **ESTIMATE)[0]) == [("a", 2, 8, 1)]


def test_best_of_equal_to_n_is_no_extra_work() -> None:
    """best_of is accepted when it asks for nothing beyond n."""
    columns, _ = read([completion("q", [1], n=2, best_of=2)])
    assert columns.ids == ["q#0", "q#1"]


def test_too_many_sequences_in_one_line() -> None:
    """A line that asks for more sequences than could be planned is a fault, not a full memory."""
    assert len(read([completion("q", [1], n=MOST_CHOICES)])[0].lines) == MOST_CHOICES
    prompts = [[1]] * (MOST_SEQUENCES // MOST_CHOICES + 1)
    entries = [completion("q", prompts, n=MOST_CHOICES), completion("r", [1], n=MOST_CHOICES + 1)]
    (_, sequences), (_, choices) = faults(entries)
    assert sequences == f"{len(prompts) * MOST_CHOICES} sequences; a line may ask for 1048576"
    assert choices == "n is 16385; it must be at most 16384"


def test_max_completion_tokens_wins() -> None:
    """The newer name of the output limit is read, and wins over the older one."""
    entries = [
        completion("a", max_tokens=None, max_completion_tokens=50),
        completion("b", max_tokens=100, max_completion_tokens=50),
        completion("c", max_tokens=100),
    ]
    assert read(entries)[0].output_tokens == [50, 50, 100]


def test_output_tokens_from_outside_win() -> None:
    """A constant for the output tokens replaces the limits, and stands in where there is none."""
    entries = [completion("a", max_tokens=100), completion("b", max_tokens=None)]
    assert read(entries, output_tokens=33)[0].output_tokens == [33, 33]
    assert read(entries, output_tokens="33")[0].output_tokens == [33, 33]


def test_predictions_by_id(tmp_path: Path) -> None:
    """A prediction names a request or one of its sequences; unknown ids are counted in a note."""
    file = tmp_path / "predicted.csv"
    file.write_text("id,output_tokens\na,5\nb,6\nb#1,7\nx,1\ny,1\n")
    entries = [completion("a"), completion("b", n=3)]
    columns, notes = read(entries, output_tokens=str(file))
    assert columns.output_tokens == [5, 6, 7, 6]
    assert notes == [f"{file}: 2 predictions are for ids that the backlog does not have"]


def test_a_missing_prediction_is_a_fault_of_the_request(tmp_path: Path) -> None:
    """Every request must be in the file of predictions; one that is not is named."""
    file = tmp_path / "predicted.csv"
    file.write_text("id,output_tokens\na,5\nc#0,5\n")
    entries = [completion("a"), completion("b"), completion("c", n=2)]
    assert faults(entries, output_tokens=str(file)) == [
        (2, f"no output_tokens for 'b' in {file} (--output-tokens)"),
        (3, f"no output_tokens for 'c' in {file} (--output-tokens)"),
    ]


def test_repeated_ids_name_both_lines() -> None:
    """An id may be there once, even with the same body, and even when its first line is bad."""
    entries = [completion("a"), chat("b", n=0), completion("a"), completion("b"), completion("a")]
    assert faults(entries, **ESTIMATE) == [
        (2, "n is 0; it must be at least 1"),
        (3, "repeats the custom_id 'a' of line 1"),
        (4, "repeats the custom_id 'b' of line 2"),
        (5, "repeats the custom_id 'a' of line 1"),
    ]


def test_a_sequence_may_not_take_the_name_of_a_line() -> None:
    """The names of sequences and lines never meet, whichever comes first."""
    entries = [completion("a#1"), completion("a", n=2), completion("b", n=2), completion("b#0")]
    assert faults(entries) == [
        (2, "its sequence 'a#1' has the custom_id of line 1"),
        (4, "repeats the custom_id 'b#0' of line 3"),
    ]


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), unique=True, min_size=1))
def test_ids_come_back_exactly(names: list[str]) -> None:
    """No id is trimmed, folded, normalised or merged with another."""
    columns, _ = read([completion(name) for name in names])
    assert columns.ids == names


def test_text_needs_a_way_to_count() -> None:
    """Without tokenizer or estimate the first text is an error that names both options."""
    entries = [completion("a"), completion("b", ""), chat("c"), chat("d")]
    for skip in (False, True):
        (_, empty), (number, message) = faults(entries, skip=skip)
        assert empty == "prompt is empty"
        assert number == 3
        assert "--tokenizer" in message
        assert "--prompt-tokens chars/4" in message


def test_token_ids_need_no_way_to_count() -> None:
    """A file of token ids is read without tokenizer and without the note on estimates."""
    columns, notes = read([completion("a", [1] * 5), completion("b", [[0, 1], [2]])])
    assert columns.prompt_tokens == [5, 2, 1]
    assert notes == []
    assert read([completion("a", [1] * 5)], **ESTIMATE)[1] == []


def test_the_last_of_a_repeated_key_counts() -> None:
    """Of a key that an object repeats the last value is taken."""
    text = json.dumps(completion("a", max_tokens=5)).replace(
        '"custom_id"', '"custom_id": "z", "custom_id"'
    )
    assert rows(read([text.encode()])[0]) == [("a", 3, 5, 1)]


def test_options_are_checked_before_lines() -> None:
    """Options that contradict each other are refused, whatever the file holds."""
    with pytest.raises(OptionError, match="exclude each other"):
        read([completion()], tokenizer="folder", prompt_tokens="chars/4")
