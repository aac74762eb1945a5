"""What the whole engine on the CPU logs of its steps: complete, by its own words, calibrated from.

How near predictions come is a matter of time, and of the machine: bench/cpu_engine.py.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from engine_workloads import random_group
from real_engine import ask

import sortedf
from sortedf.engine import (
    EngineSettings,
    Replay,
    StepLog,
    StepTimeModel,
    calibrate_from_steps,
    read_step_log,
    write_step_log,
)

pytestmark = pytest.mark.vllm

CLOCKS = ("wall", "processor")


def test_steps_of_a_backlog(tmp_path: Path) -> None:
    """Terms as the engine counts them are the replay's, in every step; two groups, one engine.

    The first of two backlogs is calibrated from; the second one, all there at once like the first,
    has other lengths and another order, and its steps are foretold.
    """
    group = random_group(random.Random(20261206), works=2)
    limit = group["settings"]["max_model_len"]
    for work in group["works"]:
        n = len(work["prompt"])
        work |= {"arrivals": [0] * n, "aborts": [None] * n, "stamps": [*range(n)]}
        work |= {"priorities": [0] * n}
    known, other = group["works"]
    answers = ask(
        "drive_engine.py",
        [{"settings": group["settings"], "works": [known]}, {"works": [other]}],
    )
    settings = EngineSettings(**group["settings"])
    for work, (answer,) in zip((known, other), answers, strict=True):
        assert max(work["prompt"]) < limit
        instance = sortedf.Instance(work["prompt"], work["output"], settings.kv_tokens)
        log = Replay(instance, settings).run(StepTimeModel(fixed=1.0), log=True).log
        assert log is not None
        assert np.array_equal(log.work[:, 1:], answer["work"])
        for clock in CLOCKS:
            begins, ends = np.array(answer[clock]).T
            assert len(ends) == len(answer["work"])
            assert (begins <= ends).all()
            assert (ends[:-1] <= begins[1:]).all()
    ((answer,), _) = answers
    begins, ends = np.array(answer["wall"]).T
    work_done = np.column_stack([np.ones(len(ends)), answer["work"]])
    path = tmp_path / "steps.csv"
    write_step_log(StepLog(work=work_done, seconds=ends - begins, source="engine"), path)
    logged = read_step_log(path)
    assert np.array_equal(logged.work, work_done)
    assert np.array_equal(logged.seconds, ends - begins)
    calibration, fit = calibrate_from_steps(logged)
    assert (calibration.model.seconds >= 0).all()
    assert calibration.model.seconds.any()
    assert set(fit.held_out) >= {"small", "plain"}
