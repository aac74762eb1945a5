"""`--workers R|FILE`: plans and certificates over several workers, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from running import document, run

from sortedf import instances

ROWS = {"big": 9000, "small": 3000}


@pytest.fixture
def backlog(tmp_path: Path) -> Path:
    """Write a backlog of thirty requests."""
    path = tmp_path / "backlog.csv"
    instances.write_backlog(instances.generate("mix", 30, seed=4), path)
    return path


@pytest.fixture
def workers(tmp_path: Path) -> Path:
    """Write a file of three workers."""
    rows: list[dict[str, Any]] = [{"name": name, "kv_tokens": m} for name, m in ROWS.items()]
    rows[1]["count"] = 2
    path = tmp_path / "workers.json"
    path.write_text(json.dumps({"schema": "sortedf.workers/1", "workers": rows}))
    return path


@pytest.fixture
def plan(backlog: Path, workers: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Write a plan on these workers."""
    path = backlog.with_name("plan.json")
    assert run(capsys, "solve", backlog, "--workers", workers, "-o", path, "-q")[0] == 0
    return path


def test_a_plan_on_a_file_of_workers(
    backlog: Path, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file names workers and where requests run; it is verified, alone and by its backlog."""
    written = json.loads(plan.read_text())
    assert written["workers"] == [
        {"name": "big", "kv_tokens": 9000},
        {"name": "small-0", "kv_tokens": 3000},
        {"name": "small-1", "kv_tokens": 3000},
    ]
    assert {row.get("worker", 0) for row in written["requests"]} == {0, 1, 2}
    for files in ([plan], [plan, backlog]):
        checked = document(capsys, "verify", *files)
        assert checked["verified"]
        for worker in checked["workers"]:
            assert 0 < worker["peak_kv_tokens"] <= worker["kv_tokens"]
    _, out, _ = run(capsys, "verify", plan)
    assert "most on worker small-1" in out


def test_one_worker_is_none(
    backlog: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--workers 1` and a file of one worker write the plan and certificate of before."""
    one = tmp_path / "one.json"
    one.write_text('{"schema":"sortedf.workers/1","workers":[{"name":"a","kv_tokens":9000}]}')
    found = []
    for options in (
        ["--kv-tokens", 9000],
        ["--kv-tokens", 9000, "--workers", 1],
        ["--workers", one],
    ):
        names = tmp_path / "p.json", tmp_path / "c.json"
        files = ["-o", names[0], "--certificate", names[1]]
        code, out, _ = run(capsys, "solve", backlog, *options, *files, "-q", "--solver", "svf")
        assert code == 0
        assert "worker" not in out
        found.append([name.read_bytes() for name in names])
    assert found[0] == found[1] == found[2]


def test_tables_and_documents_speak_of_workers(
    backlog: Path, workers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`solve`, `compare` and `bound` take --workers; each says what memory there is."""
    _, out, _ = run(capsys, "solve", backlog, "--workers", workers, "-q")
    assert "3 workers, KV budget 3,000 to 9,000 tokens each" in out
    assert "worker small-0" in out
    told = document(capsys, "solve", backlog, "--kv-tokens", 9000, "--workers", 2)
    assert [worker["kv_tokens"] for worker in told["workers"]] == [9000, 9000]
    assert sum(worker["n"] for worker in told["workers"]) == told["n"] == 30
    assert sum(worker["total_latency"] for worker in told["workers"]) == told["total_latency"]
    compared = document(capsys, "compare", backlog, "--workers", workers, "--solvers", "svf,fcfs")
    assert compared["workers"][0] == {"name": "big", "kv_tokens": 9000}
    bounded = document(capsys, "bound", backlog, "--workers", workers, "--block-size", 16)
    assert bounded["lower_bound"] <= told["total_latency"] + 10**6
    assert bounded["rows"][-1]["proof"] == "certificate, checked"


def test_certificates_of_workers(
    backlog: Path, workers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Identical workers share one list; different ones have their own where that proves more."""
    path = tmp_path / "c.json"
    for options in (["--kv-tokens", 9000, "--workers", 3], ["--workers", workers]):
        code, _, _ = run(capsys, "bound", backlog, *options, "--certificate", path, "-q")
        assert code == 0
        assert document(capsys, "verify", path, backlog)["verified"]
    certificate = json.loads(path.read_text())
    certificate["workers"][1] = 9000
    path.write_text(json.dumps(certificate))
    code, out, err = run(capsys, "verify", path, backlog)
    assert (code, out) == (6, "")
    assert "the bound is recorded as" in err


def edit(plan: Path, change: str) -> None:
    """Spoil a plan in one way."""
    whole = json.loads(plan.read_text())
    rows = whole["requests"]
    large = max(rows, key=lambda row: row["prompt_tokens"] + row["output_tokens"])
    match change:
        case "unknown":
            rows[3]["worker"] = 3
        case "together":
            for row in rows:
                row.pop("worker", None)
                row["start"] = 0
            rows.sort(key=lambda row: row["index"])
        case "too small":
            large["worker"] = 1
        case "budget":
            whole["kv_tokens"] = whole["workers"][0]["kv_tokens"] = 5000
        case "largest":
            whole["kv_tokens"] += 1
        case "name":
            whole["workers"][2]["name"] = "big"
        case "none":
            del whole["workers"]
    plan.write_text(json.dumps(whole))


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ("unknown", 6, "its worker is 3, but the 3 count from 0"),
        ("together", 6, "tokens of worker 0 at step 1"),
        ("too small", 6, "of 3000 tokens of worker 1"),
        ("budget", 6, "tokens of worker 0 at step"),
        ("largest", 3, "of these workers the largest budget is 9000"),
        ("name", 3, "worker 2 repeats the name 'big' of worker 0"),
        ("none", 6, "but the 1 count from 0"),
    ],
)
def test_spoiled_plans_are_refused(
    backlog: Path,
    plan: Path,
    capsys: pytest.CaptureFixture[str],
    change: str,
    code: int,
    message: str,
) -> None:
    """Whatever is wrong with workers or their budgets in a plan file is told, one line a fault."""
    edit(plan, change)
    found, out, err = run(capsys, "verify", plan, backlog)
    assert (found, out) == (code, "")
    assert message in err


def test_reports_show_each_worker(
    plan: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report has the memory of each worker, within its budget, and the page names them."""
    monkeypatch.setattr("sortedf.report.extra_memory.MULTIPLES", (1,))
    page = plan.with_suffix(".html")
    told = document(capsys, "report", plan, "-q", "-o", page)
    drawn = told["pictures"]["memory"]["plans"]
    assert [part["worker"] for part in drawn] == ["big", "small-0", "small-1"]
    assert [part["budget"] for part in drawn] == [9000, 3000, 3000]
    assert all(max(part["peak"]) <= part["budget"] for part in drawn)
    assert told["extra_memory"]["rows"][0]["holds"]
    assert told["extra_memory"]["rows"][0]["kv_tokens"] == 15_000 + 3 * 1000
    rows = json.loads(plan.read_text())["requests"]
    for k, part in enumerate(drawn):
        own = [row for row in rows if row.get("worker", 0) == k]
        ends = [row["start"] + row["output_tokens"] for row in own]
        held = sum(
            row["prompt_tokens"] * row["output_tokens"]
            + row["output_tokens"] * (row["output_tokens"] + 1) // 2
            for row in own
        )
        assert part["mean_latency"] == pytest.approx(sum(ends) / len(own))
        assert part["mean_kv_use"] == pytest.approx(held / part["budget"] / max(ends))
        assert f"mean latency {part['mean_latency']:,.1f} steps" in page.read_text()
    text = page.read_text()
    assert "3 workers with KV budgets of up to" in text
    assert "worker small-1" in text


def test_one_engine_runs_one_worker(
    plan: Path, backlog: Path, workers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`run`, `predict` and `solve --steptime` are of one engine and say so."""
    step_times = "qwen3-8b-h100"
    for arguments in (
        ["run", plan, "-o", tmp_path / "run"],
        ["predict", plan, "--steptime", step_times],
    ):
        code, out, err = run(capsys, *arguments)
        assert (code, out) == (3, "")
        assert "a plan for 3 workers" in err
    code, _, err = run(capsys, "solve", backlog, "--workers", workers, "--steptime", step_times)
    assert code == 2
    assert "--steptime is of one engine; leave --workers out" in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no schema"),
        ("{}", "it names no schema"),
        ('{"schema":"sortedf.plan/1"}', "its schema is sortedf.plan/1"),
        ('{"schema":"sortedf.workers/1"}', "workers"),
        ('{"schema":"sortedf.workers/1","workers":[]}', "workers"),
        ('{"schema":"sortedf.workers/1","workers":[{"name":"a"}]}', "kv_tokens"),
        ('{"schema":"sortedf.workers/1","workers":[{"name":"","kv_tokens":5}]}', "name"),
        ('{"schema":"sortedf.workers/1","workers":[{"name":"a","kv_tokens":0}]}', "kv_tokens"),
        ('{"schema":"sortedf.workers/1","workers":[{"name":"a","kv_tokens":5.5}]}', "kv_tokens"),
        ('{"schema":"sortedf.workers/1","workers":[{"name":"a","kv_tokens":5,"x":1}]}', "x"),
        (
            '{"schema":"sortedf.workers/1","workers":[{"name":"a","kv_tokens":5},'
            '{"name":"a","kv_tokens":6}]}',
            "worker 1 repeats the name 'a' of worker 0",
        ),
        (
            '{"schema":"sortedf.workers/1","workers":[{"name":"a","kv_tokens":5,"count":1024},'
            '{"name":"b","kv_tokens":6}]}',
            "1025 workers; there must be 1 to 1024",
        ),
        ('{"schema":"sortedf.workers/1","workers":[{"name"', "truncated"),
    ],
)
def test_files_that_are_no_workers(
    backlog: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    """A file that does not say what the workers are is bad input, in one line that names it."""
    path = tmp_path / "w.json"
    path.write_text(text)
    code, out, err = run(capsys, "solve", backlog, "--workers", path, "-q")
    assert (code, out) == (3, "")
    assert err.startswith(str(path))
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--kv-tokens", 9000, "--workers", 0], 2, "0 workers; there must be 1 to 1024"),
        (["--kv-tokens", 9000, "--workers", -2], 2, "-2 workers; there must be 1 to 1024"),
        (["--kv-tokens", 9000, "--workers", 9999], 2, "9999 workers; there must be 1 to 1024"),
        (["--workers", 2], 2, "--kv-tokens is missing"),
        (["--workers", "nowhere.json"], 3, "nowhere.json: no such file"),
        (["--workers", "2.5", "--kv-tokens", 9000], 2, "--workers is '2.5': neither a number"),
        (["--kv-tokens", 900, "--workers", 4], 4, "the KV budget is 900"),
        (["--kv-tokens", 9000, "--workers", 2, "--solver", "exact"], 2, "exact plans for one"),
    ],
)
def test_workers_that_cannot_be_planned_on(
    backlog: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[object],
    code: int,
    message: str,
) -> None:
    """Numbers that are none, files that are not there, requests larger than every worker."""
    found, out, err = run(capsys, "solve", backlog, *options, "-q")
    assert (found, out) == (code, "")
    assert message in err


@pytest.mark.parametrize(
    ("command", "option"), [("solve", "-o"), ("solve", "--certificate"), ("bound", "--certificate")]
)
def test_the_workers_file_is_not_written_over(
    backlog: Path, workers: Path, capsys: pytest.CaptureFixture[str], command: str, option: str
) -> None:
    """A file that is read stays as it is."""
    before = workers.read_bytes()
    code, out, err = run(capsys, command, backlog, "--workers", workers, option, workers)
    assert (code, out) == (2, "")
    assert err == f"{option} {workers} is a file that is read; choose another name\n"
    assert workers.read_bytes() == before


@pytest.mark.parametrize("command", ["solve", "bound", "compare"])
def test_one_file_is_stdin(workers: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    """Whichever two of the files are `-`, it is told."""
    for options in (
        ["-", "--workers", "-"],
        ["-", "--output-tokens", "-", "--workers", workers],
        [workers, "--output-tokens", "-", "--workers", "-"],
    ):
        code, out, err = run(capsys, command, *options)
        assert (code, out) == (2, "")
        assert err.startswith("only one of ")
        assert err.endswith("can be stdin\n")


@pytest.mark.parametrize("given", ["", " 2", "+2", "1.5", "1_0", "2x", "none.json"])
def test_neither_number_nor_file(
    backlog: Path, capsys: pytest.CaptureFixture[str], given: str
) -> None:
    """Beside --kv-tokens a number is meant: what is none, and no file, is said to be neither."""
    code, out, err = run(capsys, "solve", backlog, "--workers", given, "--kv-tokens", 9000)
    assert (code, out) == (2, "")
    assert err == f"--workers is {given!r}: neither a number of workers nor a file that is there\n"
