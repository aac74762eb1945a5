"""Same seed and iteration limit: the same plan, byte for byte, in every process, on any threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from sortedf.solvers import SOLVERS

PLANS = """
import sys
from pathlib import Path
import numpy as np
import sortedf
from sortedf.solvers import SOLVERS, MaxIterations

folder, threads = Path(sys.argv[1]), int(sys.argv[2])
mix = sortedf.generate("mix", 40, seed=1)
searches = {
    "improve": ("improve", mix, 8),
    "improve-released": ("improve", mix.replace(release=np.arange(40) * 27 % 500), 6),
    "exact-by-states": ("exact", sortedf.generate("synthetic", 20, seed=3), 150),
    "exact-by-prices": ("exact", sortedf.generate("mix", 12, seed=4, kv_tokens=4096), 90),
    "auto-small": ("auto", sortedf.generate("synthetic", 12, seed=5), 140),
    "auto-large": ("auto", sortedf.generate("chat", 60, seed=6, kv_tokens=2000), 6),
}
for name, (solver, backlog, limit) in searches.items():
    options = {"threads": threads} if "threads" in SOLVERS[solver].options else {}
    stop = MaxIterations(limit)
    result = sortedf.solve(backlog, solver=solver, seed=7, stop=stop, **options)
    sortedf.write_plan(result, folder / f"{name}.json")
for solver in SOLVERS.values():
    if not solver.anytime or solver.limit_seconds is None:
        options = {} if solver.deterministic else {"seed": 7}
        result = sortedf.solve(mix, solver=solver.name, **options)
        sortedf.write_plan(result, folder / f"{solver.name}.jsonl.gz")
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, bytes]]:
    """Plans of two processes, by name: on one thread, and on two with other hashes."""
    found = []
    for threads in (1, 2):
        folder = tmp_path_factory.mktemp("plans")
        environment = os.environ | {"PYTHONHASHSEED": str(threads)}
        command = [sys.executable, "-c", PLANS, str(folder), str(threads)]
        subprocess.run(command, check=True, capture_output=True, env=environment)
        found.append({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    return found


def test_plans_are_the_same_bytes(written: list[dict[str, bytes]]) -> None:
    """One process or another, one thread or two; and no two plans are of the same solver."""
    one, two = written
    assert one.keys() == two.keys()
    assert [name for name in one if two[name] != one[name]] == []
    at_once = [s for s in SOLVERS.values() if not s.anytime or s.limit_seconds is None]
    assert len(set(one.values())) == len(one) == 6 + len(at_once)


def test_plans_hold_neither_threads_nor_times(written: list[dict[str, bytes]]) -> None:
    """What a search records is how far it went, by its own count, and what it has proved."""
    for name, text in written[0].items():
        if name.endswith(".json"):
            plan = json.loads(text)
            assert plan["parameters"].keys() <= {"iterations", "chosen", "lookahead"}
            assert plan["parameters"]["iterations"] > 0
            assert plan["lower_bound"] <= plan["total_latency"]
            assert plan.keys() == {
                "schema",
                "kv_tokens",
                "solver",
                "parameters",
                "seed",
                "version",
                "instance_sha256",
                "total_latency",
                "lower_bound",
                "requests",
            }
