"""``--output-tokens FILE|N``: a number, or a file of predictions by id."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortedf.errors import InputError, OptionError, SortedfError
from sortedf.instances.predictions import Predictions, read_predictions


def by_id(tmp_path: Path, content: str | bytes) -> dict[str, int]:
    file = tmp_path / "predictions"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    predictions = read_predictions(str(file))
    assert predictions is not None
    return dict(predictions.by_id)


def faults(tmp_path: Path, content: str | bytes) -> list[tuple[int | None, str]]:
    with pytest.raises(InputError) as caught:
        by_id(tmp_path, content)
    assert {fault.source for fault in caught.value.faults} == {str(tmp_path / "predictions")}
    return [(fault.line, fault.message) for fault in caught.value.faults]


def test_nothing_given() -> None:
    """Without the option there are no predictions."""
    assert read_predictions(None) is None


@given(st.integers(1, 2**40))
def test_a_number_stands_for_all_requests(number: int) -> None:
    """N, as a number or in digits, is the output length of every id."""
    for value in (number, str(number)):
        predictions = read_predictions(value)
        assert predictions is not None
        assert predictions.tokens("a", "b") == number


@pytest.mark.parametrize("value", [0, -1, True, 1.5, 2**40 + 1, "0", "-5", "1.5", "+3", "9" * 16])
def test_numbers_that_are_no_length(value: Any) -> None:
    """A number must be whole and from 1 to 2^40; otherwise the option is named in the error."""
    with pytest.raises(OptionError, match="--output-tokens is"):
        read_predictions(value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """What is no number is a path, and the error names it."""
    with pytest.raises(InputError, match="nothing-here"):
        read_predictions(str(tmp_path / "nothing-here"))


@pytest.mark.parametrize("key", ["id", "custom_id"])
def test_csv_and_jsonl_hold_the_same(tmp_path: Path, key: str) -> None:
    """Both formats, gzipped or not, in any order of columns, give the same predictions."""
    rows = {"a": 5, "b c": 6, "é": 2**40}
    table = f"model, output_tokens ,{key}\n" + "".join(f"m, {n} ,{k}\n" for k, n in rows.items())
    lines = "\n".join(json.dumps({"output_tokens": n, key: k, "x": []}) for k, n in rows.items())
    for text in (table, table.replace("\n", "\r\n"), "\ufeff" + table, lines, "\n\n" + lines):
        assert by_id(tmp_path, text) == rows
        assert by_id(tmp_path, gzip.compress(text.encode())) == rows


def test_custom_id_wins(tmp_path: Path) -> None:
    """In a file with both columns the custom_id is what names the request."""
    assert by_id(tmp_path, "id,custom_id,output_tokens\nx,a,5\n") == {"a": 5}


def test_ids_are_taken_as_they_are(tmp_path: Path) -> None:
    """Quoted ids may hold commas and line ends; nothing is trimmed or made a number."""
    text = 'id,output_tokens\n"a,b",1\n"line1\nline2",2\n 07,3\n7,4\n'
    assert by_id(tmp_path, text) == {"a,b": 1, "line1\nline2": 2, " 07": 3, "7": 4}


def test_lines_of_faults_in_csv(tmp_path: Path) -> None:
    """Each bad row is a fault of the file of predictions, at the line where it begins."""
    text = (
        "id,output_tokens\na,1\nb,\nc,0\nd,-1\ne,1.5\nf,1_0\ng,\uff11\uff12\n,5\na,3\n"
        '"two\nlines",x\nh\ni,1,2\n\nj,99999999999999999999\nk,2\n'
    )
    found = faults(tmp_path, text)
    assert found[0] == (3, 'output_tokens is "", not a whole number')
    assert found[1] == (4, "output_tokens is 0; it must be at least 1")
    assert found[7] == (10, "repeats the id 'a' of line 2")
    assert found[9] == (13, "1 fields, the header has 2")
    assert [line for line, _ in found] == [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 16]


def test_lines_of_faults_in_jsonl(tmp_path: Path) -> None:
    """The same rules hold in JSON Lines, where a number is a JSON integer and an id a text."""
    lines = [
        '{"id": "a", "output_tokens": 5}',
        '{"id": "b", "output_tokens": "5"}',
        '{"id": "c", "output_tokens": 5.0}',
        '{"id": "d", "output_tokens": true}',
        '{"id": "e"}',
        '{"id": 7, "output_tokens": 5}',
        '{"output_tokens": 5}',
        '{"id": "a", "output_tokens": 5}',
        "[]",
        '{"id": "f", "output_tokens"',
    ]
    found = faults(tmp_path, "\n".join(lines))
    assert [line for line, _ in found] == list(range(2, 11))
    assert found[4] == (6, "id is 7; it must be a text that is not empty")
    assert found[6] == (8, "repeats the id 'a' of line 1")


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b"", None, "empty"),
        (b"\n \n", None, "empty"),
        (b"id,output_tokens\n", None, "no predictions"),
        (b"id,tokens\na,5\n", 1, "output_tokens"),
        (b"\nname,output_tokens\na,5\n", 2, "id and output_tokens"),
        (b"id,output_tokens\na,5\n\xe9,6\n", 3, "UTF-8"),
        (b'id,output_tokens\na,5\n"b,6\nc,7\n', 3, "not valid CSV"),
        (b'id,output_tokens\n"a"b,5\n', 2, "not valid CSV"),
    ],
)
def test_files_that_cannot_be_read(
    tmp_path: Path, content: bytes, line: int | None, message: str
) -> None:
    """A file that is no table of predictions is one fault that says what it lacks."""
    [(number, text)] = faults(tmp_path, content)
    assert number == line
    assert message in text


def test_unknown_ids_are_counted_once() -> None:
    """Predictions that no request uses are one note with their number, or none."""
    notes: list[str] = []
    predictions = Predictions(by_id={"a": 1, "b": 2, "c": 3}, source="p.csv")
    predictions.note_unknown({"a", "b", "c", "d"}, notes.append)
    assert notes == []
    predictions.note_unknown({"b", "c"}, notes.append)
    predictions.note_unknown({"x"}, notes.append)
    assert [note.split(" for ")[0] for note in notes] == [
        "p.csv: 1 prediction is",
        "p.csv: 3 predictions are",
    ]


@given(st.data())
def test_damaged_files(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever the bytes are, the outcome is predictions or one of sortedf's own errors."""
    start = data.draw(
        st.sampled_from(
            [
                b'id,output_tokens\n"a\n",5\nb,6\n',
                b'{"id": "a", "output_tokens": 5}\n{"id": "b", "output_tokens": 6}',
            ]
        )
    )
    text = bytearray(start)
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        found = by_id(tmp_path_factory.getbasetemp(), bytes(text))
    except SortedfError:
        return
    assert found
    assert all(found)
    assert min(found.values()) >= 1
