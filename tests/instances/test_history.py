"""Finished requests as they are read: what was known on arrival, and nothing of what came after."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batch_files import chat, completion

import sortedf
from sortedf.errors import InputError, OptionError
from sortedf.instances.history import read_history, read_requests
from sortedf.instances.traits import History


def history(path: Path, text: str | list[Any], **options: Any) -> tuple[History, list[str]]:
    """Write a file and read it as a history; notes, too."""
    notes: list[str] = []
    lines = [text] if isinstance(text, str) else [json.dumps(entry) + "\n" for entry in text]
    path.write_text("".join(lines))
    return read_history(path, note=notes.append, **options), notes


def answered(name: str, output: int, prompt: int = 5, status: int = 200) -> dict[str, Any]:
    """Build a line of an output file."""
    usage = {"prompt_tokens": prompt, "completion_tokens": output}
    body = {"choices": [{}], "usage": usage} if status == 200 else None
    return {"custom_id": name, "response": {"status_code": status, "body": body}, "error": None}


def test_columns_known_on_arrival_alone(tmp_path: Path) -> None:
    """Model and limit are read, totals are not, unless they are asked for by name."""
    text = (
        "prompt_tokens,output_tokens,Model,max_tokens,total,prompt\n"
        '5,7,a,100,12,"Why?\nWell"\n6,9,b,,15,\n'
    )
    read, notes = history(tmp_path / "h.csv", text)
    assert read.traits.names == ["prompt tokens", "limit", "text", "model"]
    assert read.traits.columns == {"model": ["a", "b"]}
    assert read.traits.limits is not None
    assert read.traits.limits.tolist() == [100, np.inf]
    assert read.traits.texts == ["Why?\nWell", ""]
    assert read.output_tokens.tolist() == [7, 9]
    assert notes == []
    more, _ = history(tmp_path / "h.csv", text, columns=["Total"])
    assert more.traits.columns["total"] == ["12", "15"]
    with pytest.raises(InputError, match="no column 'colour'; found: max_tokens, model"):
        history(tmp_path / "h.csv", text, columns=["colour"])
    with pytest.raises(InputError, match="what is to be learnt"):
        history(tmp_path / "h.csv", text, columns=["output_tokens"])


def test_jsonl_keys(tmp_path: Path) -> None:
    """Keys of JSON count as columns do; values of any type, and those that are missing."""
    rows = [
        {"input_length": 5, "output_length": 7, "task": 1, "timestamp": 2000},
        {"input_length": 6, "output_length": 9, "timestamp": 1000, "max_tokens": 12},
    ]
    read, _ = history(tmp_path / "h.jsonl", rows)
    assert read.output_tokens.tolist() == [9, 7]  # in the order of arrival
    assert read.traits.columns == {"task": [None, 1]}
    assert read.traits.limits is not None
    assert read.traits.limits.tolist() == [12, np.inf]
    assert read.traits.hours is None


def test_order_and_hours(tmp_path: Path) -> None:
    """Stamps order a history; their hours are a trait where they are dates and span a day."""
    head = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    rows = "2024-05-02 06:30:00,2,20\n2024-05-01 00:15:00,1,10\n2024-05-02 18:00:00+02:00,3,30\n"
    read, _ = history(tmp_path / "h.csv", head + rows)
    assert read.output_tokens.tolist() == [10, 20, 30]
    assert read.traits.hours is not None
    np.testing.assert_allclose(read.traits.hours, [0.25, 6.5, 16])
    short, _ = history(tmp_path / "h.csv", head + rows.replace("05-01 00:15", "05-02 00:15"))
    assert short.output_tokens.tolist() == [10, 20, 30]
    assert short.traits.hours is None
    counted, _ = history(tmp_path / "h.csv", head + "90000,1,1\n0,2,2\n")
    assert counted.output_tokens.tolist() == [2, 1]
    assert counted.traits.hours is None


def test_releases_order_a_history(tmp_path: Path) -> None:
    """Where there are releases they say who came first, even beside stamps."""
    text = "prompt_tokens,output_tokens,release,timestamp\n1,1,9,0\n2,2,3,1\n"
    read, _ = history(tmp_path / "h.csv", text)
    assert read.output_tokens.tolist() == [2, 1]


def test_answers_of_a_batch(tmp_path: Path) -> None:
    """Lengths are those of the usage; what was not answered, or has several answers, is left out.

    The first answer to a request stands.
    """
    entries = [
        chat("a", "Summarise: x\ny", model="big", max_tokens=50, metadata={"task": "sum"}),
        completion("b", "Why?", model="small"),
        completion("c", "Why?", n=2),
        completion("d", "Never answered"),
        completion("e", [1, 2, 3]),
        completion("f", "Failed"),
    ]
    answers = tmp_path / "out.jsonl"
    lines = [
        answered("b", 30, 8),
        answered("a", 20, 7),
        answered("c", 60),
        answered("e", 9, 3),
        answered("b", 31, 8),
        answered("f", 1, status=400),
        {"custom_id": None, "response": None, "error": {"line": 9}},
    ]
    answers.write_text("".join(json.dumps(line) + "\n" for line in lines))
    read, notes = history(tmp_path / "b.jsonl", entries, answers=answers)
    assert read.traits.prompt_tokens.tolist() == [7, 8, 3]
    assert read.output_tokens.tolist() == [20, 30, 9]
    assert read.traits.texts == ["Summarise: x\ny", "Why?", ""]
    assert read.traits.columns == {"model": ["big", "small", "m"], "task": ["sum", None, None]}
    assert read.traits.limits is not None
    assert read.traits.limits.tolist() == [50, 8, 8]
    assert notes == ["4 sequences without an answer, or one of several of a request, left out"]
    counted, _ = history(tmp_path / "b.jsonl", entries, answers=answers, prompt_tokens="chars/4")
    assert counted.traits.prompt_tokens.tolist() == [4, 1, 3]


@pytest.mark.parametrize("packed", [False, True])
def test_requests_without_outputs(tmp_path: Path, packed: bool) -> None:
    """What is to be predicted needs no outputs, and those that it has are not looked at."""
    path = tmp_path / ("b.csv.gz" if packed else "b.csv")
    text = "id,prompt_tokens,task\nx,5,sum\ny,6,\n"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    found = read_requests(path, note=print)
    assert found.instance.ids == ("x", "y")
    assert found.instance.output_tokens.tolist() == [1, 1]
    assert found.traits.columns == {"task": ["sum", ""]}
    path = tmp_path / "b.jsonl"
    rows = [{"input_length": 5, "output_length": 77, "timestamp": 5000 * k} for k in (1, 2)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_requests(path, note=print)
    assert found.instance.output_tokens.tolist() == [1, 1]
    assert found.instance.release.tolist() == [0, 0]
    assert list(found.seconds) == [0, 5]
    path.write_text(json.dumps(completion("a", ["One", "Two"], n=2)) + "\n")
    several = read_requests(path, prompt_tokens="chars/1", note=print)
    assert several.instance.ids == ("a#0", "a#1", "a#2", "a#3")
    assert several.traits.texts == ["One", "One", "Two", "Two"]


def test_sharegpt(tmp_path: Path) -> None:
    """Conversations are finished requests as they stand."""
    turns = [{"from": "human", "value": "How?"}, {"from": "gpt", "value": "So it goes."}]
    (tmp_path / "s.json").write_text(json.dumps([{"id": "1", "conversations": turns}]))
    read = read_history(tmp_path / "s.json", prompt_tokens="chars/4", note=lambda text: None)
    assert (read.traits.prompt_tokens.tolist(), read.output_tokens.tolist()) == ([1], [3])


def test_refused(tmp_path: Path) -> None:
    """A batch without its answers, answers that are none, and bad limits: a line each."""
    batch = [completion("a", "Why?")]
    with pytest.raises(OptionError, match=r"--answers"):
        history(tmp_path / "b.jsonl", batch)
    answers = tmp_path / "out.jsonl"
    answers.write_text(json.dumps(answered("z", 3)) + "\n")
    with pytest.raises(InputError, match=r"out.jsonl: no answer to a request of the batch"):
        history(tmp_path / "b.jsonl", batch, answers=answers)
    with pytest.raises(OptionError, match="answers are to a batch file"):
        history(tmp_path / "h.csv", "prompt_tokens,output_tokens\n1,1\n", answers=answers)
    for text, fault in (
        ("{torn\n", "out.jsonl:1: JSON is malformed"),
        (
            '{"custom_id": "a", "response": {"status_code": 200, "body": {}}}\n',
            ":1: .*without usage",
        ),
        ('{"custom_id": "a", "response": {"status_code": 200, "body": {"usage": 3}}}\n', ":1: Exp"),
        ('{"id": "a"}\n', "missing required field `custom_id`"),
    ):
        answers.write_text(text)
        with pytest.raises(InputError, match=fault):
            history(tmp_path / "b.jsonl", batch, answers=answers)
    head = "prompt_tokens,output_tokens,max_tokens\n1,1,\n1,1,"
    for value in ("0", "-3", "many", "1.5"):
        with pytest.raises(InputError, match=r"h.csv:3: max_tokens is"):
            history(tmp_path / "h.csv", head + value + "\n")
    with pytest.raises(InputError, match=r"h.csv:1: no column or key for the output tokens"):
        history(tmp_path / "h.csv", "prompt_tokens\n1\n")


def test_bad_lines_are_left_out_when_asked(tmp_path: Path) -> None:
    """The other rows keep what is theirs."""
    text = "prompt_tokens,output_tokens,model\n5,7,a\nx,7,b\n6,9,c\n"
    with pytest.raises(InputError, match=r"h.csv:3: prompt_tokens"):
        history(tmp_path / "h.csv", text)
    read, notes = history(tmp_path / "h.csv", text, skip_bad_lines=True)
    assert read.traits.columns == {"model": ["a", "c"]}
    assert any("1 line skipped: 3" in note for note in notes)


@pytest.mark.parametrize("name", ["b.csv", "b.jsonl"])
@pytest.mark.parametrize("release", [None, [0, 4]])
def test_columns_are_written_beside_a_backlog(
    tmp_path: Path, name: str, release: list[int] | None
) -> None:
    """A backlog with more columns is read back as it is; the columns stand beside it."""
    backlog = sortedf.Instance([5, 6], [7, 8], 100, ids=["a,b", "c"], release=release)
    columns = {"lower": np.array([1, 2]), "upper": np.array([30, 40])}
    sortedf.write_backlog(backlog, tmp_path / name, columns=columns)
    assert sortedf.read_backlog(tmp_path / name, kv_tokens=100) == backlog
    again = read_requests(tmp_path / name, columns=["lower", "upper"], note=print).traits.columns
    assert [list(map(int, again[key])) for key in columns] == [[1, 2], [30, 40]]
