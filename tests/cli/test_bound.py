"""`sortedf bound`, certificates on the command line, and `verify` of them."""

from __future__ import annotations

import gzip
import json
import os
import signal
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from running import document, program, run

import sortedf
from sortedf.cli import bound as bound_command
from sortedf.cli import options
from sortedf.lp import ascent, bounds, branching
from sortedf.solvers import front
from sortedf.solvers.improve import search

BACKLOG = "id,prompt_tokens,output_tokens\na,5,3\nb,2,7\nc,9,1\nd,4,4\n"


@pytest.fixture
def backlog(tmp_path: Path) -> Path:
    """Write a backlog of four requests."""
    path = tmp_path / "backlog.csv"
    path.write_text(BACKLOG)
    return path


def test_bound_without_backlog_is_of_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    """Every formula and the prices stand beside the best, and the prices are checked."""
    code, out, err = run(capsys, "bound")
    assert code == 0
    assert "packaged example" in err
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    for name in ("output", "volume", "mean-busy-time", "prices"):
        assert name in rows
    assert "80,114" in rows["prices"]
    assert "1.0000" in rows["prices"]
    assert "certificate, checked" in rows["prices"]
    assert "formula" in rows["mean-busy-time"]


def test_bound_as_json(capsys: pytest.CaptureFixture[str], backlog: Path) -> None:
    """The document holds the best bound, exactly and rounded up, and a row a method."""
    told = document(capsys, "bound", backlog, "--kv-tokens", 12)
    instance = sortedf.read_backlog(backlog, kv_tokens=12)
    best = bounds.lower_bound(instance)
    assert (told["n"], told["kv_tokens"], told["method"]) == (4, 12, best.kind)
    assert Fraction(told["lower_bound_exact"]) == best.value
    assert told["lower_bound"] == -(-best.value.numerator // best.value.denominator)
    assert told["instance_sha256"] == instance.sha256
    assert [row["method"] for row in told["rows"]] == [*bounds.CLOSED_FORMS, "prices"]
    for row in told["rows"][:-1]:
        form = bounds.CLOSED_FORMS[row["method"]](instance)
        assert Fraction(row["lower_bound_exact"]) == form
        assert (row["proof"], row["pieces"]) == ("formula", None)
    assert told["rows"][-1]["proof"] == "certificate, checked"
    assert told["rows"][-1]["leaves"] == 1


@pytest.mark.parametrize("method", ["prices", "branching", "auto"])
@pytest.mark.parametrize("name", ["c.json", "c.json.gz"])
def test_a_certificate_is_verified(
    capsys: pytest.CaptureFixture[str], backlog: Path, tmp_path: Path, method: str, name: str
) -> None:
    """What bound writes verify recomputes; the same bytes twice."""
    path = tmp_path / name
    arguments = ["bound", backlog, "--kv-tokens", 12, "--method", method, "--certificate", path]
    told = document(capsys, *arguments)
    first = path.read_bytes()
    checked = document(capsys, "verify", path, backlog, "--kv-tokens", 12)
    assert checked["verified"]
    assert checked["lower_bound_exact"] == told["rows"][-1]["lower_bound_exact"]
    assert checked["leaves"] == told["rows"][-1]["leaves"]
    document(capsys, *arguments)
    assert path.read_bytes() == first
    code, out, _ = run(capsys, "verify", path, backlog)
    assert code == 0
    assert "total latency at least" in out


def test_branching_proves_the_optimum(capsys: pytest.CaptureFixture[str], backlog: Path) -> None:
    """The tree reaches the optimum of four requests, which `exact` finds by full search."""
    told = document(capsys, "bound", backlog, "--kv-tokens", 12, "--method", "branching")
    exact = document(capsys, "solve", backlog, "--kv-tokens", 12, "--solver", "exact")
    assert told["lower_bound"] == exact["total_latency"]
    assert exact["status"] == "optimal"
    # Given time, a small backlog is branched on without being asked.
    timed = document(capsys, "bound", backlog, "--kv-tokens", 12, "--time-limit", 20)
    assert timed["method"] == "branching"
    assert timed["lower_bound"] == exact["total_latency"]


def test_blocks_and_oversized_requests(
    capsys: pytest.CaptureFixture[str], backlog: Path, tmp_path: Path
) -> None:
    """A certificate says for which blocks it is and what was left out; verify heeds both."""
    path = tmp_path / "c.json"
    arguments = ["bound", backlog, "--kv-tokens", 10, "--block-size", 2]
    assert run(capsys, *arguments)[0] == 4
    told = document(capsys, *arguments, "--skip-oversized", "--certificate", path)
    assert (told["n"], told["skipped"], told["block_size"]) == (3, 1, 2)
    written = json.loads(path.read_text())
    assert (written["block_size"], written["skipped"], written["kv_tokens"]) == (2, [2], 10)
    checked = document(capsys, "verify", path, backlog)
    assert (checked["n"], checked["skipped"]) == (3, 1)
    code, out, _ = run(capsys, "verify", path, backlog)
    assert code == 0
    assert "left out" in out
    for skipped in ([], [1], [1, 2]):
        path.write_text(json.dumps(written | {"skipped": skipped}))
        assert run(capsys, "verify", path, backlog)[0] == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(bound="1/1"), "recorded as 1/1, the prices prove"),
        (lambda c: c["prices"][0].__setitem__(2, c["prices"][0][2] + 10**9), "the prices prove"),
        (lambda c: c["prices"][0].__setitem__(2, -1), "a price is negative"),
        (lambda c: c["prices"][1].__setitem__(0, 1), "after step"),
        (lambda c: c.update(denominator=c["denominator"] + 1), "the prices prove"),
        (lambda c: c.update(kv_tokens=13), "the prices prove"),
        (lambda c: c.update(instance_sha256="0" * 64), "is for content"),
    ],
)
def test_a_tampered_certificate_is_found(
    capsys: pytest.CaptureFixture[str],
    backlog: Path,
    tmp_path: Path,
    change: Callable[[dict[str, Any]], object],
    message: str,
) -> None:
    """Whatever is changed in a certificate, verify says what is wrong and exits with 6."""
    path = tmp_path / "c.json"
    run(capsys, "bound", backlog, "--kv-tokens", 12, "--certificate", path)
    certificate = json.loads(path.read_text())
    change(certificate)
    path.write_text(json.dumps(certificate))
    code, out, err = run(capsys, "verify", path, backlog)
    assert (code, out) == (6, "")
    assert err.startswith(f"{path}: ")
    assert message in err
    code, out, _ = run(capsys, "verify", path, backlog, "--json")
    told = json.loads(out)
    assert (code, told["verified"]) == (6, False)
    assert message in told["violations"][0]["message"]


def test_another_backlog_or_budget_is_found(
    capsys: pytest.CaptureFixture[str], backlog: Path, tmp_path: Path
) -> None:
    """A certificate of another backlog, or for another budget than asked for, is refused."""
    path = tmp_path / "c.json"
    run(capsys, "bound", backlog, "--kv-tokens", 12, "--certificate", path)
    code, _, err = run(capsys, "verify", path, backlog, "--kv-tokens", 11)
    assert (code, err) == (6, f"{path}: the certificate is for a KV budget of 12 tokens, not 11\n")
    backlog.write_text(BACKLOG.replace("b,2,7", "b,2,8"))
    code, _, err = run(capsys, "verify", path, backlog)
    assert code == 6
    assert "the backlog has" in err
    plan = tmp_path / "p.json"
    run(capsys, "solve", backlog, "--kv-tokens", 12, "-o", plan)
    assert run(capsys, "verify", plan, "--kv-tokens", 12)[0] == 0
    code, _, err = run(capsys, "verify", plan, "--kv-tokens", 11)
    assert (code, err) == (6, f"{plan}: the plan is for 12 tokens, not 11\n")


def test_many_violations_are_counted(
    capsys: pytest.CaptureFixture[str], backlog: Path, tmp_path: Path
) -> None:
    """Of many faults the first 20 are told and all are counted."""
    path = tmp_path / "c.json"
    run(capsys, "bound", backlog, "--kv-tokens", 12, "--certificate", path)
    certificate = json.loads(path.read_text())
    certificate["prices"] = [[step, step, -1] for step in range(1, 31)]
    path.write_text(json.dumps(certificate))
    code, _, err = run(capsys, "verify", path, backlog)
    assert code == 6
    assert len(err.splitlines()) == 21
    assert err.splitlines()[-1] == f"{path}: 30 violations in all"


def test_solve_writes_the_certificate_of_its_bound(
    capsys: pytest.CaptureFixture[str], backlog: Path, tmp_path: Path
) -> None:
    """The bound beside a plan has a certificate; where a full search proves, prices stand in."""
    path = tmp_path / "c.json"
    arguments = ["solve", backlog, "--kv-tokens", 12, "--certificate", path]
    told = document(capsys, *arguments, "--solver", "svf")
    assert told["bound_kind"] == "certified"
    proved = document(capsys, "verify", path, backlog)["lower_bound"]
    assert proved == told["lower_bound"] - 1  # the rest is by a formula
    code, out, err = run(capsys, *arguments, "--solver", "exact")
    assert code == 0
    assert "(exhaustive)" in out
    assert "the certificate proves" in err
    assert document(capsys, "verify", path, backlog)["verified"]


def test_compare_bounds_once(
    capsys: pytest.CaptureFixture[str], backlog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows of compare have the bound, which is computed once; --no-bound leaves it out."""
    monkeypatch.setattr(front, "lower_bounds", None)
    rows = document(capsys, "compare", backlog, "--kv-tokens", 12, "--block-size", 2)["rows"]
    instance = sortedf.read_backlog(backlog, kv_tokens=12).in_blocks(2)
    expected = bounds.lower_bound(instance).value
    assert {Fraction(row["lower_bound_exact"]) for row in rows} == {expected}
    for row in rows:
        assert row["gap"] == row["total_latency"] / row["lower_bound"] - 1
    _, out, _ = run(capsys, "compare", backlog, "--kv-tokens", 12)
    assert "gap" in out
    arguments = ["--kv-tokens", 12, "--no-bound", "--solvers", "svf,mcsf"]
    _, out, _ = run(capsys, "compare", backlog, *arguments)
    assert "gap" not in out
    told = document(capsys, "solve", backlog, "--kv-tokens", 12, "--no-bound")
    assert (told["lower_bound"], told["gap"]) == (None, None)


def test_certificates_on_pipes(backlog: Path) -> None:
    """A certificate goes to stdout alone, and is verified from stdin."""
    for command in ("bound", "solve"):
        done = program(command, backlog, "--kv-tokens", 12, "--certificate", "-")
        assert done.returncode == 0
        assert json.loads(done.stdout)["schema"] == "sortedf.bound/1"
        checked = program("verify", "-", backlog, "--json", input=done.stdout)
        assert checked.returncode == 0
        assert json.loads(checked.stdout)["certificate"] == "-"


def test_what_is_too_large_is_not_called_checked(
    capsys: pytest.CaptureFixture[str], backlog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proof that takes the checker long is left to verify, and the user is told."""
    monkeypatch.setattr(bound_command, "MOST_CHECKED", 1)
    code, out, err = run(capsys, "bound", backlog, "--kv-tokens", 12)
    assert code == 0
    assert "certificate, not checked" in out
    assert "check its certificate by verify" in err


def test_a_bound_that_does_not_hold_is_not_shown(
    capsys: pytest.CaptureFixture[str], backlog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the checker finds another bound than the method, the command fails with 6."""

    def boasting(*arguments: Any, **options: Any) -> Any:
        prices, value = ascent.ascend(*arguments, **options)
        return prices, value + 1

    monkeypatch.setattr(bounds, "ascend", boasting)
    code, out, err = run(capsys, "bound", backlog, "--kv-tokens", 12)
    assert (code, out) == (6, "")
    assert "the prices prove" in err


def test_interrupted_bounds_are_shown(
    capsys: pytest.CaptureFixture[str],
    backlog: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C shows the bounds found so far and exits with 130; without any, it only exits."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "c.json"
    arguments = ["bound", backlog, "--kv-tokens", 12, "--certificate", path]
    monkeypatch.setattr(bounds, "ascend", interrupt)
    code, out, err = run(capsys, *arguments)
    assert code == 130
    assert "mean-busy-time" in out
    assert "4 of 5 methods were run" in err
    assert not path.exists()
    monkeypatch.setattr(bound_command, "_find", interrupt)
    assert run(capsys, *arguments)[:2] == (130, "")


def test_ctrl_c_in_the_search_before_branching_ends_the_bound(
    capsys: pytest.CaptureFixture[str], backlog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search answers Ctrl-C with its best plan; branching does not go on from there."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bound_command, "_warm_up", lambda names: None)
    monkeypatch.setattr(front, "compile_kernels", lambda solver, workers: None)
    monkeypatch.setattr(search, "lower_bounds", interrupt)
    code, out, err = run(
        capsys, "bound", backlog, "--kv-tokens", 12, "--method", "branching", "--time-limit", 5
    )
    assert code == 130
    assert "mean-busy-time" in out
    assert "branching" not in out
    assert "4 of 5 methods were run" in err


def test_ctrl_c_in_branching_keeps_the_bound_so_far(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tree as it is then is checked, shown and written, and the command says it was stopped."""
    backlog, path = tmp_path / "b.csv", tmp_path / "c.json"
    sortedf.write_backlog(sortedf.generate("mix", 30, seed=2, kv_tokens=12_000), backlog)
    steps = branching.Branching.steps

    def interrupted(search: branching.Branching) -> Iterator[Any]:
        for number, step in enumerate(steps(search)):
            if number == 2:
                os.kill(os.getpid(), signal.SIGINT)
            assert number < 10
            yield step

    monkeypatch.setattr(branching.Branching, "steps", interrupted)
    # It is ignored in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    arguments = ["--kv-tokens", 12_000, "--method", "branching", "--certificate", path]
    try:
        code, out, err = run(capsys, "bound", backlog, *arguments)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert code == 130
    assert "branching" in out
    assert "branching was not run to its end" in err
    assert run(capsys, "verify", path, backlog)[0] == 0


@pytest.mark.parametrize("arguments", [["bound", "--certificate"], ["solve", "-o"]])
def test_what_cannot_be_written_is_refused_before_the_work(
    capsys: pytest.CaptureFixture[str],
    backlog: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
) -> None:
    """A missing folder, or the name of a folder, is no surprise after an hour of search."""
    monkeypatch.setattr(options, "load_backlog", None)
    for path, reason in ((tmp_path / "no" / "c.json", "there is no folder"), (tmp_path, "Is a ")):
        code, out, err = run(capsys, *arguments, path, backlog, "--kv-tokens", 12)
        assert (code, out) == (3, "")
        assert err.startswith(f"{path}: cannot be written: {reason}")


def test_help_of_bound_names_every_method(capsys: pytest.CaptureFixture[str]) -> None:
    """What the option takes can be read from its help."""
    _, out, _ = run(capsys, "bound", "--help")
    assert ", ".join(bounds.METHODS) in " ".join(out.split())


@pytest.mark.parametrize("text", ["", "[]", "3", '{"kv_tokens": 12}', '{"schema": 1}'])
def test_verify_of_neither_plan_nor_certificate(
    capsys: pytest.CaptureFixture[str], backlog: Path, tmp_path: Path, text: str
) -> None:
    """Says so, and what to name instead."""
    path = tmp_path / "what.json"
    path.write_text(text)
    code, out, err = run(capsys, "verify", path, backlog)
    assert (code, out) == (3, "")
    assert err.startswith(f"{path}: neither a plan nor a certificate; name ")


USAGE = [
    (["bound", "--method", "nope"], "no bound 'nope'"),
    (["bound", "--method", "volume", "--time-limit", "3"], "takes no limit"),
    (["bound", "--method", "volume", "--certificate", "c.json"], "has no certificate"),
    (["bound", "--time-limit", "0"], "above 0"),
    (["bound", "--certificate", "-", "--json"], "stdout"),
    (["bound", "{backlog}"], "--kv-tokens is missing"),
    (
        ["bound", "{backlog}", "--kv-tokens", "12", "--certificate", "{backlog}"],
        "a file that is read",
    ),
    (["bound", "--arrivals"], "packaged example"),
    (["bound", "--solver", "svf"], "--solver"),
    (["solve", "-o", "-", "--certificate", "-"], "stdout"),
    (["solve", "--certificate", "c.json", "--no-bound"], "--no-bound"),
    (["verify", "{certificate}"], "BACKLOG"),
    (["verify", "-", "-"], "stdin"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE)
def test_usage_errors_of_bounds(
    capsys: pytest.CaptureFixture[str],
    backlog: Path,
    tmp_path: Path,
    arguments: list[str],
    message: str,
) -> None:
    """A wrong option is one line on stderr, nothing on stdout, and exit code 2."""
    certificate = tmp_path / "c.json"
    certificate.write_text('{"schema":"sortedf.bound/1"}')
    names = {"backlog": backlog, "certificate": certificate}
    code, out, err = run(capsys, *(a.format(**names) for a in arguments))
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "data",
    [
        b'{"schema":"sortedf.bound/1"}',
        b'{"schema":"sortedf.bound/2","prices":[]}',
        b'{"schema":"sortedf.bound/1","kv_tokens":1',
        gzip.compress(b'{"schema":"sortedf.bound/1"}', mtime=0)[:-3],
        b"[]",
        b"",
    ],
)
def test_files_that_are_no_certificate(
    capsys: pytest.CaptureFixture[str], backlog: Path, tmp_path: Path, data: bytes
) -> None:
    """Bad input is exit code 3 and one line that names the file."""
    path = tmp_path / "c.json"
    path.write_bytes(data)
    code, out, err = run(capsys, "verify", path, backlog)
    assert (code, out) == (3, "")
    assert err.startswith(str(path))
    assert len(err.splitlines()) == 1
    code, out, err = run(capsys, "bound", path, "--kv-tokens", 9)
    assert (code, out) == (3, "")


def test_a_trace_with_stamps_is_bounded_over_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Releases in steps of half a second: bounded, certified, verified; refused for other steps."""
    trace = tmp_path / "trace.csv"
    rows = [
        f"2023-11-16 18:17:{3 + i // 2:02}.{5 * (i % 2)},{40 + i},{9 + i % 7}" for i in range(40)
    ]
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(rows) + "\n")
    certificate = tmp_path / "bound.json"
    steps = ("--arrivals", "--step-seconds", 0.5)
    budget = ("--kv-tokens", 100)
    found = document(capsys, "bound", trace, *budget, *steps, "--certificate", certificate)
    checked = document(capsys, "verify", certificate, trace, *steps)
    by_prices = [row["lower_bound"] for row in found["rows"] if row["method"] == "prices"]
    assert checked["lower_bound"] == by_prices[0]
    assert found["lower_bound"] > sum(9 + i % 7 for i in range(40))
    plan = document(capsys, "solve", trace, *budget, *steps, "--no-bound")
    assert found["lower_bound"] <= plan["total_latency"]
    for other in (("--arrivals",), ("--arrivals", "--step-seconds", 0.25), ()):
        code, _, err = run(capsys, "verify", certificate, trace, *other)
        assert code == 6
        assert "the backlog has" in err
