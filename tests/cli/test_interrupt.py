"""Ctrl-C during a search: the best plan is written; before it, there is none to write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import sortedf
from sortedf.solvers import check_plan

PROGRAM = """
import os, signal
from sortedf.cli.main import run
from sortedf.solvers.{module} import {name} as Account

signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in the background

def look(self, *arguments):
    limited = type(self.{stop}).__name__ == "MaxSeconds"
    if limited == {in_search} and self.iterations >= 2:
        os.kill(os.getpid(), signal.SIGINT)
    return go_on(self, *arguments)

go_on, Account.{method} = Account.{method}, look
run()
"""
SEARCHES = {
    "improve": ("improve.search", "Search", "_stopped", "stop"),
    "exact": ("exact.work", "Work", "tick", "_stop"),
}


def interrupted(
    solver: str, in_search: bool, backlog: Path, plan: Path
) -> subprocess.CompletedProcess[str]:
    """Run `solve`, and send it a real SIGINT at its second iteration, or that of its warm-up."""
    module, name, method, stop = SEARCHES[solver]
    program = PROGRAM.format(
        module=module, name=name, method=method, stop=stop, in_search=in_search
    )
    arguments = ["solve", backlog, "--kv-tokens", 50, "--solver", solver, "--time-limit", 3000]
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments), "-o", str(plan), "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


@pytest.mark.parametrize("solver", SEARCHES)
def test_the_best_plan_is_kept(solver: str, tmp_path: Path) -> None:
    """In the search: the plan so far is written, verified, and the program ends with 130."""
    backlog, plan = tmp_path / "backlog.csv", tmp_path / "plan.json"
    sortedf.write_backlog(sortedf.generate("synthetic", 40, seed=3, kv_tokens=50), backlog)
    done = interrupted(solver, True, backlog, plan)
    assert done.returncode == 130
    account = json.loads(done.stdout)
    assert (account["stop_reason"], account["verified"]) == ("interrupted", True)
    assert done.stderr.splitlines()[-2:] == ["this is the best plan so far", "interrupted"]
    written = sortedf.read_plan(plan)
    assert check_plan(written, sortedf.read_backlog(backlog, kv_tokens=50)).ok
    assert written.total_latency == account["total_latency"]


@pytest.mark.parametrize("solver", SEARCHES)
def test_the_warm_up_can_be_interrupted(solver: str, tmp_path: Path) -> None:
    """While kernels are being compiled: the program ends, and does not go on to search."""
    backlog, plan = tmp_path / "backlog.csv", tmp_path / "plan.json"
    sortedf.write_backlog(sortedf.generate("synthetic", 40, seed=3, kv_tokens=50), backlog)
    done = interrupted(solver, False, backlog, plan)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["backlog.csv"]
