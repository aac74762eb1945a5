"""`sortedf route`: tables, the document, the page, and bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sortedf.cli.main import app, main
from sortedf.report.figures import PAPERS, style
from sortedf.report.routing import READING, over_rates
from sortedf.routing.rules import RULES

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
        ([ENTRY | {"output_price": 1e300}], "output_price"),
        ([ENTRY | {"quality": ENTRY["quality"] | {"alpaca": 101}}], "0 to 100"),
        ([ENTRY | {"mean_output": 9_000}], "1 to 8,192"),
        ([ENTRY | {"settings": {"version": 3}}], "instance 'small': the engine's version is 3"),
        ([ENTRY | {"settings": {"version": "9"}}], "known are 0.32, 0.19"),
        ([ENTRY | {"steptime": "none"}], "instance 'small': none: no such file"),
        ([ENTRY | {"steptime": "-"}], "instance 'small': steptime is '-'"),
        ([ENTRY | {"name": ""}], "an instance is called ''"),
        ([ENTRY | {"name": "a\nb"}], "an instance is called 'a\\nb'"),
        ([ENTRY, ENTRY | {"name": "small "}], "an instance is called 'small '"),
        ([ENTRY | {"settings": {"max_model_len": 9}}], "max_model_len of small"),
        (
            [ENTRY | {"settings": {"enable_chunked_prefill": False}}],
            "max_num_batched_tokens of small",
        ),
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
    assert "KV budget of small" in error


def test_the_page_is_not_written_over_the_instances(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fleet.json"
    text = json.dumps({"schema": "sortedf.instances/1", "instances": [ENTRY]})
    file.write_text(text)
    code, error = code_of(capsys, str(file), "-n", "5", "-o", str(file))
    assert code == 2
    assert "is a file that is read" in error
    assert file.read_text() == text


def test_utility_that_cannot_be_above_nothing_is_a_document_and_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ["-n", "9", "--rates", "3,5", "--rules", "sfs", "--cost-weight", "1", "-q"]
    code, out = run(*words, "--json", "-o", str(page))
    (row,) = json.loads(out)["rows"]
    assert code == 0
    assert row["area"] < 0
    assert row["bound_area"] == 0
    assert "share_of_bound" not in row  # of nothing there are no shares
    assert "<svg" in page.read_text()
    with style():
        figure = over_rates(json.loads(out), "utility", PAPERS[0])
    assert figure.axes[0].get_ylim()[0] < row["area"]  # the line is on the picture


def test_an_instance_may_be_called_like_a_column(tmp_path: Path) -> None:
    file = tmp_path / "fleet.json"
    entries = [ENTRY | {"name": name} for name in ("doomed", "rule")]
    file.write_text(json.dumps({"schema": "sortedf.instances/1", "instances": entries}))
    code, out = run(str(file), "-n", "9", "--rates", "3", "--rules", "sfs", "--no-bound")
    heading = next(line for line in out.splitlines() if "preemptions" in line)
    assert code == 0
    assert "doomed (instance)" in heading
    assert "rule (instance)" in heading
    assert heading.count("doomed") == 2


def test_the_page_says_what_the_rules_on_it_do(tmp_path: Path) -> None:
    code, out = run("-n", "9", "--rates", "3", "--rules", "guarded,lps", "--no-bound", "-o", "-")
    assert code == 0
    reading = out.partition("How to read it</h2>")[2]
    assert set(re.findall(r"<li><b>([a-z-]+)</b> [a-z]", reading)) == {"guarded", "lps"}
    assert set(READING) == set(RULES)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--rules", "best"], "no rule is called 'best'"),
        (["--rules", "sfs,sfs"], "named twice"),
        (["--rates", "9,3"], "must ascend"),
        (["--rates", "x"], "write numbers"),
        (["--rates", "nan"], "a rate is nan"),
        (["--rates", "3,1e300"], "a rate is 1e+300"),
        (["--rates", "3,0"], "a rate is 0.0"),
        (["--rates", "1e-300"], "a rate is 1e-300"),
        (["--arrivals", "burst"], "no arrivals are called"),
        (["--arrivals", "mmpp-0.5"], "no arrivals are called"),
        (["--arrivals", "mmpp-inf"], "no arrivals are called"),
        (["--sigma", "-1"], "sigma"),
        (["--sigma", "nan"], "sigma"),
        (["--sigma", "800"], "sigma"),
        (["--cost-weight", "-1"], "--cost-weight"),
        (["--cost-weight", "nan"], "--cost-weight"),
        (["--cost-weight", "inf"], "--cost-weight"),
        (["--cost-weight", "1e300"], "--cost-weight"),
        (["-o", "-", "--json"], "both want stdout"),
        (["-n", "0"], "--requests"),
        (["-n", "1000000000000000"], "--requests"),
        (["--seeds", "1001"], "--seeds"),
    ],
)
def test_bad_options_are_usage_errors(
    capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    code, error = code_of(capsys, *words)
    assert code == 2
    assert told in error
