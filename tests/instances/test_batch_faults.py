"""Batch files that are wrong somewhere: one clear fault a line, and nothing but that."""

from __future__ import annotations

import json
from typing import Any

import pytest
from batch_files import ESTIMATE, JSON, as_source, chat, completion, faults, line, read, rows
from hypothesis import given
from hypothesis import strategies as st

from sortedf.errors import SortedfError
from sortedf.instances.source import Source


@pytest.mark.parametrize(
    "url",
    [
        "/v1/responses",
        "/v1/embeddings",
        "/v1/score",
        "/v1/rerank",
        "",
        " /v1/chat/completions",
        "/v2/chat/completions",
        "/v1/chat/completions\n",
        "v1/chat/completions",
        "ftp://host/v1/chat/completions",
        None,
        5,
        ["/v1/chat/completions"],
    ],
)
def test_other_urls_are_refused_by_name(url: Any) -> None:
    """A request of another kind is a fault that names its line and url; the others are read."""
    entries = [chat("a"), chat("b") | {"url": url}, chat("c")]
    [(number, message)] = faults(entries, **ESTIMATE)
    shown = "a list" if isinstance(url, list) else json.dumps(url)
    assert number == 2
    assert f"url is {shown};" in message
    columns, _ = read(entries, skip=True, **ESTIMATE)
    assert columns.ids == ["a", "c"]


BAD_ENTRIES = [
    (b'{"custom_id": "b",', "malformed"),
    (b"[1, 2]", "not an object but a list"),
    (b'"hello"', 'not an object but "hello"'),
    (b"null", "not an object but null"),
    (b"42", "not an object but 42"),
    (json.dumps(chat("b")).encode() * 2, "extra data"),
    (b'{"custom_id": "\xe9"}', "UTF-8"),
    (b'{"custom_id": "\\ud800"}', "surrogate"),
    (b'{"a": ' + b"[" * 100_000, "nested too deeply"),
    (b'{"a": 1' + b"0" * 5000 + b"}", "out of range"),
    ({}, "custom_id is missing"),
    (chat() | {"custom_id": 7}, "custom_id is 7"),
    (chat() | {"custom_id": 7.0}, "custom_id is 7.0"),
    (chat() | {"custom_id": True}, "custom_id is true"),
    (chat() | {"custom_id": ""}, 'custom_id is ""'),
    (chat() | {"custom_id": None}, "custom_id is null"),
    (chat() | {"custom_id": {"a": 1}}, "custom_id is an object"),
    (chat("b") | {"method": "GET"}, 'method is "GET"'),
    (chat("b") | {"method": None}, "method is null"),
    (chat("b") | {"body": "hi"}, "body is not an object"),
    (chat("b") | {"body": None}, "body is not an object"),
    (chat("b", messages=[]), "messages is an empty list"),
    (chat("b", messages=None), "messages is null"),
    (chat("b", messages="hi"), 'messages is "hi"'),
    (chat("b", messages={"role": "user"}), "messages is an object"),
    (chat("b", messages=["hi"]), 'messages[0] is "hi"'),
    (chat("b", messages=[{"content": "hi"}]), "messages[0].role is null"),
    (chat("b", messages=[{"role": "", "content": "hi"}]), 'messages[0].role is ""'),
    (chat("b", None), "messages[0].content is null, not text"),
    (chat("b", 5), "messages[0].content is 5"),
    (chat("b", {"text": "hi"}), "messages[0].content is an object"),
    (chat("b", []), "messages[0].content is an empty list"),
    (chat("b", ["hi"]), 'messages[0].content[0] is "hi"'),
    (chat("b", [{"type": "text"}]), "messages[0].content[0].text is null"),
    (
        chat("b", [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {}}]),
        'messages[0].content[1] is of type "image_url"',
    ),
    (chat("b", [{"type": "input_audio"}]), 'is of type "input_audio"'),
    (chat("b", messages=[{"role": "assistant", "content": None}]), "messages[0].content is null"),
    (
        chat("b", messages=[{"role": "assistant", "content": None, "tool_calls": []}]),
        "messages[0].content is null",
    ),
    (completion("b", ""), "prompt is empty"),
    (completion("b", None), "prompt is null"),
    (completion("b", []), "prompt is an empty list"),
    (completion("b", 5), "prompt is 5"),
    (completion("b", [1, -2]), "prompt[1] is -2"),
    (completion("b", [1, True]), "prompt[1] is true"),
    (completion("b", [1, 2.0]), "prompt[1] is 2.0"),
    (completion("b", [1, "x"]), 'prompt[1] is "x"'),
    (completion("b", ["x", ""]), "prompt[1] is empty"),
    (completion("b", [[1], []]), "prompt[1] is an empty list"),
    (completion("b", [[1], [[2]]]), "prompt[1][0] is a list"),
    (completion("b", ["x", 5]), "prompt[1] is 5"),
    (completion("b", "x", add_special_tokens="no"), 'add_special_tokens is "no"'),
    (chat("b", n=0), "n is 0; it must be at least 1"),
    (chat("b", n=-1), "n is -1"),
    (chat("b", n="2"), 'n is "2", not a whole number'),
    (chat("b", n=True), "n is true"),
    (chat("b", n=2.0), "n is 2.0"),
    (chat("b", n=10**9), "n is 1000000000; it must be at most"),
    (completion("b", best_of=3), "best_of is 3 and n is 1"),
    (completion("b", n=2, best_of=1), "best_of is 1 and n is 2"),
    (completion("b", best_of="x"), 'best_of is "x"'),
    (completion("b", use_beam_search=True), "use_beam_search is true"),
    (completion("b", use_beam_search=1), "use_beam_search is 1"),
    (chat("b", max_tokens="64"), 'max_tokens is "64", not a whole number'),
    (chat("b", max_tokens=True), "max_tokens is true"),
    (chat("b", max_tokens=64.0), "max_tokens is 64.0"),
    (chat("b", max_tokens=0), "max_tokens is 0; it must be at least 1"),
    (chat("b", max_tokens=-5), "max_tokens is -5"),
    (chat("b", max_tokens=2**40 + 1), "max_tokens is 1099511627777; it must be at most"),
    (chat("b", max_tokens=10**300), "it must be at most"),
    (chat("b", max_completion_tokens="64"), 'max_completion_tokens is "64"'),
    (chat("b", max_tokens="x", max_completion_tokens=8), 'max_tokens is "x"'),
    (chat("b", max_tokens=None), "--output-tokens"),
]


@pytest.mark.parametrize(("entry", "message"), BAD_ENTRIES, ids=[m for _, m in BAD_ENTRIES])
def test_a_bad_line_is_one_fault(entry: Any, message: str) -> None:
    """A line that cannot be planned is one fault with its number; its neighbours are read."""
    entries = [chat("first"), entry, chat("last")]
    [(number, text)] = faults(entries, **ESTIMATE)
    assert number == 2
    assert message in text
    columns, notes = read(entries, skip=True, **ESTIMATE)
    assert columns.ids == ["first", "last"]
    assert columns.lines == [1, 3]
    assert any("batch.jsonl:2" in note and message in note for note in notes)


def test_long_values_are_cut_in_messages() -> None:
    """A value in a message takes 40 characters at most, whatever the file holds."""
    (_, fits), (_, cut) = faults([chat("a", n="x" * 38), chat("b", n="x" * 39)], **ESTIMATE)
    assert fits == f'n is "{"x" * 38}", not a whole number'
    assert cut == f'n is "{"x" * 39}..., not a whole number'


def test_line_builder_is_valid() -> None:
    """The lines that these tests break are fine before they are broken."""
    entry = line("/v1/completions", "a", {"prompt": [1]})
    assert rows(read([entry])[0]) == [("a", 1, 8, 1)]


FIELDS = ["custom_id", "method", "url", "body"]
BODY = ["messages", "prompt", "n", "best_of", "use_beam_search", "max_tokens", "add_special_tokens"]
MESSAGE = ["role", "content", "tool_calls"]


def try_to_read(source: Source) -> None:
    """Read it, and check that what comes out can be planned; let only sortedf's errors pass."""
    try:
        columns, _ = read(source, skip=True, **ESTIMATE)
    except SortedfError:
        return
    assert columns.ids is not None
    assert len(set(columns.ids)) == len(columns.ids)
    assert all(columns.ids)
    assert min([*columns.prompt_tokens, *columns.output_tokens], default=1) >= 1
    lengths = {len(columns.prompt_tokens), len(columns.output_tokens), len(columns.lines)}
    assert lengths == {len(columns.ids)}


@given(st.data())
def test_random_json_in_any_field(data: st.DataObject) -> None:
    """Whatever JSON stands in a field, the line is planned or refused with a clear error."""
    message = {"role": "assistant", "content": "hi", "tool_calls": [{"function": {}}]}
    entry = data.draw(st.sampled_from([chat("b", messages=[message]), completion("b")]))
    places = [(entry, key) for key in FIELDS]
    places += [(entry["body"], key) for key in BODY]
    places += [(message, key) for key in MESSAGE]
    target, key = data.draw(st.sampled_from(places))
    target[key] = data.draw(JSON)
    try_to_read(as_source([chat("a"), entry]))


@given(st.data())
def test_damaged_bytes(data: st.DataObject) -> None:
    """A file with bytes changed, cut off or put in raises nothing but sortedf's own errors."""
    text = bytearray(as_source([chat("a"), completion("b", ["x", "y"], n=2), chat("c")]).data)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    cut = data.draw(st.integers(0, len(text)))
    try_to_read(Source("batch.jsonl", bytes(text[:cut])))
