"""ShareGPT conversations: the first turn is the prompt, the second the answer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from batch_files import ESTIMATE, JSON, as_source, faults, read, rows
from hypothesis import given
from hypothesis import strategies as st
from tiny_tokenizer import save_tokenizer

from sortedf.errors import SortedfError
from sortedf.instances.sharegpt import read_sharegpt
from sortedf.instances.source import Source


def talk(*texts: Any, **keys: Any) -> dict[str, Any]:
    """Build a conversation of these turns."""
    speakers = ["human", "gpt"] * len(texts)
    turns = [{"from": who, "value": text} for who, text in zip(speakers, texts, strict=False)]
    return keys | {"conversations": turns}


def in_array(entries: Iterable[Any], indent: int | None = None) -> Source:
    return Source("sharegpt.json", json.dumps(list(entries), indent=indent).encode())


def read_talks(source: Source, **options: Any) -> tuple[list[tuple[str, int, int, int]], list[str]]:
    columns, notes = read(source, read_sharegpt, **(ESTIMATE | options))
    return rows(columns), notes


def talk_faults(source: Source, **options: Any) -> list[tuple[int | None, str]]:
    return faults(source, read_sharegpt, **(ESTIMATE | options))


TALKS = [
    talk("x" * 8, "y" * 12, "more", id="one"),
    talk("x" * 9, "y", id="two"),
]


def test_two_turns_are_a_request() -> None:
    """The first turn is the prompt and the second the answer, later turns are not looked at."""
    expected = [("one", 2, 3), ("two", 3, 1)]
    for source in (in_array(TALKS), in_array(TALKS, indent=1), as_source(TALKS)):
        assert [row[:3] for row in read_talks(source)[0]] == expected


def test_who_speaks_does_not_matter() -> None:
    """As in vLLM's benchmark, a conversation may begin with any speaker."""
    turns = [{"from": "gpt", "value": "x" * 8}, {"value": "y" * 4}]
    assert read_talks(in_array([{"conversations": turns}]))[0] == [("0", 2, 1, 1)]


@given(st.lists(st.text(max_size=5), max_size=6), st.sampled_from([None, 1, 3]))
def test_elements_are_found_on_their_lines(texts: list[str], indent: int | None) -> None:
    """The line of an element of an array is the one where its brace opens."""
    source = in_array([talk("x", text, "\n", k=text) for text in texts], indent)
    if indent is None:
        starts = [1] * len(texts)
    else:
        brace = b" " * indent + b"{"
        lines = source.data.split(b"\n")
        starts = [number for number, line in enumerate(lines, 1) if line == brace]
    kept = [line for text, line in zip(texts, starts, strict=True) if text]
    assert [row[3] for row in read_talks(source)[0]] == kept


def test_positions_stand_in_for_ids() -> None:
    """Ids name requests only where all have one and they differ; else positions in the file do."""
    for ids in (["a", "a", "b"], ["a", None, "b"], ["a", "", "b"], ["a", 5, "b"]):
        entries = [talk("x", "y", id=name) for name in ids]
        entries.insert(1, talk("too short", id="c"))
        assert [row[0] for row in read_talks(in_array(entries))[0]] == ["0", "2", "3"]
    entries = [talk("x", "y", id="a"), talk("x", id="a"), talk("x", "y", id="b")]
    assert [row[0] for row in read_talks(in_array(entries))[0]] == ["a", "b"]


def test_conversations_without_a_request_are_counted() -> None:
    """Too few turns, and empty prompts or answers, are left out; a note says how many."""
    entries = [talk(), talk("x"), talk("x", "y"), talk("", "y"), talk("x", "", "z"), talk("x", "")]
    requests, notes = read_talks(in_array(entries))
    assert [row[0] for row in requests] == ["2"]
    assert notes[:2] == [
        "sharegpt.json: 2 conversations with fewer than two turns left out",
        "sharegpt.json: 3 conversations with an empty prompt or answer left out",
    ]
    assert sum("estimated" in note for note in notes) == len(notes) - 2 == 1


def test_an_empty_answer_does_not_matter_beside_a_prediction() -> None:
    """When output tokens come from outside, an answer may be empty."""
    requests, _ = read_talks(in_array([talk("x", ""), talk("x", "y")]), output_tokens=7)
    assert requests == [("0", 1, 7, 1), ("1", 1, 7, 1)]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (5, "not an object but 5"),
        (["x", "y"], "not an object but a list"),
        ({}, "conversations is null"),
        ({"conversations": "x"}, 'conversations is "x"'),
        ({"conversations": {}}, "conversations is an object"),
        (talk("x", None), "conversations[1]"),
        (talk(5, "y"), "conversations[0]"),
        (talk(["x"]), "conversations[0]"),
        ({"conversations": ["x", "y"]}, "conversations[0]"),
        ({"conversations": [{"from": "human"}, {"value": "y"}]}, "conversations[0]"),
    ],
)
def test_an_element_that_is_no_conversation(entry: Any, message: str) -> None:
    """What is not a conversation is one fault with its line, in an array and line by line."""
    entries = [talk("x", "y"), entry, talk("x", "y")]
    compact = b"[\n" + b",\n".join(as_source(entries).data.split(b"\n")) + b"\n]"
    for source, at in ((as_source(entries), 2), (Source("array.json", compact), 3)):
        [(line, text)] = talk_faults(source)
        assert line == at
        assert message in text
        kept, _ = read_talks(source, skip=True)
        assert [row[0] for row in kept] == ["0", "2"]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b'[\n{"conversations": []},\n{"conv', 3),
        (b'[\n{"conversations": []}\n{"conversations": []}]', 3),
        (b'[\n{"conversations": []}\n] x', 3),
        (b"[" * 100_000, 1),
        (b'[\n\n{"conversations": nothing}]', 3),
    ],
)
def test_a_damaged_array(data: bytes, line: int) -> None:
    """An array that is not valid JSON is refused as a whole, with the line of the damage."""
    for skip in (False, True):
        [(number, _)] = talk_faults(Source("damaged.json", data), skip=skip)
        assert number == line


def test_bad_text_inside_an_array_is_a_fault_of_its_element() -> None:
    """Bytes that are not UTF-8 and half characters spoil the element that holds them."""
    data = b'[{"conversations": []},\n{"id": "\xe9"},\n{"conversations": []}]'
    [(line, message)] = talk_faults(Source("latin1.json", data))
    assert line == 2
    assert "UTF-8" in message


def test_text_needs_a_way_to_count() -> None:
    """Without tokenizer or estimate the file is refused, naming both options."""
    [(line, message)] = talk_faults(in_array(TALKS, indent=1), prompt_tokens=None, output_tokens=5)
    assert line == 2
    assert "--tokenizer" in message
    assert "--prompt-tokens chars/4" in message


def test_no_conversation_needs_no_way_to_count() -> None:
    """An empty array has no requests, which is for the caller to judge."""
    assert read_talks(in_array([]), prompt_tokens=None)[0] == []


def test_tokens_are_counted_without_a_template(tmp_path: Path) -> None:
    """A tokenizer counts both turns as plain text with its special tokens, at least one token."""
    pytest.importorskip("transformers")
    reference = save_tokenizer(tmp_path)
    texts = ["Say hi to the user.", "hi <|im_end|>"]
    options = {"prompt_tokens": None, "tokenizer": str(tmp_path)}
    requests, notes = read_talks(in_array([talk(*texts)]), **options)
    prompt, answer = (len(reference(text)["input_ids"]) for text in texts)
    assert requests == [("0", prompt, answer, 1)]
    assert notes == []


def test_predictions_by_id_or_position(tmp_path: Path) -> None:
    """Predictions go by the names of the requests; one that is missing is a fault of its line."""
    file = tmp_path / "predictions.csv"
    file.write_text("id,output_tokens\none,5\ntwo,6\nthree,7\n")
    requests, notes = read_talks(as_source(TALKS), output_tokens=str(file))
    assert requests == [("one", 2, 5, 1), ("two", 3, 6, 2)]
    assert sum("1 prediction is for" in note for note in notes) == 1
    file.write_text("id,output_tokens\n0,5\n2,6\n")
    nameless = [talk("x", "y"), talk("x", "y"), talk("x", "y")]
    [(line, message)] = talk_faults(as_source(nameless), output_tokens=str(file))
    assert line == 2
    assert "'1'" in message
    kept, _ = read_talks(as_source(nameless), output_tokens=str(file), skip=True)
    assert kept == [("0", 1, 5, 1), ("2", 1, 6, 3)]


@given(st.data())
def test_damaged_bytes(data: st.DataObject) -> None:
    """A file with anything changed raises nothing but sortedf's own errors."""
    entries = [talk("x", "y", id="a"), data.draw(JSON), {"conversations": data.draw(JSON)}]
    source = data.draw(
        st.sampled_from([in_array(entries), in_array(entries, 1), as_source(entries)])
    )
    text = bytearray(source.data)
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        requests, _ = read_talks(Source("damaged.json", bytes(text)), skip=True)
    except SortedfError:
        return
    assert len({name for name, *_ in requests if name}) == len(requests)
    assert all(prompt >= 1 and output >= 1 for _, prompt, output, _ in requests)
