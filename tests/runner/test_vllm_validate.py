"""A run on the real engine, and other orders beside it: what it did, step by step, not how fast."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from real_engine import ROOT, interpreter
from tiny_model import write_model

import sortedf
from sortedf.engine import StepTimeModel, read_step_log, write_step_time

pytestmark = pytest.mark.vllm

N, BLOCK = 80, 32
ENGINE = (
    *("--engine", "vllm", "--load-format", "dummy", "--dtype", "float32", "--enforce-eager"),
    *("--in-process", "--kv-cache-memory-bytes", str(1 << 26), "--engine-block-size", str(BLOCK)),
    *("--max-model-len", "512", "--max-num-batched-tokens", "512", "--max-num-seqs", "64"),
)


def program(*arguments: object) -> str:
    """Run a command line where vLLM is installed; gives stdout."""
    done = subprocess.run(
        [interpreter(), "-m", "sortedf", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a plan on a KV cache that holds a tenth of its backlog; then the same in other orders."""
    folder = tmp_path_factory.mktemp("validate")
    generator = np.random.default_rng(2)
    talks = generator.random(N) < 0.8
    prompt = np.where(talks, generator.integers(4, 30, N), generator.integers(40, 200, N))
    output = np.where(talks, generator.integers(10, 80, N), generator.integers(2, 20, N))
    blocks = int(np.sum(-(-(prompt + output - 1) // BLOCK))) // 10
    instance = sortedf.Instance(prompt, output, blocks * BLOCK)
    result = sortedf.solve(instance, solver="svf", block_size=BLOCK, bound=False)
    sortedf.write_plan(result, folder / "plan.json")
    write_step_time(StepTimeModel(fixed=0.004, prefill_token=1e-5), folder / "steptime.json")
    write_model(folder, context=1024, vocabulary=512)
    cache = ("--num-gpu-blocks", blocks + 1, "--random-prompts", "--model", folder)
    told = ("run", folder / "plan.json", *ENGINE, *cache, "--steptime", folder / "steptime.json")
    program(*told, "-o", folder / "run")
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(
        program("validate", folder / "run", "--against", "fcfs,svf", "--json")
    )
    return told


def test_the_plan_is_kept(folder: Path, found: dict[str, Any]) -> None:
    """Nothing is preempted, the order is the plan's, and all steps are those foretold."""
    (attempt,) = found["attempts"]
    assert attempt["whole"]
    assert attempt["n"] == N
    assert attempt["admission"]["in_order"]
    assert attempt["lengths"] is None
    assert attempt["work"]["realized"] == {"preemptions": 0, "recomputed_tokens": 0}
    assert attempt["work"]["predicted"] == attempt["work"]["realized"]
    own = folder / "run" / "attempts" / "1"
    assert attempt["steps"] == len(read_step_log(own / "steps.csv").seconds)
    meta = json.loads((own / "meta.json").read_text())
    assert meta["warm_up"]["requests"] == N
    assert meta["warm_up"]["rounds"] > 1
    # Who ends in which step was foretold, whatever a step takes.
    assert attempt["rank_correlation"] == pytest.approx({"spearman": 1.0, "kendall": 1.0})


def test_others_do_what_was_foretold(folder: Path, found: dict[str, Any]) -> None:
    """Each request once; preemptions and what they cost are those of the replay, exactly."""
    rows = found["against"]["rows"]
    assert [row["order"] for row in rows] == ["plan", "fcfs", "svf"]
    for row in rows[1:]:
        assert row["n"] == N
        assert row["in_order"]
        assert row["realized"]["preemptions"] == row["predicted"]["preemptions"] > 0
        assert row["realized"]["recomputed_tokens"] == row["predicted"]["recomputed_tokens"] > 0
        own = folder / "run" / "against" / row["order"] / "1"
        lines = [json.loads(line) for line in (own / "output.jsonl").read_bytes().splitlines()]
        assert len(lines) == len({line["custom_id"] for line in lines}) == N
        assert all(line["error"] is None for line in lines)
        steps = len(read_step_log(own / "attempts" / "1" / "steps.csv").seconds)
        prediction = json.loads((own / "attempts" / "1" / "prediction.json").read_text())
        assert steps == prediction["engine_steps"]
        scheduler = json.loads((own / "attempts" / "1" / "meta.json").read_text())
        assert scheduler["handover"] == "order"
    assert len(found["against"]["ranking"]) == 3


def test_outputs_that_err(folder: Path, tmp_path: Path) -> None:
    """All is done, in the order of the plan; loss is reported."""
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    cache = ("--num-gpu-blocks", manifest["settings"]["num_gpu_blocks"], "--model", folder)
    begun = ("run", folder / "plan.json", *ENGINE, *cache, "--random-prompts", "-q", "--json")
    done = json.loads(program(*begun, "--output-error", "0.3", "-o", tmp_path / "run"))
    assert (done["answered"], done["failed"], done["not_run"]) == (N, 0, 0)
    told = ("validate", tmp_path / "run", "--steptime", folder / "steptime.json", "--json")
    (attempt,) = json.loads(program(*told))["attempts"]
    assert attempt["admission"]["in_order"]
    assert min(attempt["lengths"]["longer"], attempt["lengths"]["shorter"]) > 20
    replayed = attempt["lengths"]["replayed"]
    realized = attempt["work"]["realized"]
    assert realized["preemptions"] == done["realized"]["preemptions"]
    assert (realized["recomputed_tokens"] > 0) == (realized["preemptions"] > 0)
    assert replayed["preemptions"] == realized["preemptions"]
    assert replayed["recomputed_tokens"] == realized["recomputed_tokens"]
    assert replayed["error"] == pytest.approx(replayed["of_lengths"] + replayed["of_step_times"])
