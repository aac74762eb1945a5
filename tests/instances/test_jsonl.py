"""JSONL files of token counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from backlog_files import fault_lines, faults, read, rows

from sortedf.errors import OptionError

GOOD = '{"id":"a","prompt_tokens":120,"output_tokens":7}\n'


@pytest.mark.parametrize(
    ("prompt", "output"),
    [
        ("prompt_tokens", "output_tokens"),
        ("input_length", "output_length"),
        ("input_toks", "output_toks"),
        ("ContextTokens", "GeneratedTokens"),
        ("Request tokens", "Response tokens"),
    ],
)
def test_keys_of_every_trace(tmp_path: Path, prompt: str, output: str) -> None:
    """The names of the CSV traces are known as keys, in any order, others ignored."""
    text = f'{{"{prompt}":120,"{output}":7,"x":[1]}}\n{{"y":null,"{output}":9,"{prompt}":80}}\n'
    instance, notes = read(tmp_path, text)
    assert rows(instance) == [(120, 7), (80, 9)]
    assert instance.ids == ("0", "1")
    assert notes == []


def test_bom_at_the_start_and_between_joined_files(tmp_path: Path) -> None:
    """Files joined with cat keep the marks of each; they change nothing."""
    line = b'\xef\xbb\xbf{"input_length":100,"output_length":10}\r\n'
    assert rows(read(tmp_path, line * 2)[0]) == [(100, 10)] * 2


def test_ids_are_taken_as_they_are(tmp_path: Path) -> None:
    """No trimming, case folding or Unicode normalising; odd characters stay."""
    names = [
        "a",
        "A",
        "a ",
        "\u00e9",
        "e\u0301",
        "07",
        "7",
        "x" * 3000,
        "l\\n2",
        "\u2028",
        "..",
        " ",
    ]
    lines = [f'{{"id":"{name}","prompt_tokens":1,"output_tokens":1}}\n' for name in names]
    expected = tuple("l\n2" if name == "l\\n2" else name for name in names)
    assert read(tmp_path, "".join(lines))[0].ids == expected


@pytest.mark.parametrize("value", ["7", "7.0", "true", '{"a":1}', "null", '""', '"\\ud800"'])
def test_ids_are_strings(tmp_path: Path, value: str) -> None:
    """What is no string, an empty one, and half a character name no request."""
    text = f'{GOOD}{{"id":{value},"prompt_tokens":1,"output_tokens":1}}\n'
    assert fault_lines(tmp_path, text) == [2]


def test_all_requests_have_ids_or_none(tmp_path: Path) -> None:
    """The first request decides whether there are ids; another of the other kind is a fault."""
    bare = '{"prompt_tokens":1,"output_tokens":1}\n'
    assert faults(tmp_path, GOOD + bare) == [(2, "id is missing")]
    assert "has an id" in faults(tmp_path, bare + GOOD)[0][1]


@pytest.mark.parametrize(
    "value",
    ['"64"', '"1_024"', "true", "[64]", "null", "64.0", "6.4e1", "0", "-3", "1099511627777"],
)
def test_numbers_are_json_integers(tmp_path: Path, value: str) -> None:
    """Strings, booleans, floats and numbers out of range are faults of their line."""
    text = f'{GOOD}{{"id":"b","prompt_tokens":{value},"output_tokens":1}}\n'
    [(line, message)] = faults(tmp_path, text)
    assert line == 2
    assert message.startswith("prompt_tokens is ")


def test_a_schema_of_others_means_nothing(tmp_path: Path) -> None:
    """Only documents of sortedf's own are told by the key schema; elsewhere it is ignored."""
    text = '{"schema":"trace/2","prompt_tokens":1,"output_tokens":2}\n'
    assert rows(read(tmp_path, text)[0]) == [(1, 2)]


def test_missing_key(tmp_path: Path) -> None:
    """A later line without the counts of the first is a fault that names the key."""
    text = GOOD + '{"id":"b","output_tokens":1}\n{"id":"c","input_length":1,"output_length":1}\n'
    assert faults(tmp_path, text) == [
        (2, "prompt_tokens is missing"),
        (3, "prompt_tokens is missing; output_tokens is missing"),
    ]


def test_first_line_without_both_counts(tmp_path: Path) -> None:
    """Where the first object lacks a count, the file is refused with the keys that it has."""
    [(line, message)] = faults(tmp_path, '\n{"input_length":1,"out":2}\n')
    assert line == 2
    assert "found: input_length, out" in message
    [(line, message)] = faults(tmp_path, '{"a":1}\n')
    assert line == 1
    assert "found: a" in message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1,2,3]", "not an object"),
        ('"hello"', "not an object"),
        ("null", "not an object"),
        ("42", "not an object"),
        (GOOD.strip() * 2, "extra data after the object"),
        (GOOD.strip() + " x", "extra data after the object"),
        ('{"id":"b","prompt_tokens":4 8,"output_tokens":1}', "byte 28"),
        ('{"id":"b","prompt_tokens":', "malformed"),
        ("{'id':'b'}", "malformed"),
        ("}", "malformed"),
        ('{"id":"b","prompt_tokens":1,"output_tokens":1,"x":' + "[" * 10**5, "too deeply"),
        ('{"id":"b","prompt_tokens":' + "9" * 5000 + "}", "out of range"),
        ('{"id":"b","prompt_tokens":NaN,"output_tokens":1}', "malformed"),
    ],
)
def test_lines_that_hold_no_object(tmp_path: Path, line: str, message: str) -> None:
    """Each is a fault of its line; skipped, the others are read."""
    text = f"{GOOD}{line}\n{GOOD.replace('a', 'c', 1)}"
    [(at, found)] = faults(tmp_path, text)
    assert at == 2
    assert message in found
    instance, notes = read(tmp_path, text, skip_bad_lines=True)
    assert instance.ids == ("a", "c")
    assert notes[-1].endswith("backlog: 1 line skipped: 2")


def test_broken_line_of_a_trace(tmp_path: Path) -> None:
    """The place in the line is given; skipped, the sums of the rest are right."""
    good = '{"timestamp":0,"input_length":100,"output_length":10,"hash_ids":[0]}\n'
    text = good + '{"timestamp": 30, "input_length":48 30, "hash_ids": [0, 2]}\n' + good
    assert "byte" in faults(tmp_path, text)[0][1]
    instance, _ = read(tmp_path, text, skip_bad_lines=True)
    assert instance.prompt_tokens.sum() == 200


def test_first_line_at_fault(tmp_path: Path) -> None:
    """A bad first line is a fault like any other; the first object tells the format."""
    text = '{"id":"b",\n' + GOOD
    assert fault_lines(tmp_path, text) == [1]
    assert read(tmp_path, text, skip_bad_lines=True)[0].ids == ("a",)
    assert fault_lines(tmp_path, '{"id":\n{]\n[]\n', skip_bad_lines=True) == [1, 2, 3]


def test_a_repeated_key_counts_last(tmp_path: Path) -> None:
    """Of a key that an object repeats the last value is taken."""
    text = '{"prompt_tokens":1,"prompt_tokens":2,"output_tokens":3}\n'
    assert rows(read(tmp_path, text)[0]) == [(2, 3)]


def test_bad_utf8_anywhere_in_a_line(tmp_path: Path) -> None:
    """Also where the value is not needed, a byte that is not UTF-8 is a fault of its line."""
    for line in (
        b'{"id":"b","prompt_tokens":1,"output_tokens":1,"text":"caf\xe9"}\n',
        b'{"id":"caf\xe9","prompt_tokens":1,"output_tokens":1}\n',
    ):
        text = GOOD.encode() + line
        assert fault_lines(tmp_path, text) == [2]
        assert "not valid UTF-8 (byte 0xe9)" in faults(tmp_path, text)[0][1]
        assert read(tmp_path, text, skip_bad_lines=True)[0].ids == ("a",)


def test_zero_output(tmp_path: Path) -> None:
    """A fault in sortedf's own keys; in a trace a failed request, left out and counted."""
    assert fault_lines(tmp_path, GOOD + '{"id":"b","prompt_tokens":1,"output_tokens":0}') == [2]
    trace = '{"input_length":5,"output_length":0}\n{"input_length":5,"output_length":2}\n'
    instance, notes = read(tmp_path, trace)
    assert rows(instance) == [(5, 2)]
    assert "1 row with 0 output tokens left out (line 1)" in notes[0]


def test_arrivals(tmp_path: Path) -> None:
    """Mooncake counts milliseconds, other numbers seconds; a stamp that is missing is a fault."""
    line = '{{"timestamp":{},"input_length":5,"output_length":2}}\n'
    text = line.format(1500) + line.format(500) + line.format(2499)
    assert read(tmp_path, text)[0].release.tolist() == [0, 0, 0]
    assert read(tmp_path, text, arrivals=True)[0].release.tolist() == [1, 0, 1]
    text = text.replace("input_length", "input_toks").replace("output_length", "output_toks")
    assert read(tmp_path, text, arrivals=True)[0].release.tolist() == [1000, 0, 1999]
    assert fault_lines(tmp_path, text + line.format("true"), arrivals=True) == [4]
    assert fault_lines(tmp_path, text + '{"input_toks":5,"output_toks":2}', arrivals=True) == [4]


def test_releases_and_arrivals(tmp_path: Path) -> None:
    """A release may be left out for 0; beside time stamps it is refused, not overridden."""
    bare = '{"prompt_tokens":1,"output_tokens":1}\n'
    late = '{"prompt_tokens":1,"output_tokens":1,"release":5}\n'
    assert read(tmp_path, bare + late)[0].release.tolist() == [0, 5]
    stamped = '{"prompt_tokens":1,"output_tokens":1,"timestamp":3}\n'
    [(line, message)] = faults(tmp_path, stamped + late, arrivals=True)
    assert line == 2
    assert "release" in message
    with pytest.raises(OptionError, match="arrivals"):
        read(tmp_path, late + stamped, arrivals=True)
