"""`sortedf route`: tables, the document, the page, and bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sortedf.cli.main import app, main

QUICK = ["-n", "60", "--rates", "4,8", "--rules", "shortest-queue,sfs,priced"]

ENTRY: dict[str, Any] = {
    "name": "small",
    "steptime": "qwen3-0.6b-h100",
    "kv_tokens": 200_000,
    "prompt_price": 0.04,
    "output_price": 0.17,
    "quality": {"alpaca": 50, "govreport": 30, "hotpotqa": 40, "writingprompts": 20},
}


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["route", *words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def code_of(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code and stderr of the program."""
    code = main(["route", *words])
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    return code, told.err


def test_json_is_one_document_with_every_rule_and_rate() -> None:
    code, out = run(*QUICK, "--json")
    document = json.loads(out)
    assert code == 0
    assert document["schema"] == "sortedf.routing/1"
    assert [row["rule"] for row in document["rows"]] == ["shortest-queue", "sfs", "priced"]
    for row in document["rows"]:
        assert [point["rate"] for point in row["points"]] == [4, 8]
        for point in row["points"]:
            assert 0 <= point["on_time_utility"] <= point["bound"]
            assert point["on_time"] + point["doomed"] == pytest.approx(1)
            assert sum(point[f"share_{k}"] for k in range(3)) == pytest.approx(1)


def test_the_tables_show_what_the_document_holds() -> None:
    _, text = run(*QUICK)
    _, out = run(*QUICK, "--json")
    for row in json.loads(out)["rows"]:
        line = next(line for line in text.splitlines() if line.strip().startswith(row["rule"]))
        assert f"{row['area']:.3f}" in line
        for point in row["points"]:
            assert f"{point['on_time_utility']:.3f}" in text


def test_the_page_has_its_pictures_and_needs_nothing_else(tmp_path: Path) -> None:
    pages = [tmp_path / name for name in ("a.html", "b.html")]
    for page in pages:
        code, out = run(*QUICK, "-o", str(page), "--quiet")
        assert code == 0
    text = pages[0].read_text()
    assert text == pages[1].read_text()  # same seed, same bytes
    assert text.count("<svg") >= 8
    assert not re.search(r'(?:src|href)="(?!#|data:)', text)
    for words in ("offline bound", "Who is late", "Qwen3-32B", "shortest-queue"):
        assert words in text
    _, out = run(*QUICK, "-o", "-")
    assert out == text


def test_instances_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "fleet.json"
    other = ENTRY | {"name": "large", "steptime": "qwen3-8b-h100", "settings": {"max_num_seqs": 64}}
    file.write_text(json.dumps({"schema": "sortedf.instances/1", "instances": [ENTRY, other]}))
    code, out = run(str(file), "-n", "40", "--rates", "2", "--rules", "all", "--json")
    document = json.loads(out)
    assert code == 0
    assert [one["name"] for one in document["instances"]] == ["small", "large"]
    assert document["instances"][1]["max_num_seqs"] == 64
    assert len(document["rows"]) == 10


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is not a file of instances"),
        ('{"schema": "x/1", "instances": []}', "has schema 'x/1'"),
        ('{"schema": "sortedf.instances/1", "instances": []}', "has no instance"),
        ([ENTRY, ENTRY], "two instances called 'small'"),
        ([ENTRY | {"quality": {"alpaca": 5}}], "no quality for the task"),
        ([ENTRY | {"settings": {"max_seqs": 4}}], "max_seqs"),
        ([ENTRY | {"settings": {"max_num_seqs": 0}}], "max_num_seqs"),
        ([ENTRY | {"settings": {"policy": "priority"}}], "first come, first served"),
        ([ENTRY | {"kv_tokens": 3}], "holds no block"),
        ([ENTRY | {"prompt_price": -1}], "prompt_price"),
        ([ENTRY | {"mean_output": 0}], "mean_output"),
        ([ENTRY | {"steptime": "none.json"}], "no such file"),
        ([ENTRY | {"colour": "red"}], "colour"),
    ],
)
def test_a_bad_file_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: Any, told: str
) -> None:
    file = tmp_path / "fleet.json"
    if not isinstance(text, str):
        text = json.dumps({"schema": "sortedf.instances/1", "instances": text})
    file.write_text(text)
    code, error = code_of(capsys, str(file), "-n", "5")
    assert code == 3
    assert told in error
    assert len(error.strip().splitlines()) == 1


def test_a_missing_file_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    code, error = code_of(capsys, "none.json")
    assert code == 3
    assert "none.json: cannot be read" in error


def test_a_prompt_larger_than_a_cache_is_infeasible(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fleet.json"
    small = ENTRY | {"kv_tokens": 4_000}
    file.write_text(json.dumps({"schema": "sortedf.instances/1", "instances": [small]}))
    code, error = code_of(capsys, str(file), "-n", "20", "--no-bound")
    assert code == 4
    assert "KV budget" in error


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--rules", "best"], "no rule is called 'best'"),
        (["--rules", "sfs,sfs"], "named twice"),
        (["--rates", "9,3"], "must ascend"),
        (["--rates", "x"], "write numbers"),
        (["--rates", "nan"], "must ascend"),
        (["--arrivals", "burst"], "no arrivals are called"),
        (["--arrivals", "mmpp-0.5"], "no arrivals are called"),
        (["--sigma", "-1"], "sigma"),
        (["--sigma", "nan"], "sigma"),
        (["--cost-weight", "-1"], "--cost-weight"),
        (["--cost-weight", "nan"], "--cost-weight"),
        (["-o", "-", "--json"], "both want stdout"),
        (["-n", "0"], "--requests"),
    ],
)
def test_bad_options_are_usage_errors(
    capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    code, error = code_of(capsys, *words)
    assert code == 2
    assert told in error
