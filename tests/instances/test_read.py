"""The front of the readers: formats told by content, rules for the whole file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from backlog_files import fault_lines, faults, read, rows

from sortedf.errors import InputError, InvalidRequestError, OptionError
from sortedf.instances import read_backlog

OWN = "id,prompt_tokens,output_tokens\n"


@pytest.mark.parametrize("text", ["", "\n", "\r\n\n \n", "\ufeff", "\ufeff\n", OWN, OWN + "\n\n"])
def test_no_requests(tmp_path: Path, text: str) -> None:
    """An empty file, blank lines and a header alone are refused, with or without skipping."""
    for skip in (False, True):
        assert faults(tmp_path, text, skip_bad_lines=skip) == [(None, "no requests in the file")]


def test_nothing_left_after_skipping(tmp_path: Path) -> None:
    """A file of bad lines alone is no backlog, and the lines are listed before that is said."""
    notes: list[str] = []
    path = tmp_path / "x"
    path.write_text(OWN + "a,0,1\n")
    with pytest.raises(InputError, match="no requests in the file"):
        read_backlog(path, kv_tokens=9, skip_bad_lines=True, note=notes.append)
    assert notes == [
        f"left out: {path}:2: prompt_tokens is 0; it must be at least 1",
        f"{path}: 1 line skipped: 2",
    ]


def test_gzip_changes_nothing(tmp_path: Path) -> None:
    """A packed file is the same backlog."""
    text = f"{OWN}a,1,2\n"
    assert read(tmp_path, gzip.compress(text.encode()))[0] == read(tmp_path, text)[0]


@pytest.mark.parametrize("leaf", ["csv", "jsonl"])
def test_repeated_ids(tmp_path: Path, leaf: str) -> None:
    """An id that an earlier line has is a fault that names both lines; skipped, the first stays."""
    names = ["a", "b", "a", "c", "b", "a"]
    form = "{},1,{}\n" if leaf == "csv" else '{{"id":"{}","prompt_tokens":1,"output_tokens":{}}}\n'
    text = "".join(form.format(name, k + 1) for k, name in enumerate(names))
    first = 2 if leaf == "csv" else 1
    text = OWN + text if leaf == "csv" else text
    assert faults(tmp_path, text) == [
        (first + 2, f'repeats the id "a" of line {first}'),
        (first + 4, f'repeats the id "b" of line {first + 1}'),
        (first + 5, f'repeats the id "a" of line {first}'),
    ]
    instance, _ = read(tmp_path, text, skip_bad_lines=True)
    assert instance.ids == ("a", "b", "c")
    assert rows(instance) == [(1, 1), (1, 2), (1, 4)]


def test_similar_ids_are_not_repeated(tmp_path: Path) -> None:
    """Beside a repeated id, those that differ in case, blanks or accents alone stay."""
    names = ["a", "a ", "A", "a", "\u00e9", "e\u0301"]
    text = OWN + "".join(f"{name},1,1\n" for name in names)
    assert fault_lines(tmp_path, text) == [5]


def test_faults_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    """Repeated ids, which are found last, stand among the other faults by line."""
    assert fault_lines(tmp_path, f"{OWN}a,1,1\na,1,1\nb,x,1\nb,1,1\nb,2,2\n") == [3, 4, 6]


def test_many_faults_are_counted(tmp_path: Path) -> None:
    """The first 20 faults are spelled out, the others counted."""
    path = tmp_path / "x"
    path.write_text(OWN + "a,0,1\n" * 50)
    with pytest.raises(InputError) as caught:
        read_backlog(path, kv_tokens=9)
    assert len(caught.value.faults) == 20
    assert caught.value.total == 50
    assert str(caught.value).endswith("30 more (faults: 50 in all)")


def test_too_many_tokens_in_all(tmp_path: Path) -> None:
    """The line where the running sum passes 2^40 tokens is named, skipped lines or not."""
    text = OWN + "a,1,1\nx,0,0\n" + "".join(f"b{k},{2**38},1\n" for k in range(6))
    [(line, message)] = faults(tmp_path, text, skip_bad_lines=True)
    assert line == 7
    assert "2^40" in message


def test_exactly_the_most_tokens(tmp_path: Path) -> None:
    """2^40 tokens in all are accepted."""
    instance, _ = read(tmp_path, f"{OWN}a,{2**40 - 1},1\n")
    assert rows(instance) == [(2**40 - 1, 1)]


def test_sums_that_could_overflow(tmp_path: Path) -> None:
    """What the model refuses is a fault of the file, and of its line where there is one."""
    [(line, message)] = faults(tmp_path, f"{OWN}a,1,1\nb,{2**39},{2**38}\n")
    assert line == 3
    assert "2^61" in message


def test_a_bad_budget_is_not_the_files_fault(tmp_path: Path) -> None:
    """A KV budget that is none is refused as such, before the file is opened."""
    with pytest.raises(InvalidRequestError, match="kv_tokens"):
        read_backlog(tmp_path / "none", kv_tokens=0)


@pytest.mark.parametrize("option", ["tokenizer", "prompt_tokens", "output_tokens"])
def test_options_that_token_counts_do_not_take(tmp_path: Path, option: str) -> None:
    """Where the file brings its counts, an option to make them is an error."""
    for text in (f"{OWN}a,1,1\n", '{"prompt_tokens":1,"output_tokens":1}\n'):
        with pytest.raises(OptionError, match=f"{option} is only for"):
            read(tmp_path, text, **{option: "x"})


def test_arrivals_of_a_batch_file(tmp_path: Path) -> None:
    """Batch files and conversations have no time stamps."""
    for text in (
        '{"custom_id":"a","body":{}}\n',
        '{"conversations":[]}\n',
        '[{"conversations":[]}]',
    ):
        with pytest.raises(OptionError, match="no time stamps"):
            read(tmp_path, text, arrivals=True)


def test_json_array_of_requests(tmp_path: Path) -> None:
    """An array is refused on its first line, with the reason."""
    row = '{"prompt_tokens":1,"output_tokens":1}'
    for text in (f"[{row},{row}]", f"\n[\n{row},\n{row}\n]\n"):
        [(line, message)] = faults(tmp_path, text)
        assert line == 1 + text.startswith("\n")
        assert message == "this is a JSON array, not one object a line"


def test_one_object_over_several_lines(tmp_path: Path) -> None:
    """A JSON document is told from JSON lines, also when a line of it could be a request."""
    row = '{"prompt_tokens":1,"output_tokens":1}'
    for text in (
        '{\n"prompt_tokens":1,\n"output_tokens":1}',
        f'{{"requests":[\n{row},\n{row}\n]}}',
    ):
        [(line, message)] = faults(tmp_path, text)
        assert line == 1
        assert "one JSON object over several lines" in message


@pytest.mark.parametrize("schema", ["sortedf.plan/1", "sortedf.bound/1", "sortedf.plan/7"])
def test_documents_of_sortedf_are_no_backlogs(tmp_path: Path, schema: str) -> None:
    """Plans and certificates are refused by name, in either layout, whole or cut off."""
    row = '{"prompt_tokens":1,"output_tokens":1}'
    for text in (
        f'{{"schema":"{schema}","requests":[\n{row}\n]}}\n',
        f'{{ "schema" : "{schema}"}}\n{row}\n',
        f'{{"a":1,"schema":"{schema}"}}\n{row}\n',
        f'{{"a":1,\n"schema":"{schema}"}}',
        f'{{"schema":"{schema}","requests":[\n{row}',
    ):
        [(line, message)] = faults(tmp_path, text)
        assert line == 1
        assert schema in message
        assert "verify" in message


def test_notes_are_warnings_by_default(tmp_path: Path) -> None:
    """Without ``note`` each line is a UserWarning that points at the caller."""
    path = tmp_path / "x"
    path.write_text("ContextTokens,GeneratedTokens\n1,0\n1,1\n")
    with pytest.warns(UserWarning, match="1 row with 0 output tokens left out") as caught:
        read_backlog(path, kv_tokens=9)
    assert caught[0].filename == __file__


def test_text_that_is_no_backlog(tmp_path: Path) -> None:
    """Prose, and a first line that is JSON but no object, are refused on line 1."""
    for text in ("# Notes\n\nOn this and that.\n", '"hello"\n{"prompt_tokens":1}\n', "null\n"):
        assert fault_lines(tmp_path, text) == [1]
