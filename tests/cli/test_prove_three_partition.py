"""`sortedf prove three-partition`."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from running import document, program, run

from sortedf import Instance
from sortedf.proofs_check import three_partition_check
from sortedf.verify import verify

YES = {"numbers": [26, 33, 41, 30, 30, 40], "target": 100}
NO = {"numbers": [4, 4, 4, 4, 4, 6], "target": 13}
PROVE = ("prove", "three-partition")


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    """Name a file for a problem."""
    return tmp_path / "problem.json"


def test_yes_with_its_partition(capsys: pytest.CaptureFixture[str], problem: Path) -> None:
    """The document holds the partition, the target latency, the optimum and what each way said."""
    problem.write_text(json.dumps(YES))
    told = document(capsys, *PROVE, problem)
    assert told["answer"] == "yes"
    assert sorted(map(sorted, told["partition"])) == [[26, 33, 41], [30, 30, 40]]
    assert [[YES["numbers"][i] for i in t] for t in told["positions"]] == told["partition"]  # type: ignore[index]
    assert (told["target_latency"], told["optimum"], told["kv_tokens"]) == (9, 9, 100)
    assert told["deciders"] == {"clique": "yes", "exact_cover": "yes", "schedule": "yes"}
    instance = Instance([a - 1 for a in told["numbers"]], [1] * 6, 100)
    assert told["instance_sha256"] == instance.sha256
    columns = (instance.prompt_tokens.tolist(), instance.output_tokens.tolist())
    report = verify(*columns, None, 100, told["starts"], total_latency=9)
    assert report.ok


def test_no(capsys: pytest.CaptureFixture[str], problem: Path) -> None:
    """No is an answer like yes: exit code 0, no partition, an optimum above the target."""
    problem.write_text(json.dumps(NO))
    told = document(capsys, *PROVE, problem)
    assert (told["answer"], told["partition"], told["positions"]) == ("no", None, None)
    assert (told["target_latency"], told["optimum"]) == (9, 10)
    assert set(told["deciders"].values()) == {"no"}


def test_the_table(capsys: pytest.CaptureFixture[str], problem: Path) -> None:
    """For people: the answer in the title, a line a triple, both latencies."""
    problem.write_text(json.dumps(YES))
    code, out, err = run(capsys, *PROVE, problem)
    assert (code, err) == (0, "")
    assert "yes: 6 numbers, triples of 100" in out
    assert "26 + 33 + 41" in out
    assert "9 steps" in out
    problem.write_text(json.dumps(NO))
    code, out, _ = run(capsys, *PROVE, problem)
    assert code == 0
    assert "no: 6 numbers" in out
    assert "10 steps" in out


def test_ones_are_doubled(capsys: pytest.CaptureFixture[str], problem: Path) -> None:
    """The budget of the backlog is the doubled target."""
    problem.write_text('{"numbers": [1, 1, 1, 1, 1, 1], "target": 3}')
    told = document(capsys, *PROVE, problem)
    assert (told["answer"], told["kv_tokens"], told["factor"]) == ("yes", 6, 2)


def test_stdin_and_gzip(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A problem comes from a pipe, or packed."""
    done = program(*PROVE, "-", "--json", input=json.dumps(YES))
    assert done.returncode == 0
    assert json.loads(done.stdout)["answer"] == "yes"
    packed = tmp_path / "problem.json.gz"
    packed.write_bytes(gzip.compress(json.dumps(NO).encode()))
    assert document(capsys, *PROVE, packed)["answer"] == "no"


def test_random(capsys: pytest.CaptureFixture[str], problem: Path) -> None:
    """Drawn ones are what they are asked to be, the same for a seed, and can be read."""
    for flags, answer in (((), "yes"), (("--no",), "no")):
        arguments = (*PROVE, "--random", "--m", 4, "--target", 60, *flags)
        told = document(capsys, *arguments, "--seed", 3)
        assert (told["answer"], told["m"], told["target"]) == (answer, 4, 60)
        assert document(capsys, *arguments, "--seed", 3) == told
        assert document(capsys, *arguments, "--seed", 4)["numbers"] != told["numbers"]
        problem.write_text(json.dumps({key: told[key] for key in ("numbers", "target")}))
        assert document(capsys, *PROVE, problem) == told
    told = document(capsys, *PROVE, "--random")
    assert (told["m"], told["target"]) == (5, 100)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("", ["JSON is malformed"]),
        ('{"numbers": [3, 3', ["JSON is malformed"]),
        ("[1]", ['not an object but a list; write {"numbers": [...], "target": B}']),
        ('{"numbers": [3, 3, 4]}', ["the key 'target' is missing; write"]),
        ('{"target": 10}', ["the key 'numbers' is missing; write"]),
        ('{"numbers": 3, "target": 10}', ["the numbers are 3, not a list; write"]),
        ('{"numbers": [3, 3, 4], "target": 10, "B": 1}', ['the key "B" is unknown; write']),
        ('{"numbers": [3, 3, 4], "target": "10"}', ["the target is '10'; it must be"]),
        ('{"numbers": [3, 3, 4, 4], "target": 10}', ["there are 4 numbers; there must be"]),
        ('{"numbers": [3, 3, 3], "target": 10}', ["the numbers sum to 9; they must sum to"]),
        ('{"numbers": [1, 3.5, 8], "target": 10}', ["number 1 is 1;", "number 2", "number 3"]),
        (json.dumps({"numbers": [3] * 24, "target": 9}), ["m is 8; up to m = 7 (21 numbers)"]),
    ],
)
def test_bad_files(
    capsys: pytest.CaptureFixture[str], problem: Path, text: str, messages: list[str]
) -> None:
    """A line a fault, with the file, what is wrong and what to do; exit code 3."""
    problem.write_text(text)
    code, out, err = run(capsys, *PROVE, problem, "--json")
    assert (code, out) == (3, "")
    lines = err.splitlines()
    assert len(lines) == len(messages)
    for line, message in zip(lines, messages, strict=True):
        assert line.startswith(f"{problem}: ")
        assert message in line


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str], problem: Path) -> None:
    """As for every command."""
    assert run(capsys, *PROVE, problem) == (3, "", f"{problem}: no such file\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a FILE or say --random"),
        (["x.json", "--random"], "name a FILE or say --random"),
        (["x.json", "--m", "3"], "--m goes with --random only"),
        (["x.json", "--target", "30"], "--target goes with --random only"),
        (["x.json", "--seed", "0"], "--seed goes with --random only"),
        (["x.json", "--no"], "--no goes with --random only"),
        (["--random", "--m", "8"], "--m is 8; up to m = 7 (21 numbers) are decided"),
        (["--random", "--m", "1", "--no"], "--no needs --m 2"),
        (["--random", "--target", "8"], "no triple sums to 8"),
        (["--random", "--target", "10", "--m", "2", "--no"], "raise B"),
        (["--random", "--target", str(2**40)], "at most 2^40 tokens"),
        (["--random", "--m", "0"], "Invalid value for '--m'"),
    ],
)
def test_usage(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    """What does not go together is exit code 2, one line."""
    code, out, err = run(capsys, *PROVE, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_disagreement_is_no_answer(
    capsys: pytest.CaptureFixture[str], problem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should the ways not agree, that is told instead of an answer, with exit code 6."""
    problem.write_text(json.dumps(YES))
    monkeypatch.setattr(three_partition_check, "by_exact_cover", lambda problem: None)
    code, out, err = run(capsys, *PROVE, problem)
    assert (code, out) == (6, "")
    assert "clique: yes, exact cover: no, schedule: yes" in err


INTERRUPTED = """
import os, signal
from sortedf.cli.main import run
from sortedf.proofs_check import three_partition_check as check

signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in the background

def answer_of(*arguments):
    if check.by_exact_cover(arguments[0].problem) is not None:
        os.kill(os.getpid(), signal.SIGINT)
    return go_on(*arguments)

go_on, check.answer_of = check.answer_of, answer_of
run()
"""


def test_ctrl_c_after_an_exact_cover() -> None:
    """CP-SAT leaves Ctrl-C as it is: 130 and a word, rather than death by the signal."""
    command = [sys.executable, "-c", INTERRUPTED, *PROVE, "--random", "--m", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
