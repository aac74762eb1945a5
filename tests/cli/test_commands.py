"""The command line: what it prints where, its exit codes, and what it does with bad input."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from running import document, on_terminal, program, run

import sortedf
from sortedf.cli.main import main
from sortedf.solvers import find_solvers

BACKLOG = "id,prompt_tokens,output_tokens\na,5,3\nb,2,7\nc,9,1\n"


@pytest.fixture
def backlog(tmp_path: Path) -> Path:
    """Write a backlog of three requests."""
    path = tmp_path / "backlog.csv"
    path.write_text(BACKLOG)
    return path


def test_compare_without_backlog_plans_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    """The first command of a newcomer plans the packaged example by every simple order."""
    code, out, err = run(capsys, "compare")
    assert code == 0
    names = [solver.name for solver in find_solvers("fast") if solver.fast_up_to >= 300]
    assert {"fcfs", "mcsf", "size", "svf", "svf-1bit", "longest", "random"} < set(names)
    for name in names:
        assert name in out
    assert out.count("yes") == len(names)
    assert "packaged example" in err


def test_compare_json_rows_are_those_of_solve(
    capsys: pytest.CaptureFixture[str], backlog: Path
) -> None:
    """Each row of compare is the object that solve prints, times apart."""
    rows = document(capsys, "compare", backlog, "--kv-tokens", 16)["rows"]
    for row in rows:
        alone = document(capsys, "solve", backlog, "--kv-tokens", 16, "--solver", row["solver"])
        same = alone.keys() - {"seconds", "skipped"}
        assert {key: row[key] for key in same} == {key: alone[key] for key in same}


def test_solve_writes_a_plan_that_verifies(
    capsys: pytest.CaptureFixture[str], backlog: Path, tmp_path: Path
) -> None:
    """A written plan holds against itself and its backlog, and is the same bytes twice."""
    for name in ("plan.json", "plan.jsonl", "plan.json.gz"):
        plan = tmp_path / name
        assert run(capsys, "solve", backlog, "--kv-tokens", "16", "-o", plan)[0] == 0
        first = plan.read_bytes()
        assert run(capsys, "solve", backlog, "--kv-tokens", "16", "-o", plan)[0] == 0
        assert plan.read_bytes() == first
        assert document(capsys, "verify", plan)["verified"]
        checked = document(capsys, "verify", plan, backlog)
        assert checked["verified"]
        assert checked["peak_kv_tokens"] <= 16


def test_plan_on_stdout(capsysbinary: pytest.CaptureFixture[bytes], backlog: Path) -> None:
    """With -o - the plan, and nothing else, is on stdout; --json beside it is refused."""
    assert main(["solve", str(backlog), "--kv-tokens", "16", "-o", "-"]) == 0
    plan = json.loads(capsysbinary.readouterr().out)
    assert plan["schema"] == "sortedf.plan/1"
    assert main(["solve", str(backlog), "--kv-tokens", "16", "-o", "-", "--json"]) == 2


TAMPERED = [
    ("start", lambda r: r.update(start=0), "tokens at step"),
    ("fraction", lambda r: r.update(start=1.5), "start is 1.5"),
    ("early", lambda r: r.update(start=-1), "before its release"),
    ("length", lambda r: r.update(output_tokens=2), "hash"),
    ("name", lambda r: r.update(id="z"), "hash"),
]


@pytest.mark.parametrize(("what", "change", "message"), TAMPERED)
def test_a_tampered_plan_is_found(
    capsys: pytest.CaptureFixture[str],
    backlog: Path,
    tmp_path: Path,
    what: str,
    change: Any,
    message: str,
) -> None:
    """Whatever is changed in a plan, verify says what is wrong and exits with 6."""
    path = tmp_path / "plan.json"
    run(capsys, "solve", backlog, "--kv-tokens", "12", "--solver", "fcfs", "-o", path)
    plan = json.loads(path.read_text())
    change(plan["requests"][-1])
    path.write_text(json.dumps(plan))
    for against in ([], [backlog]):
        code, _, err = run(capsys, "verify", path, *against)
        assert code == 6, what
        assert message in err or "index" in err
    code, out, _ = run(capsys, "verify", path, "--json")
    assert code == 6
    assert not json.loads(out)["verified"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p["requests"].pop(0), "missing|not placed"),
        (lambda p: p["requests"].append(p["requests"][0]), "placed again"),
        (lambda p: p.update(total_latency=p["total_latency"] - 1), "total latency"),
        (lambda p: p.update(kv_tokens=9), "of 9 tokens at step"),
        (lambda p: p.update(instance_sha256="0" * 64), "hash"),
        (lambda p: p.update(skipped=[dict(p["requests"][0], index=3)]), "it fits"),
    ],
)
def test_a_tampered_header_is_found(
    capsys: pytest.CaptureFixture[str], backlog: Path, tmp_path: Path, change: Any, message: str
) -> None:
    """Missing, repeated or left-out requests, objective, budget and hash are all checked."""
    path = tmp_path / "plan.json"
    run(capsys, "solve", backlog, "--kv-tokens", "12", "--solver", "fcfs", "-o", path)
    plan = json.loads(path.read_text())
    change(plan)
    for row in plan.get("skipped", []):
        row.pop("start")
    path.write_text(json.dumps(plan))
    for against in ([], [backlog]):
        code, _, err = run(capsys, "verify", path, *against)
        assert code == 6
        assert any(part in err for part in message.split("|")), err


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"total_latency": None}, 6, "no total latency"),
        ({"lower_bound": 10**9}, 6, "lower bound"),
        ({"requests": "reversed"}, 6, "order of their starts"),
        ({"block_size": 10**18}, 6, "no block"),
        ({"requests": "workers"}, 6, "worker is 2, but the 1 count from 0"),
    ],
)
def test_contradictions_in_a_plan_are_found(
    capsys: pytest.CaptureFixture[str],
    backlog: Path,
    tmp_path: Path,
    change: dict[str, Any],
    code: int,
    message: str,
) -> None:
    """A plan that contradicts itself or its format is not accepted."""
    path = tmp_path / "plan.json"
    run(capsys, "solve", backlog, "--kv-tokens", "12", "--solver", "fcfs", "-o", path)
    plan = json.loads(path.read_text())
    if change == {"requests": "reversed"}:
        plan["requests"].reverse()
    elif change == {"requests": "workers"}:
        plan["requests"][0]["worker"] = 2
    else:
        plan |= change
    path.write_text(json.dumps(plan))
    found, _, err = run(capsys, "verify", path)
    assert found == code
    assert message in err


def test_verify_notices_another_backlog(
    capsys: pytest.CaptureFixture[str], backlog: Path, tmp_path: Path
) -> None:
    """A plan of another backlog is told by the request that differs."""
    plan = tmp_path / "plan.json"
    run(capsys, "solve", backlog, "--kv-tokens", "16", "-o", plan)
    backlog.write_text(BACKLOG.replace("b,2,7", "b,2,8"))
    code, _, err = run(capsys, "verify", plan, backlog)
    assert code == 6
    assert "index 1 is 'b' (2 prompt, 7 output tokens, release 0) in the plan" in err


def test_oversized_requests(
    capsys: pytest.CaptureFixture[str], backlog: Path, tmp_path: Path
) -> None:
    """Requests over the budget end with 4 and their names, or are left out, listed and counted."""
    code, out, err = run(capsys, "solve", backlog, "--kv-tokens", 9)
    assert (code, out) == (4, "")
    told, fault = err.splitlines()
    assert "--skip-oversized" in told
    assert fault == "request 'c' (index 2) needs 10 tokens, the KV budget is 9"
    plan = tmp_path / "plan.json"
    code, out, err = run(
        capsys, "solve", backlog, "--kv-tokens", 9, "--skip-oversized", "-o", plan, "--json"
    )
    assert code == 0
    assert json.loads(out)["skipped"] == 1
    assert "1 request over the budget left out" in err
    assert json.loads(plan.read_text())["skipped"] == [
        {"index": 2, "id": "c", "prompt_tokens": 9, "output_tokens": 1}
    ]
    assert document(capsys, "verify", plan, backlog)["verified"]
    code, _, err = run(capsys, "compare", backlog, "--kv-tokens", 3, "--skip-oversized")
    assert code == 4
    assert len(err.splitlines()) == 3


def test_block_size_is_planned_and_verified(
    capsys: pytest.CaptureFixture[str], backlog: Path, tmp_path: Path
) -> None:
    """A plan for blocks says so, keeps the true lengths, and is verified in blocks."""
    plan = tmp_path / "plan.json"
    arguments = ["solve", backlog, "--kv-tokens", 45, "--block-size", 16, "-o", plan]
    assert document(capsys, *arguments)["block_size"] == 16
    written = json.loads(plan.read_text())
    assert (written["kv_tokens"], written["block_size"]) == (45, 16)
    assert written["requests"][0]["prompt_tokens"] in (5, 2, 9)
    checked = document(capsys, "verify", plan, backlog)
    assert checked["verified"]
    assert 16 < checked["peak_kv_tokens"] <= 32


USAGE = [
    (["solve", "{backlog}"], "--kv-tokens is missing"),
    (["solve", "{backlog}", "--kv-tokens", "lots"], "16492"),
    (["solve", "{backlog}", "--kv-tokens", "0"], "--kv-tokens"),
    (["solve", "--solver", "svff"], "did you mean 'svf'"),
    (["solve", "--solver", "fcfs", "--proxies", "1,1,1"], "takes no option"),
    (["solve", "--solver", "svf-1bit", "--proxies", "1,x"], "T,S,L"),
    (["solve", "--solver", "svf-1bit", "--proxies", "1,3,2", "-q"], "proxies"),
    (["solve", "--solver", "svf", "--alpha", "0.5"], "takes no option"),
    (["solve", "--solver", "sorted-lp", "--alpha", "1.5", "-q"], "alpha is 1.5"),
    (["solve", "--lookahead", "0"], "lookahead"),
    (["solve", "--arrivals"], "packaged example"),
    (["solve", "--step-seconds", "0.1"], "packaged example"),
    (["bound", "x.csv", "--kv-tokens", "9", "--step-seconds", "1e300"], "from 1e-9 to 1e12"),
    (["solve", "--nonsense"], "--nonsense"),
    (["compare", "--solvers", "svf,nope"], "no solver 'nope'"),
    (["compare", "--solvers", "svf,svf"], "twice"),
    (["compare", "--block-size", "0"], "block-size"),
    (["generate", "nope", "-n", "3"], "nope"),
    (["generate", "mix"], "-n"),
    (["generate", "mix", "-n", "0"], "-n"),
    (["generate", "mix", "-n", "3", "--json"], "stdout"),
    (["verify"], "PLAN"),
    (["verify", "x.json", "--arrivals"], "BACKLOG"),
    (["verify", "-", "-"], "stdin"),
    (["kv-budget"], "memory"),
    (["kv-budget", "--config", "c.json", "--gpu-memory", "80"], "c.json"),
    (["kv-budget", "--num-gpu-blocks", "50", "--utilisation", "1.5"], "share"),
    (["kv-budget", "--num-gpu-blocks", "50", "--weights", "3GiB"], "--gpu-memory"),
    (["kv-budget", "--kv-memory", "1GiB"], "--config"),
    (["solve", "--solver", "fcfs", "--seed", "3"], "takes no seed"),
    (["compare", "--solvers", "fcfs", "--seed", "3"], "--seed"),
    (["solve", "--solver", "fcfs", "--time-limit", "3"], "no limit"),
    (["compare", "--solvers", "fcfs", "--time-limit", "3"], "--time-limit"),
    (["solve", "--time-limit", "0"], "above 0"),
    (["solve", "--time-limit", "inf"], "finite"),
    (["compare", "--solvers", "improve", "--time-limit", "nan"], "finite"),
    (["solve", "--solver", "exact", "-q"], "use improve"),
    (["compare", "--solvers", "svf,exact", "-q"], "use improve"),
    (["solve", "{backlog}", "--kv-tokens", "4611686018427387904"], "2^62"),
    (["solve", "{backlog}", "--kv-tokens", "16", "--block-size", "17"], "--block-size"),
    (["solve", "{backlog}", "--kv-tokens", "16", "-o", "{backlog}"], "a file that is read"),
    (["solve", "-", "--kv-tokens", "16", "--output-tokens", "-"], "stdin"),
    (["nope"], "nope"),
    (["solve", "{backlog}", "--kv-tokens", "16", "--tokenizer", "x"], "tokenizer"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE)
def test_usage_errors(
    capsys: pytest.CaptureFixture[str], backlog: Path, arguments: list[str], message: str
) -> None:
    """A wrong option is one line on stderr, nothing on stdout, and exit code 2 (3 for its file)."""
    code, out, err = run(capsys, *(a.format(backlog=backlog) for a in arguments))
    assert code == (3 if "c.json" in arguments else 2)
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


BAD = [
    ("id,prompt_tokens,output_tokens\na,5,3\nb,0,7\nc,-9,1\n", [3, 4]),
    ("prompt_tokens,output_tokens\n5,2.5\n5,many\n", [2, 3]),
    ("id,prompt_tokens,output_tokens\na,5,3\na,2,7\n", [3]),
    ("prompt_tokens\n5\n", [1]),
    ('{"prompt_tokens": 5, "output_tokens": 3}\n{"prompt_tokens": 5, "outp', [2]),
    (f"prompt_tokens,output_tokens\n5,3\n{2**40},3\n", [3]),
]


@pytest.mark.parametrize(("text", "lines"), BAD)
@pytest.mark.parametrize("command", ["solve", "compare", "bound", "verify"])
def test_bad_input(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, text: str, lines: list[int]
) -> None:
    """Exit code 3, nothing on stdout, one line a fault; how to go on is named where one can."""
    path, plan = tmp_path / "bad", tmp_path / "plan.json"
    path.write_text(text)
    words: list[object] = [command, path, "--kv-tokens", 16]
    if command == "verify":
        assert run(capsys, "solve", "-o", plan, "--no-bound", "-q")[0] == 0
        words = ["verify", plan, path]
    for quiet in (["-q"], []):
        code, out, err = run(capsys, *words, "--json", *quiet)
        assert (code, out) == (3, "")
        told = [line.split(": ")[0] for line in err.splitlines()]
        named = told[:1] == ["bad lines; --skip-bad-lines leaves them out:"]
        assert told[named:] == [f"{path}:{n}" for n in lines]
    left_out = run(capsys, *words, "--skip-bad-lines")
    assert named == (left_out[0] != 3)


def test_many_faults_are_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of many faults the first 20 are told and all are counted; --skip-bad-lines goes on."""
    path = tmp_path / "bad.csv"
    path.write_text("prompt_tokens,output_tokens\n" + "0,1\n" * 50 + "4,4\n")
    code, _, err = run(capsys, "solve", path, "--kv-tokens", 16)
    assert code == 3
    assert len(err.splitlines()) == 22
    assert "--skip-bad-lines" in err.splitlines()[0]
    assert "50 in all" in err
    code, out, err = run(capsys, "solve", path, "--kv-tokens", 16, "--skip-bad-lines", "--json")
    assert (code, json.loads(out)["n"]) == (0, 1)
    assert "50 lines skipped" in err
    code, _, err = run(capsys, "solve", path, "--kv-tokens", 16, "--skip-bad-lines", "--quiet")
    assert (code, err) == (0, "")


def test_files_that_cannot_be_used(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A missing file, a folder, an unwritable target or a foreign document is exit code 3."""
    (tmp_path / "text.json").write_text("[]")
    for arguments in (
        ["solve", tmp_path / "none.csv", "--kv-tokens", 9],
        ["solve", tmp_path, "--kv-tokens", 9],
        ["solve", "-o", tmp_path / "no" / "plan.json"],
        ["solve", "-o", tmp_path],
        ["verify", tmp_path / "none.json"],
        ["verify", tmp_path / "text.json"],
        ["generate", "mix", "-n", 3, "-o", tmp_path / "no" / "b.csv"],
        ["kv-budget", "--config", tmp_path / "text.json", "--kv-memory", "1GiB"],
    ):
        code, out, err = run(capsys, *arguments, "-q")
        assert (code, out) == (3, ""), arguments
        assert err.startswith(str(tmp_path)), err
        assert len(err.splitlines()) == 1


def test_generate_is_read_back(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What generate writes is the generator's backlog, plain, gzipped and on stdout."""
    expected = sortedf.generate("chat", 20, seed=3)
    path = tmp_path / "b.csv.gz"
    told = document(capsys, "generate", "chat", "-n", 20, "--seed", 3, "-o", path)
    assert told["instance_sha256"] == expected.sha256
    assert sortedf.read_backlog(path, kv_tokens=16_492) == expected
    text = gzip.decompress(path.read_bytes()).decode()
    assert len(list(csv.DictReader(io.StringIO(text)))) == 20


def test_arrivals_are_honoured(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Time stamps are ignored, or with --arrivals turned into releases in seconds."""
    path = tmp_path / "trace.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:17:03.9799600,4,10\n2023-11-16 18:17:24.0319600,3,8\n"
    )
    assert document(capsys, "solve", path, "--kv-tokens", 99)["makespan"] == 10
    assert document(capsys, "solve", path, "--kv-tokens", 99, "--arrivals")["makespan"] == 28
    # 20.052 s later: in steps of 0.1 s the last one of 200 and 8 more.
    steps = ("--arrivals", "--step-seconds", 0.1)
    assert document(capsys, "solve", path, "--kv-tokens", 99, *steps)["makespan"] == 208


def test_the_program_as_a_process() -> None:
    """Piped, the program prints one JSON document, reads stdin, and returns the exit codes."""
    done = program("generate", "mix", "-n", 30, "--seed", 1)
    assert done.returncode == 0
    done = program("solve", "-", "--kv-tokens", "16k", "--json", input=done.stdout)
    assert json.loads(done.stdout)["kv_tokens"] == 16_000
    done = program("solve", "-", "--kv-tokens", "16k", input="nothing of use\n")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("<stdin>:1: ")


def test_help_loads_nothing_heavy() -> None:
    """Help answers without importing numpy, numba, msgspec or matplotlib."""
    code = (
        "import sys; from sortedf.cli.main import main; main(['--help']);"
        "print(sorted({'numpy', 'numba', 'msgspec', 'matplotlib'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "kv-budget" in done.stdout


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX")
def test_json_stays_one_document_under_a_progress_bar(tmp_path: Path) -> None:
    """With stderr on a terminal, where progress is drawn, stdout is still one JSON document."""
    code, drawn = on_terminal(tmp_path / "out", "compare", "--json")
    assert code == 0
    assert b"planning" in drawn
    rows = json.loads((tmp_path / "out").read_text())["rows"]
    assert len(rows) == len([s for s in find_solvers("fast") if s.fast_up_to >= 300])


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX")
@pytest.mark.parametrize("command", ["solve", "bound"])
def test_searches_show_how_far_they_are(tmp_path: Path, command: str) -> None:
    """On a terminal a search shows its best value, the bound and the gap between them."""
    path = tmp_path / "b.csv"
    sortedf.write_backlog(sortedf.generate("mix", 40, seed=7, kv_tokens=12_000), path)
    arguments = [command, path, "--kv-tokens", "12k", "--time-limit", "4", "--json"]
    code, drawn = on_terminal(tmp_path / "out", *arguments)
    assert code == 0
    for word in (b"best ", b"bound ", b"gap ", b"/s"):
        assert word in drawn
    assert json.loads((tmp_path / "out").read_text())["n"] == 40


def test_a_cache_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    """Kernels are compiled without a cache when none can be had."""
    code = (
        "import numba.core.caching as c; c.CacheImpl._locator_classes = [];"
        "from sortedf.kernels.jit import jit; print(jit(lambda x: x + 1)(1))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "2\n"
