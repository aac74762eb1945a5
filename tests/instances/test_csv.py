"""CSV files of token counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from backlog_files import fault_lines, faults, read, rows

from sortedf.errors import OptionError

OWN = "id,prompt_tokens,output_tokens\n"


@pytest.mark.parametrize(
    "header",
    [
        "prompt_tokens,output_tokens",
        "ContextTokens,GeneratedTokens",
        "num_prefill_tokens,num_decode_tokens",
        "Request tokens,Response tokens",
        "PromptTokenCount,CompletionTokenCount",
        "prompt_size,token_size",
        "input_toks,output_toks",
        "input_length,output_length",
        "PROMPT_TOKENS, Output_Tokens ",
        '"Request tokens","Response tokens"',
    ],
)
def test_column_names_of_every_trace(tmp_path: Path, header: str) -> None:
    """Each trace's names are known, in any case, with blanks around and in quotes."""
    instance, notes = read(tmp_path, f"{header}\n120,7\n80,9\n")
    assert rows(instance) == [(120, 7), (80, 9)]
    assert instance.ids == ("0", "1")
    assert notes == []


def test_columns_in_any_order_and_others_ignored(tmp_path: Path) -> None:
    """Columns are found by name; those without meaning may hold anything, also twice."""
    text = "x,output_tokens,id,x,prompt_tokens\n?,7,b,,120\n?,9,a,é,80\n"
    instance, _ = read(tmp_path, text)
    assert rows(instance) == [(120, 7), (80, 9)]
    assert instance.ids == ("b", "a")


def test_own_names_go_before_those_of_traces(tmp_path: Path) -> None:
    """A file with a trace's columns beside sortedf's own is read by sortedf's own."""
    text = "input_length,output_length,prompt_tokens,output_tokens\n1,2,30,40\n"
    assert rows(read(tmp_path, text)[0]) == [(30, 40)]


def test_request_id_names_requests_unless_there_is_an_id(tmp_path: Path) -> None:
    """Traces number their requests in request_id; a column id goes before it."""
    text = "request_id,prompt_tokens,output_tokens\nbench-7,1,2\n"
    assert read(tmp_path, text)[0].ids == ("bench-7",)
    text = "request_id,id,prompt_tokens,output_tokens\nbench-7,mine,1,2\n"
    assert read(tmp_path, text)[0].ids == ("mine",)


def test_release_is_always_honoured(tmp_path: Path) -> None:
    """A column of releases, in steps, is part of the backlog; 0 is a release, -1 is none."""
    text = "prompt_tokens,output_tokens,release\n1,2,0\n3,4,17\n"
    assert read(tmp_path, text)[0].release.tolist() == [0, 17]
    assert fault_lines(tmp_path, text + "5,6,-1\n7,8,\n9,9,1.5\n") == [4, 5, 6]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("ts,in,out", "the prompt tokens (prompt_tokens"),
        ("ts,in,out", "found: ts, in, out"),
        ("Request tokens,Model", "no column or key for the output tokens"),
        ("Request tokens,Model", "Response tokens"),
        ("2023-11-16 18:17:03,120,7", "the first row names no columns"),
        ("Request tokens,Request tokens,Response tokens", "2 times"),
        ("id,ID,prompt_tokens,output_tokens", "2 times"),
    ],
)
def test_header_that_does_not_do(tmp_path: Path, header: str, message: str) -> None:
    """Missing and repeated columns, and data where the header should be, are faults of line 1."""
    [(line, text)] = faults(tmp_path, f"{header}\n5,120,7\n")
    assert line == 1
    assert message in text


@pytest.mark.parametrize(
    "cell",
    [
        "1_024",
        '"1,024"',
        "1.0",
        "1e3",
        "0x40",
        "+64",
        "\uff11\uff12",
        "٣",
        "²",
        "",
        " ",
        "x",
        "true",
        "NaN",
    ],
)
def test_numbers_are_plain_digits(tmp_path: Path, cell: str) -> None:
    """What int() would take, or a spreadsheet writes, is no number of tokens."""
    [(line, text)] = faults(tmp_path, f"{OWN}a,5,7\nb,{cell},7\n")
    assert line == 3
    assert text.startswith("prompt_tokens is ")


@pytest.mark.parametrize("cell", [" 80", "80 ", "\t80", '"80"', "080"])
def test_blanks_and_quotes_around_numbers(tmp_path: Path, cell: str) -> None:
    """Blanks, quotes and leading zeros do not change a number."""
    assert rows(read(tmp_path, f"{OWN}a,{cell},9\n")[0]) == [(80, 9)]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("0,7", "prompt_tokens is 0; it must be at least 1"),
        ("7,0", "output_tokens is 0; it must be at least 1"),
        ("-5,7", "prompt_tokens is -5; it must be at least 1"),
        ("7,-5", "output_tokens is -5; it must be at least 1"),
        ("7,1099511627777", "output_tokens is over 2^40"),
        (f"7,{'9' * 5000}", "output_tokens is "),
        ("0,x", 'prompt_tokens is 0; it must be at least 1; output_tokens is "x"'),
    ],
)
def test_numbers_out_of_range(tmp_path: Path, cells: str, message: str) -> None:
    """Zero, negative and huge lengths are told apart, and all that is wrong in a row is said."""
    [(line, text)] = faults(tmp_path, f"{OWN}a,1,1\nb,{cells}\n")
    assert line == 3
    assert message in text


def test_rows_too_short_and_too_long(tmp_path: Path) -> None:
    """A row with other than the header's number of cells is a fault; a blank line is none."""
    text = f"{OWN}a,1,1\n\nb,2\n  \nc,3,3,3\nd,4,4\n"
    assert fault_lines(tmp_path, text) == [4, 6]
    instance, notes = read(tmp_path, text, skip_bad_lines=True)
    assert instance.ids == ("a", "d")
    assert notes[-1].endswith("2 lines skipped: 4, 6")


def test_line_of_a_row_is_where_it_begins(tmp_path: Path) -> None:
    """An id may hold line breaks, commas and quotes; lines are counted as an editor does."""
    text = OWN + '"a\nb, ""c""\r\nd",1,1\nbad,x,1\n'
    assert fault_lines(tmp_path, text) == [5]
    assert read(tmp_path, text, skip_bad_lines=True)[0].ids == ('a\nb, "c"\r\nd',)


def test_separators_of_unicode_end_no_line(tmp_path: Path) -> None:
    """U+2028, U+2029, U+0085, VT and FF may stand in an id; only LF ends a line."""
    name = "a\u2028b\u2029c\u0085d\x0be\x0cf"
    instance, _ = read(tmp_path, f"{OWN}{name},1,2\n")
    assert instance.ids == (name,)


def test_damaged_quotes(tmp_path: Path) -> None:
    """A quote that is not closed is a fault of its line, even when bad lines are skipped."""
    text = f'{OWN}a,1,1\n"b,2,2\nc,3,3\n'
    assert fault_lines(tmp_path, text) == [3]
    assert fault_lines(tmp_path, text, skip_bad_lines=True) == [3]
    assert fault_lines(tmp_path, f'{OWN}a,1,1\n"b"b,2,2\nc,3,3\n') == [3]


def test_lone_cr_and_long_cell(tmp_path: Path) -> None:
    """A CR inside a row and a cell beyond the csv module's limit are faults of their lines."""
    assert fault_lines(tmp_path, f"{OWN}a,1,1\rb,2,2\nc,3,3\n") == [2]
    assert fault_lines(tmp_path, f"{OWN}{'a' * 140_000},1,1\nc,3,3\n") == [2]


def test_crlf(tmp_path: Path) -> None:
    """CRLF ends a line like LF does, with either at the end of the file or none."""
    for end in ("\r\n", "\n", ""):
        text = f"prompt_tokens,output_tokens\r\n120,7\r\n80,9{end}"
        assert rows(read(tmp_path, text)[0]) == [(120, 7), (80, 9)]


def test_zero_output_in_a_trace_is_a_failed_request(tmp_path: Path) -> None:
    """In a trace such rows are left out, counted and listed; the others keep their order."""
    head = "Timestamp,Model,Request tokens,Response tokens\n"
    text = head + "5,m,472,18\n45,m,1087,0\n118,m,417,276\n120,m,0,0\n"
    instance, notes = read(tmp_path, text)
    assert rows(instance) == [(472, 18), (417, 276)]
    [text] = notes
    assert text.endswith("backlog: 2 rows with 0 output tokens left out (lines 3, 5)")
    _, [text] = read(tmp_path, head + "1,m,5,5\n" + "2,m,3,0\n" * 25)
    assert "25 rows" in text
    assert text.endswith("22 and 5 more)")


def test_zero_output_does_not_excuse_the_rest_of_a_row(tmp_path: Path) -> None:
    """A failed request must still be a row: a bad prompt is a fault; so is a zero prompt alone."""
    head = "ContextTokens,GeneratedTokens\n"
    assert fault_lines(tmp_path, f"{head}x,0\n0,5\n-1,0\n5,5\n") == [2, 3, 4]


def test_not_utf8(tmp_path: Path) -> None:
    """A byte that is not UTF-8 is a fault of its line wherever it stands; others are read."""
    text = b"id,prompt_tokens,output_tokens,model\n\xc3\xa9,1,1,m\nb,2,2,mod\xe8le\nc\xff,3,3,m\n"
    assert fault_lines(tmp_path, text) == [3, 4]
    assert "byte 0xe8" in faults(tmp_path, text)[0][1]
    assert read(tmp_path, text, skip_bad_lines=True)[0].ids == ("é",)
    assert fault_lines(tmp_path, b"prompt_tokens,output_tokens,\xe8\n1,2,3\n") == [1]


def test_time_stamps_are_ignored_unless_asked_for(tmp_path: Path) -> None:
    """Releases come from time stamps with ``arrivals`` only: seconds from the earliest."""
    text = "arrived_at,num_prefill_tokens,num_decode_tokens\n7.5,1,1\n5.25,2,2\n8.3,3,3\n"
    assert read(tmp_path, text)[0].release.tolist() == [0, 0, 0]
    assert read(tmp_path, text, arrivals=True)[0].release.tolist() == [2, 0, 3]


def test_bad_time_stamps_matter_when_asked_for(tmp_path: Path) -> None:
    """A stamp that is none is a fault of its line, but only where arrivals are wanted."""
    head = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4,1\n"
    text = f"{head}16/11/2023 18:17,3,8\n,3,8\n5,3,8\n2023-02-30 00:00:00,3,8\n"
    assert len(read(tmp_path, text)[0]) == 5
    assert fault_lines(tmp_path, text, arrivals=True) == [3, 4, 5, 6]


def test_arrivals_that_cannot_be_had(tmp_path: Path) -> None:
    """No time stamps, or releases already, make ``arrivals`` an option that the file refuses."""
    for columns in ("", ",release"):
        text = f"prompt_tokens,output_tokens{columns}\n1,2{',3' if columns else ''}\n"
        with pytest.raises(OptionError, match="arrivals"):
            read(tmp_path, text, arrivals=True)


def test_mooncake_stamps_are_milliseconds_in_csv_too(tmp_path: Path) -> None:
    """Time stamps beside input_length and output_length count milliseconds."""
    text = "timestamp,input_length,output_length\n0,1,1\n2999,1,1\n"
    assert read(tmp_path, text, arrivals=True)[0].release.tolist() == [0, 2]
