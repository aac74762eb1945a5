"""`sortedf solve --steptime` and `predict`: what a plan takes on the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import document, run

import sortedf
from sortedf.engine import (
    Calibration,
    ErrorInterval,
    StepTimeModel,
    engine_of_plan,
    predict,
    published,
    write_calibration,
    write_step_time,
)
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
    latency = predict(written, model, engine_of_plan(written, max_num_seqs=20)).replayed.latency
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
        (
            ["--steptime", "none.json"],
            3,
            "none.json: no such file; packaged step times are qwen3-0.6b-h100",
        ),
        (["--on-seconds"], 2, "--on-seconds needs --steptime"),
        (
            ["--on-seconds", "--steptime", "qwen3-8b-h100", "--solver", "svf"],
            2,
            "--on-seconds chooses the order itself",
        ),
        (["--solver", "fcfs", "--prefill-weight", 1], 2, "prefill_weight"),
        (["--max-num-seqs", 3], 2, "--max-num-seqs is of --steptime, which is missing"),
        (["--max-num-batched-tokens", 3], 2, "--max-num-batched-tokens is of --steptime"),
        (["--no-async-scheduling"], 2, "--async-scheduling is of --steptime"),
        (["--steptime", "qwen3-8b-h100", "--policy", "sjf"], 2, "policy is 'sjf'"),
        (["--steptime", "qwen3-8b-h100", "--engine-version", "9"], 2, "known are 0.32, 0.19"),
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


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ((), 2, "a KV budget of 10 tokens holds no block of 16"),
        (("--on-seconds",), 2, "a KV budget of 10 tokens holds no block of 16"),
        (("--engine-block-size", 4, "--max-model-len", 4), 3, "no room for an output"),
        (("--num-gpu-blocks", 2, "--engine-block-size", 4), 4, "needs 6 tokens"),
        (
            (
                "--engine-block-size",
                4,
                "--no-chunked-prefill",
                "--max-num-batched-tokens",
                5,
                "--max-num-seqs",
                2,
            ),
            3,
            "may need 6 tokens in one step",
        ),
    ],
)
def test_an_engine_that_cannot_serve_the_backlog_is_refused_first(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[Any, ...],
    code: int,
    message: str,
) -> None:
    """Before anything is planned."""
    backlog = tmp_path / "backlog.csv"
    backlog.write_text("prompt_tokens,output_tokens\n4,3\n1,2\n")

    def planned(*arguments: Any, **options: Any) -> None:
        raise AssertionError("planned in vain")

    monkeypatch.setattr("sortedf.solvers.solve", planned)
    monkeypatch.setattr("sortedf.solvers.on_seconds.plans_in_seconds", planned)
    found, out, err = run(
        capsys, "solve", backlog, "--kv-tokens", 10, "--steptime", "qwen3-8b-h100", *options
    )
    assert (found, out) == (code, "")
    assert message in err


def test_step_times_are_not_written_over(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Nor read from a stream that brings the backlog."""
    steps = tmp_path / "steps.json"
    write_step_time(StepTimeModel(fixed=0.1), steps)
    before = steps.read_bytes()
    for flag in ("-o", "--certificate"):
        code, out, err = run(capsys, "solve", "--steptime", steps, flag, steps)
        assert (code, out) == (2, "")
        assert "is a file that is read" in err
    assert steps.read_bytes() == before
    code, out, err = run(capsys, "solve", "-", "--kv-tokens", 9, "--steptime", "-")
    assert (code, out) == (2, "")
    assert "can be stdin" in err


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


@pytest.mark.parametrize("policy", ["planned", "fcfs", "priority"])
def test_predict_says_what_solve_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, policy: str
) -> None:
    """The plan that solve wrote, on the same engine, by a file that a calibration wrote."""
    steps, plan = tmp_path / "steps.json", tmp_path / "plan.json"
    interval = ErrorInterval(
        coverage=0.9, first_token=0.1, completion=0.05, step_seconds=0.01, held_out=9
    )
    model = published()["qwen3-8b-h100"]
    write_calibration(Calibration(model=model, shared_blocks=2, interval=interval), steps)
    engine = ("--steptime", steps, "--policy", policy, "--prefix-caching", "--max-num-seqs", 30)
    solved = document(
        capsys, "solve", "--solver", "svf", "--no-bound", *engine, "--lookahead", 2, "-o", plan
    )
    found = document(capsys, "predict", plan, *engine)
    assert solved["engine"]["policy"] == policy
    assert solved["engine"]["block_size"] == 16
    assert solved["engine"]["shared_blocks"] == 2
    same = {name for name in solved if name.endswith("_seconds")}
    assert len(same) == 12
    for name in {*same, "engine", "engine_steps", "preemptions", "steptime", "steptime_file"}:
        assert found[name] == solved[name]
    assert found["steptime"]["calibration"]["interval"]["completion"] == 0.05


def test_only_the_policy_planned_spares_preemptions(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It is the default; by vLLM's own policies the same plan preempts on a tight cache."""
    plan = tmp_path / "plan.json"
    sortedf.write_plan(sortedf.solve(sortedf.example(), solver="svf", bound=False), plan)
    found = {
        policy: document(capsys, "predict", plan, "--steptime", "qwen3-8b-h100", *options)
        for policy, options in {
            "planned": (),
            "fcfs": ("--policy", "fcfs"),
            "priority": ("--policy", "priority"),
        }.items()
    }
    assert [found[policy]["engine"]["policy"] for policy in found] == list(found)
    assert found["planned"]["preemptions"] == 0
    assert found["fcfs"]["preemptions"] > 0
    assert found["priority"]["preemptions"] > 0


def test_releases_are_seconds_of_arrival(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Times are on the clock of the arrivals, and so are their intervals."""
    backlog, plan, steps = (tmp_path / name for name in ("b.csv", "plan.json", "steps.json"))
    backlog.write_text("prompt_tokens,output_tokens,release\n5,3,0\n2,7,40\n")
    interval = ErrorInterval(
        coverage=0.9, first_token=0.1, completion=0.1, step_seconds=1.0, held_out=9
    )
    write_calibration(Calibration(model=StepTimeModel(fixed=1.0), interval=interval), steps)
    assert run(capsys, "solve", backlog, "--kv-tokens", 100, "-q", "-o", plan)[0] == 0
    late = document(capsys, "predict", plan, "--steptime", steps)["requests"][1]
    assert (late["arrival"], late["first_token"], late["completion"]) == (40, 41, 47)
    assert late["first_token_interval"] == pytest.approx([40.8, 41.2])
    assert late["completion_interval"] == pytest.approx([46.2, 47.8])


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
