"""Each example runs, and ends with what it promises."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sortedf.instances import read_plan
from sortedf.solvers import check_plan

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
REQUESTS = 200


def run(*command: object) -> str:
    """Run a program, this Python and its programs first; gives what it prints."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_lines(path: Path) -> list[Any]:
    """Read a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def answered(folder: Path) -> None:
    """See that each request of the batch has an answer."""
    asked = [line["custom_id"] for line in read_lines(folder / "batch.jsonl")]
    lines = read_lines(folder / "run" / "output.jsonl")
    assert len(asked) == REQUESTS
    assert sorted(line["custom_id"] for line in lines) == sorted(asked)
    assert all(line["response"]["status_code"] == 200 for line in lines)


def goes_on(folder: Path, left: int, *command: object) -> None:
    """Do a job again of which so many answers are left: these stay, and the rest is answered."""
    output, plan = folder / "run" / "output.jsonl", (folder / "plan.json").read_bytes()
    kept = b"".join(output.read_bytes().splitlines(keepends=True)[:left])
    output.write_bytes(kept)
    run(*command)
    answered(folder)
    assert output.read_bytes().startswith(kept)
    assert (folder / "plan.json").read_bytes() == plan


def test_a_batch_job_in_the_shell(tmp_path: Path) -> None:
    """From a batch file to answers, with two pages; again, it goes on."""
    command = ("sh", EXAMPLES / "batch_job.sh", tmp_path / "job")
    out = run(*command)
    answered(tmp_path / "job")
    assert f"{REQUESTS} answers in {tmp_path}/job/run/output.jsonl" in out
    for page in ("plan.html", "run.html"):
        assert "<html" in (tmp_path / "job" / page).read_text()
    goes_on(tmp_path / "job", 60, *command)


def test_a_batch_job_in_python(tmp_path: Path) -> None:
    """The same through the library; what is predicted comes true on the replay."""
    command = (sys.executable, EXAMPLES / "batch_job.py", tmp_path / "job")
    out = run(*command)
    answered(tmp_path / "job")
    assert f"{REQUESTS} answered, 0 failed" in out
    figures = re.findall(r"_seconds: ([\d.]+), predicted ([\d.]+)", out)
    assert len(figures) == 3
    assert all(realized == predicted for realized, predicted in figures)
    steps = [int(text) for text in re.findall(r"(\d+) steps", out)]
    assert steps[0] < steps[1]  # the plan, arrival order
    for left in (60, REQUESTS):
        goes_on(tmp_path / "job", left, *command)


def test_a_batch_job_that_cannot_be_done_says_so_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "run").write_text("mine")
    with pytest.raises(AssertionError) as caught:
        run(sys.executable, EXAMPLES / "batch_job.py", tmp_path / "job")
    assert "Traceback" not in str(caught.value)
    assert f"{tmp_path}/job/run" in str(caught.value)


def rows(out: str) -> list[list[str]]:
    """Read the rows that the planner prints, without the first."""
    return [line.split() for line in out.replace(",", "").splitlines()[1:-1]]


def test_the_planner(tmp_path: Path) -> None:
    """Nobody is late, no GPU does two things at once, and the plans hold."""
    out = run(sys.executable, EXAMPLES / "planner.py", "-o", tmp_path / "plans")
    requests: dict[str, int] = {}
    spans: dict[str, list[tuple[float, float]]] = {}
    for job, part, n, gpu, begins, ends, due in rows(out):
        requests[job] = requests.get(job, 0) + int(n)
        assert float(ends) <= float(due)
        spans.setdefault(gpu, []).append((float(begins), float(ends)))
        plan = read_plan(tmp_path / "plans" / f"{job}-{part}.json")
        assert len(plan.ids) == int(n)
        assert check_plan(plan).ok
    assert requests == {"chats": 2000, "summaries": 1500, "nightly": 3000}
    for each in spans.values():
        each.sort()
        assert all(end <= begin for (_, end), (begin, _) in pairwise(each))
    assert out.splitlines()[-1].startswith(f"{len(spans)} GPU")


def test_the_planner_of_a_file(tmp_path: Path) -> None:
    """The tighter the deadline, the more GPUs; one that nothing can keep is said."""
    (tmp_path / "a.csv").write_text("prompt_tokens,output_tokens\n" + "2000,300\n" * 200)
    found = []
    for deadline in (100, 20, 12):
        (tmp_path / "jobs.csv").write_text(f"name,backlog,deadline\na,a.csv,{deadline}\n")
        out = run(sys.executable, EXAMPLES / "planner.py", tmp_path / "jobs.csv")
        found.append(len({row[3] for row in rows(out)}))
    assert found == sorted(set(found))
    (tmp_path / "jobs.csv").write_text("name,backlog,deadline\na,a.csv,1\n")
    with pytest.raises(AssertionError, match="not even a GPU for each request"):
        run(sys.executable, EXAMPLES / "planner.py", tmp_path / "jobs.csv")


def test_the_picture(tmp_path: Path) -> None:
    """The picture of the README can be drawn."""
    run(sys.executable, EXAMPLES / "picture.py", tmp_path / "orders.png")
    assert (tmp_path / "orders.png").read_bytes().startswith(b"\x89PNG")
