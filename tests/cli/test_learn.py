"""`sortedf learn`: errors on later requests, predictions that `solve` reads, faults in a line."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from running import document, run

import sortedf


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Write finished requests whose prompt tells the output."""
    rng = np.random.default_rng(0)
    prompt = rng.integers(100, 900, 200)
    output = np.rint(prompt * np.exp(0.1 * rng.standard_normal(200))).astype(int)
    rows = [f"{s},{o},sum\n" for s, o in zip(prompt, output, strict=True)]
    path = tmp_path / "history.csv"
    path.write_text("prompt_tokens,output_tokens,task\n" + "".join(rows))
    return path


@pytest.fixture
def backlog(tmp_path: Path) -> Path:
    """Write requests whose outputs nobody knows."""
    path = tmp_path / "backlog.csv"
    path.write_text("id,prompt_tokens\nshort,120\nlong,880\n")
    return path


def test_errors(capsys: pytest.CaptureFixture[str], history: Path) -> None:
    """The table and the document say how far the later quarter is off, and from what was learnt."""
    found = document(capsys, "learn", history)
    assert found["schema"] == "sortedf.learned/1"
    assert (found["learnt"], found["errors"]["n"]) == (150, 50)
    assert found["traits"] == ["prompt tokens", "task"]
    assert found["errors"]["median_relative"] < 0.2 < found["constant"][1]
    assert found["errors"]["rank_correlation"] > 0.8
    assert found["proxies"]["short"] < found["proxies"]["threshold"] < found["proxies"]["long"]
    code, out, err = run(capsys, "learn", history)
    assert (code, err) == (0, "")
    for words in ("150 requests: prompt tokens, task", "50 requests", "in the 90% interval"):
        assert words in out


def test_predictions_are_a_backlog(
    capsys: pytest.CaptureFixture[str], history: Path, backlog: Path, tmp_path: Path
) -> None:
    """What is written has medians as outputs beside the interval, twice the same; solve plans it.

    What the backlog does not have is not learnt from, and said.
    """
    target = tmp_path / "predicted.csv"
    code, _, err = run(capsys, "learn", history, "--predict", backlog, "-o", target)
    assert code == 0
    assert f"not learnt from, as {backlog} does not have it: task" in err
    with target.open() as file:
        short, long = csv.DictReader(file)
    for row, prompt in ((short, 120), (long, 880)):
        assert prompt * 0.7 < int(row["output_tokens"]) < prompt * 1.4
        assert int(row["lower"]) <= int(row["output_tokens"]) <= int(row["upper"])
    assert (short["long"], long["long"]) == ("0", "1")
    code, out, _ = run(capsys, "learn", history, "--predict", backlog, "-o", "-", "--quiet")
    assert (code, out) == (0, target.read_text())
    row = document(capsys, "solve", target, "--kv-tokens", 2000)
    assert row["n"] == 2


def test_a_run_is_a_history(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A batch and the output of its run are learnt from; predictions go to solve by the ids."""
    lines = []
    for k in range(60):
        words, limit = (40, 300) if k % 2 else (400, 30)
        body = {"model": "m", "prompt": "word " * words, "max_tokens": limit}
        entry = {"custom_id": f"r{k}", "method": "POST", "url": "/v1/completions", "body": body}
        lines.append(json.dumps(entry) + "\n")
    batch = tmp_path / "batch.jsonl"
    batch.write_text("".join(lines))
    plan, folder, target = tmp_path / "plan.json", tmp_path / "run", tmp_path / "predicted.jsonl"
    counted = ("--prompt-tokens", "chars/4")
    assert run(capsys, "solve", batch, "--kv-tokens", 9000, *counted, "-o", plan)[0] == 0
    assert run(capsys, "run", plan, batch, "-o", folder)[0] == 0
    answers = ("--answers", folder / "output.jsonl")
    found = document(capsys, "learn", batch, *answers, *counted, "--predict", batch, "-o", target)
    assert found["traits"] == ["prompt tokens", "limit", "text", "model"]
    assert found["errors"]["median_relative"] < 0.05
    predicted = [json.loads(line)["output_tokens"] for line in target.read_text().splitlines()]
    assert predicted == [30, 300] * 30
    row = document(capsys, "solve", batch, "--kv-tokens", 9000, *counted, "--output-tokens", target)
    planned = sortedf.read_backlog(target, kv_tokens=9000)
    assert row["instance_sha256"] == planned.sha256
    code, _, err = run(capsys, "learn", batch, *answers, "--predict", batch, "-o", target)
    assert code == 3
    assert "--prompt-tokens" in err


def test_faults(
    capsys: pytest.CaptureFixture[str],
    history: Path,
    backlog: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is one line with the documented code, and nothing is written."""
    few = tmp_path / "few.csv"
    few.write_text("prompt_tokens,output_tokens\n1,1\n2,2\n")
    batch = tmp_path / "batch.jsonl"
    body = {"model": "m", "prompt": "Why?"}
    entry = {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": body}
    batch.write_text(json.dumps(entry) + "\n")
    target = tmp_path / "out.csv"
    for code, words, arguments in (
        (3, "few.csv: 2 finished requests", [few]),
        (3, "no such file", [tmp_path / "none.csv"]),
        (3, "no column 'colour'", [history, "--column", "colour"]),
        (3, "output tokens", [backlog]),
        (2, "--answers", [batch]),
        (2, "go together", [history, "--predict", backlog]),
        (2, "go together", [history, "-o", target]),
        (2, "is a file that is read", [history, "--predict", backlog, "-o", history]),
        (2, "both want stdout", [history, "--predict", backlog, "-o", "-", "--json"]),
        (2, "can be stdin", ["-", "--predict", "-", "-o", target]),
        (2, "coverage is 1.5", [history, "--coverage", 1.5]),
        (2, "from 0 to 4294967295", [history, "--seed", 2**32]),
        (3, "no folder", [history, "--predict", backlog, "-o", tmp_path / "no" / "x.csv"]),
    ):
        found, out, err = run(capsys, "learn", *arguments)
        assert (found, out) == (code, ""), arguments
        assert words in err
        assert err.count("\n") == 1
    assert not target.exists()
    monkeypatch.setitem(sys.modules, "sklearn", None)
    code, _, err = run(capsys, "learn", history)
    assert code == 2
    assert 'pip install "sortedf[learn]"' in err
