"""Inputs that broke neighbouring tools, and public traces, where the shared folder is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sortedf.errors import InputError
from sortedf.instances import read_backlog


def read(path: Path, **options: Any) -> tuple[list[tuple[int, int]], list[str], list[str]]:
    """Read on 10,000 tokens; give the lengths, the ids and the notes."""
    notes: list[str] = []
    if b"custom_id" in path.read_bytes():
        options["prompt_tokens"] = "chars/4"
    instance = read_backlog(path, kv_tokens=10_000, note=notes.append, **options)
    lengths = list(
        zip(instance.prompt_tokens.tolist(), instance.output_tokens.tolist(), strict=True)
    )
    return lengths, list(instance.ids), notes


THREE = [(472, 18), (1087, 230), (417, 276)]
TWO = [(120, 7), (80, 9)]


@pytest.mark.parametrize(
    ("case", "lengths"),
    [
        ("01-bom-jsonl/mooncake_bom.jsonl", [(100, 10), (200, 20)]),
        ("03-crlf/azure_crlf.csv", TWO),
        ("17-zero-output-rows/azure.csv", [(80, 9)]),
        ("17-zero-output-rows/burstgpt.csv", [(472, 18), (417, 276)]),
        ("19-header-variants/burst6.csv", THREE),
        ("19-header-variants/burst8.csv", THREE),
        ("19-header-variants/quoted.csv", THREE),
        ("19-header-variants/reordered.csv", THREE),
        ("19-header-variants/vidur_new.csv", THREE),
        ("19-header-variants/vidur_old.csv", THREE),
        ("19-header-variants/spaced.csv", THREE),
        ("19-header-variants/lower.csv", THREE),
    ],
)
def test_token_counts(shared: Path, case: str, lengths: list[tuple[int, int]]) -> None:
    """Files that are good in an odd way give the lengths that are in them."""
    assert read(shared / "cases" / case)[0] == lengths


@pytest.mark.parametrize(
    ("case", "ids"),
    [
        ("01-bom-jsonl/batch_bom.jsonl", ["a-1", "a-2"]),
        ("01-bom-jsonl/bom_in_middle.jsonl", ["a-1", "a-2"]),
        ("03-crlf/batch_crlf.jsonl", ["a-1", "a-2", "a-3"]),
        ("03-crlf/batch_mixed.jsonl", ["a-1", "a-2", "a-3"]),
        ("05-u2028-in-string/batch.jsonl", ["a-1", "a-2", "a-3", "a-4"]),
        (
            "23-duplicate-custom-id/lookalikes.jsonl",
            ["a", "A", "a ", "\u00e9", "e\u0301", "07", "7"],
        ),
    ],
)
def test_batch_files(shared: Path, case: str, ids: list[str]) -> None:
    """Batch files that are good in an odd way give their requests under their own names."""
    assert read(shared / "cases" / case)[1] == ids


def test_odd_ids(shared: Path) -> None:
    """Long ids, line breaks, quotes, emoji, paths and separators are names like others."""
    _, ids, _ = read(shared / "cases/25-custom-id-types/odd_strings.jsonl")
    assert ids[1:] == ["line1\nline2", 'quote"back\\slash', "😀", "../../etc/x", "a,b;c"]


@pytest.mark.parametrize(
    ("case", "lines"),
    [
        ("03-crlf/azure_cr_only.csv", [None]),
        ("03-crlf/batch_crlf_bad_line2.jsonl", [2]),
        ("07-not-utf8/latin1.jsonl", [2]),
        ("07-not-utf8/latin1_burst.csv", [3]),
        ("07-not-utf8/utf16le.jsonl", [None]),
        ("07-not-utf8/utf16le_azure.csv", [None]),
        ("09-empty-and-header-only/empty.csv", [None]),
        ("09-empty-and-header-only/empty.jsonl", [None]),
        ("09-empty-and-header-only/header_only.csv", [None]),
        ("09-empty-and-header-only/only_newlines.jsonl", [None]),
        ("09-empty-and-header-only/other_columns.csv", [1]),
        ("09-empty-and-header-only/no_header.csv", [1]),
        ("11-json-but-not-an-object/array.jsonl", [1]),
        ("11-json-but-not-an-object/batch.jsonl", [2, 3, 4, 5, 6, 7, 8]),
        ("11-json-but-not-an-object/two_objects_one_line.jsonl", [1]),
        ("13-numbers-as-strings/batch.jsonl", [1, 2]),
        ("13-numbers-as-strings/mooncake.jsonl", [2, 3, 4, 5, 6, 7, 8]),
        ("13-numbers-as-strings/vidur.csv", [4, 5, 6, 7, 8]),
        ("15-mooncake-broken-record/mooncake.jsonl", [3]),
        ("19-header-variants/missing_column.csv", [1]),
        ("19-header-variants/repeated_column.csv", [1]),
        ("19-header-variants/short_row.csv", [3]),
        ("23-duplicate-custom-id/batch.jsonl", [3, 4]),
        ("25-custom-id-types/bad_types.jsonl", [2, 3, 4, 5]),
        ("25-custom-id-types/lone_surrogate.jsonl", [2, 3]),
    ],
)
def test_refusals(shared: Path, case: str, lines: list[int | None]) -> None:
    """Bad files are refused with exactly the lines that are bad."""
    with pytest.raises(InputError) as caught:
        read(shared / "cases" / case)
    assert [fault.line for fault in caught.value.faults] == lines


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("03-crlf/azure_cr_only.csv", "CR only"),
        ("07-not-utf8/latin1.jsonl", "not valid UTF-8 (byte 0xe9)"),
        ("07-not-utf8/utf16le_azure.csv", "UTF-16"),
        ("09-empty-and-header-only/empty.csv", "no requests in"),
        ("09-empty-and-header-only/other_columns.csv", "found: ts, in, out"),
        ("11-json-but-not-an-object/array.jsonl", "this is a JSON array, not one object a line"),
        ("11-json-but-not-an-object/two_objects_one_line.jsonl", "extra data after the object"),
        ("19-header-variants/missing_column.csv", "Response tokens"),
    ],
)
def test_what_refusals_say(shared: Path, case: str, text: str) -> None:
    """The message names the cause, so that the user knows what to do."""
    with pytest.raises(InputError) as caught:
        read(shared / "cases" / case)
    assert text in str(caught.value)


def test_skipped_and_failed_rows_are_counted(shared: Path) -> None:
    """What is left out is printed: the broken record when asked to skip, failed requests always."""
    cases = shared / "cases"
    lengths, _, notes = read(
        cases / "15-mooncake-broken-record/mooncake.jsonl", skip_bad_lines=True
    )
    assert sum(prompt for prompt, _ in lengths) == 400
    assert notes[-1].endswith("1 line skipped: 3")
    _, _, notes = read(cases / "17-zero-output-rows/burstgpt.csv")
    assert notes[-1].endswith("2 rows with 0 output tokens left out (lines 3, 5)")


def test_time_stamps(shared: Path) -> None:
    """Azure's stamps of both years are read; a bad one is refused; no zone is UTC."""
    folder = shared / "cases/21-azure-timestamps"
    for name, releases in (
        ("azure2023.csv", [0, 0, 1, 1]),
        ("azure2024.csv", [0, 0, 2]),
        ("mixed_zone.csv", [0, 0]),
    ):
        instance = read_backlog(folder / name, kv_tokens=10_000, arrivals=True)
        assert instance.release.tolist() == releases
    with pytest.raises(InputError, match=r"bad_time\.csv:3: "):
        read_backlog(folder / "bad_time.csv", kv_tokens=10_000, arrivals=True)


@pytest.mark.parametrize(
    ("trace", "n", "last_release"),
    [
        ("arxiv_summarization.csv", 28_257, None),
        ("azure_2023_conversation.csv", 19_366, 3501),
        ("mooncake_conversation.jsonl", 12_031, 3536),
        ("vllm_runs/RTX4090-llama-3.1-8b/requests.jsonl", 300, 29),
    ],
)
def test_public_traces(shared: Path, trace: str, n: int, last_release: int | None) -> None:
    """Each public trace is read whole and without a note, its time stamps too where it has them."""
    path = shared / "traces" / trace
    lengths, _, notes = read(path)
    assert len(lengths) == n
    assert notes == []
    if last_release is not None:
        instance = read_backlog(path, kv_tokens=10_000, arrivals=True)
        assert instance.release[0] == 0
        assert instance.release.max() == last_release
