"""`sortedf solve --steptime`: what a plan takes on the engine, beside its steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import document, run

import sortedf
from sortedf.engine import StepTimeModel, engine_of_plan, execute, published, write_step_time
from sortedf.instances import read_plan

STEPS = ("total_latency", "mean_latency", "p50_latency", "p95_latency", "p99_latency", "makespan")


def test_every_column_has_its_seconds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The document has them all, and they are those of the plan that is written, on that engine."""
    plan = tmp_path / "plan.json"
    options = ("--solver", "svf", "--no-bound", "--block-size", 16)
    plain = document(capsys, "solve", *options)
    timed = document(
        capsys, "solve", *options, "--steptime", "qwen3-8b-h100", "--max-num-seqs", 20, "-o", plan
    )
    written = read_plan(plan)
    model = published()["qwen3-8b-h100"]
    latency = execute(written, model, engine_of_plan(written, max_num_seqs=20)).latency
    for name in STEPS:
        assert timed[name] == plain[name]
    assert timed["engine"]["num_gpu_blocks"] == 16492 // 16 + 1
    assert timed["engine"]["max_num_seqs"] == 20
    assert timed["mean_latency_seconds"] == pytest.approx(latency.sum() / 300)
    assert timed["makespan_seconds"] == latency.max()
    ordered = np.sort(latency)
    for percent in (50, 95, 99):
        assert timed[f"p{percent}_latency_seconds"] == ordered[-(-300 * percent // 100) - 1]
    assert not {f"{name}_seconds" for name in STEPS} & plain.keys()


def test_the_table_has_steps_and_seconds(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A file of steps of a tenth of a second: each figure in steps and in seconds."""
    model = tmp_path / "steps.json"
    write_step_time(StepTimeModel(fixed=0.1), model)
    backlog = tmp_path / "backlog.csv"
    backlog.write_text("prompt_tokens,output_tokens\n5,3\n2,7\n9,1\n")
    code, out, _ = run(capsys, "solve", backlog, "--kv-tokens", 100, "--steptime", model)
    assert code == 0
    assert "11 steps, 1.100 s" in out
    assert "3 / 7 / 7, 0.300 / 0.700 / 0.700 s" in out
    assert "7 steps, 0.700 s" in out
    assert "7, 0 preemptions" in out


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--steptime", "none.json"], 3, "none.json: cannot be read"),
        (["--on-seconds"], 2, "--on-seconds needs --steptime"),
        (
            ["--on-seconds", "--steptime", "qwen3-8b-h100", "--solver", "svf"],
            2,
            "--on-seconds chooses the order itself",
        ),
        (["--solver", "fcfs", "--prefill-weight", 1], 2, "prefill_weight"),
        (["--max-num-seqs", 3], 2, "--max-num-seqs is of --steptime, which is missing"),
        (["--max-num-batched-tokens", 3], 2, "--max-num-batched-tokens is of --steptime"),
        (
            ["--steptime", "qwen3-8b-h100", "--max-num-batched-tokens", 3],
            2,
            "max_num_batched_tokens (3) is below max_num_seqs (256)",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    capsys: pytest.CaptureFixture[str], options: list[Any], code: int, message: str
) -> None:
    """In one line, before anything is planned."""
    found, out, err = run(capsys, "solve", *options)
    assert (found, out) == (code, "")
    assert message in err
    assert "planning" not in err


def test_a_weight_below_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """In one line."""
    code, out, err = run(capsys, "solve", "-q", "--solver", "svf", "--prefill-weight", -1)
    assert (code, out) == (2, "")
    assert "prefill_weight is -1.0" in err


def test_a_model_that_is_none_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A plan in place of a model: the file and what is wrong."""
    plan = tmp_path / "plan.json"
    sortedf.write_plan(sortedf.solve(sortedf.example(), solver="svf", bound=False), plan)
    code, out, err = run(capsys, "solve", "--steptime", plan)
    assert (code, out) == (3, "")
    assert "is not a step-time model" in err


def test_planning_on_seconds(capsys: pytest.CaptureFixture[str], shared: Path) -> None:
    """Long prompts: another order is best in seconds, worse in steps, and the note says so."""
    backlog = shared / "instances" / "azure-1000-s0.csv"
    options = (
        "--kv-tokens",
        60000,
        "--block-size",
        16,
        "--no-bound",
        "--steptime",
        "qwen3-8b-h100",
    )
    code, _, err = run(capsys, "solve", backlog, *options, "--on-seconds", "--json")
    assert code == 0
    assert "by svf with prefill weight" in err
    chosen = document(capsys, "solve", backlog, *options, "--on-seconds")
    volume = document(capsys, "solve", backlog, *options, "--solver", "svf")
    assert chosen["mean_latency_seconds"] < 0.98 * volume["mean_latency_seconds"]
    assert chosen["mean_latency"] > 1.02 * volume["mean_latency"]
    weight = chosen["parameters"]["prefill_weight"]
    again = document(
        capsys, "solve", backlog, *options, "--solver", "svf", "--prefill-weight", weight
    )
    same = chosen.keys() - {"seconds"}
    assert {key: again[key] for key in same} == {key: chosen[key] for key in same}
