"""The batch files that broke other tools, and what is said of each here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from batch_files import ESTIMATE, read, rows
from tiny_tokenizer import save_tokenizer

from sortedf import read_backlog
from sortedf.errors import InputError
from sortedf.instances.reading import Columns
from sortedf.instances.source import open_source


def accepted(file: Path, **options: Any) -> Columns:
    return read(open_source(file), **(ESTIMATE | options))[0]


def refused(file: Path, **options: Any) -> dict[int | None, str]:
    """Give the faults by line; there is one a line."""
    notes: list[str] = []
    with pytest.raises(InputError) as caught:
        read_backlog(file, kv_tokens=10**6, note=notes.append, **(ESTIMATE | options))
    error = caught.value
    faults = {fault.line: fault.message for fault in error.faults}
    assert len(faults) == error.total
    return faults


def good_ids(file: Path) -> list[str]:
    columns, _ = read(open_source(file), skip=True, **ESTIMATE)
    return list(columns.ids or [])


@pytest.mark.parametrize("name", ["batch_bom.jsonl", "bom_in_middle.jsonl"])
def test_byte_order_marks(cases: Path, name: str) -> None:
    """Case 01: a byte-order mark, at the front or where files were joined, changes nothing."""
    assert accepted(cases / "01-bom-jsonl" / name).ids == ["a-1", "a-2"]


def test_line_ends(cases: Path) -> None:
    """Case 03: CRLF and mixed line ends are read, and do not shift the lines of faults."""
    folder = cases / "03-crlf"
    for name in ("batch_crlf.jsonl", "batch_mixed.jsonl"):
        assert accepted(folder / name).ids == ["a-1", "a-2", "a-3"]
    assert refused(folder / "batch_crlf_bad_line2.jsonl").keys() == {2}


def test_line_separators_inside_text(cases: Path) -> None:
    """Case 05: U+2028 and its like inside a text end no line."""
    assert accepted(cases / "05-u2028-in-string" / "batch.jsonl").lines == [1, 2, 3, 4]


def test_other_encodings(cases: Path) -> None:
    """Case 07: Latin-1 is a fault of its line, UTF-16 of the file."""
    folder = cases / "07-not-utf8"
    [(line, message)] = refused(folder / "latin1.jsonl").items()
    assert line == 2
    assert "not valid UTF-8 (byte 0xe9)" in message
    assert "UTF-16" in refused(folder / "utf16le.jsonl")[None]


def test_json_that_is_no_object(cases: Path) -> None:
    """Case 11: other JSON on a line, an array, and two objects on a line are told apart."""
    folder = cases / "11-json-but-not-an-object"
    faults = refused(folder / "batch.jsonl", output_tokens=8)
    assert faults.keys() == {2, 3, 4, 5, 6, 7}
    assert all("not an object" in message for message in faults.values())
    assert "array" in refused(folder / "array.jsonl")[1]
    assert "extra data" in refused(folder / "two_objects_one_line.jsonl")[1]


def test_numbers_of_the_wrong_kind(cases: Path) -> None:
    """Case 13: a text and true are no output length."""
    assert refused(cases / "13-numbers-as-strings" / "batch.jsonl").keys() == {1, 2}


def test_repeated_ids(cases: Path) -> None:
    """Case 23: a repeated custom_id is refused with both lines; ids that look alike are not."""
    folder = cases / "23-duplicate-custom-id"
    assert refused(folder / "batch.jsonl") == {
        3: "repeats the custom_id 'a' of line 1",
        4: "repeats the custom_id 'b' of line 2",
    }
    assert len(set(accepted(folder / "lookalikes.jsonl").ids or [])) == 7


def test_kinds_of_ids(cases: Path) -> None:
    """Case 25: only texts that UTF-8 can hold are ids, and such come back exactly."""
    folder = cases / "25-custom-id-types"
    assert refused(folder / "bad_types.jsonl").keys() == {2, 3, 4, 5}
    assert refused(folder / "lone_surrogate.jsonl").keys() == {2, 3}
    ids = accepted(folder / "odd_strings.jsonl").ids or []
    assert ids[1:] == ["line1\nline2", 'quote"back\\slash', "\U0001f600", "../../etc/x", "a,b;c"]


def test_urls(cases: Path) -> None:
    """Cases 27 and 29: other endpoints are refused by line and url, the others are planned."""
    file = cases / "27-urls" / "batch.jsonl"
    faults = refused(file)
    assert faults.keys() == {5, 6}
    assert "/v1/responses" in faults[5]
    assert good_ids(file) == ["a-1", "a-2", "a-3", "a-4", "a-7"]
    file = cases / "29-embeddings-mixed" / "batch.jsonl"
    faults = refused(file)
    assert faults.keys() == {2, 3, 4}
    assert "/v1/embeddings" in faults[2]
    assert good_ids(file) == ["chat-1", "chat-2"]


def test_a_long_request_among_short_ones(cases: Path) -> None:
    """Case 31: each request has its own length; whether it fits is for the budget to say."""
    columns = accepted(cases / "31-one-bad-request" / "batch.jsonl")
    assert list(columns.prompt_tokens)[:4] == [5, 6, 5000, 7]


def test_the_newer_output_limit(cases: Path) -> None:
    """Case 33: max_completion_tokens is read, wins, and counts as absent when null."""
    file = cases / "33-max-completion-tokens" / "batch.jsonl"
    [(line, message)] = refused(file).items()
    assert line == 4
    assert "--output-tokens" in message
    columns, _ = read(open_source(file), skip=True, **ESTIMATE)
    assert columns.output_tokens == [50, 50, 100]
    assert accepted(file, output_tokens=7).output_tokens == [7, 7, 7, 7]


def test_answers_multiply_the_work(cases: Path) -> None:
    """Case 35: n and lists of prompts make sequences; what makes others is refused."""
    file = cases / "35-n-and-best-of" / "batch.jsonl"
    assert refused(file).keys() == {2, 4, 5, 7}
    columns, _ = read(open_source(file), skip=True)
    assert rows(columns) == [
        *((f"a-1#{k}", 100, 50, 1) for k in range(4)),
        *((f"a-3#{k}", 10 if k < 2 else 20, 5, 3) for k in range(4)),
        ("a-6", 100, 50, 6),
    ]


def test_empty_messages_and_prompts(cases: Path) -> None:
    """Case 37: what holds no prompt is refused; empty text and tool calls hold one."""
    file = cases / "37-empty-messages" / "batch.jsonl"
    assert refused(file).keys() == {2, 3, 4, 6, 8, 9, 10}
    assert good_ids(file) == ["a-1", "a-5", "a-7"]


def test_text_like_special_tokens(cases: Path, tmp_path: Path) -> None:
    """Case 39: text that looks like a special token is counted as an engine counts it."""
    pytest.importorskip("transformers")
    tokenizer = save_tokenizer(tmp_path)
    file = cases / "39-special-token-text" / "batch.jsonl"
    columns, _ = read(open_source(file), tokenizer=str(tmp_path))
    texts = [
        "The marker <|endoftext|> ends a document.",
        "<|im_start|>system\nobey<|im_end|>",
        "</s> <s> [INST]",
    ]
    expected = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=True
        )["input_ids"]
        for text in texts
    ]
    assert columns.prompt_tokens == [*map(len, expected), 3]


def test_each_line_keeps_its_parameters(cases: Path) -> None:
    """Case 41: the limits are those of each line."""
    assert accepted(cases / "41-per-request-params" / "batch.jsonl").output_tokens == [3, 9, 6]
