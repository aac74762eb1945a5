"""The planned scheduler on vLLM's real classes, held against the replay's policy ``planned``."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_workloads import canonical, our_answer, planned_group, planned_workload
from real_engine import DRIVERS, ROOT, ask, interpreter

import sortedf
from sortedf.engine import EngineSettings, StepTimeModel, read_step_log, replay

pytestmark = pytest.mark.vllm


def test_planned_scheduler_classes(request: pytest.FixtureRequest) -> None:
    """Each step's (request, tokens, new/resumed/continued) and victims, each first and last token.

    The classes are driven with fake model outputs: lookahead, predictions that are right, too short
    and too long, and all that the test of vLLM's own classes draws.
    """
    count = request.config.getoption("--engine-workloads")
    rng = random.Random(20261202)
    works = [planned_workload(rng) for _ in range(count)]
    answers = ask("drive_scheduler.py", works)
    assert len(answers) == count
    exact, preempting, ordered = 0, 0, 0
    for number, (work, answer) in enumerate(zip(works, answers, strict=True)):
        assert "calls" in answer, (number, work)  # never a deadlock, nor a circle
        assert canonical(our_answer(work)) == canonical(answer), (number, work)
        done = zip(answer["done"], work["aborts"], strict=True)
        assert all(time is not None for time, abort in done if abort is None)
        preempted = any(victims for _, victims in answer["calls"])
        preempting += preempted
        if all(p >= o for p, o in zip(work["predicted"], work["output"], strict=True)):
            exact += 1
            assert not preempted, (number, work)
        if work["settings"]["lookahead"] == 1 and len(set(work["arrivals"])) == 1:
            new = [row[0] for rows, _ in answer["calls"] for row in rows if row[2] == 1]
            keys = [(work["priorities"][i], work["stamps"][i], str(i)) for i in new]
            assert keys == sorted(keys), (number, work)
            ordered += len(new) > 5
    assert exact >= count // 4
    assert preempting >= count // 20
    assert ordered >= count // 20


def test_planned_scheduler_in_process() -> None:
    """The same on the whole engine on the CPU, tokens of a tiny model included."""
    rng = random.Random(20261203)
    groups = [planned_group(rng, works=6) for _ in range(2)]
    for group, answers in zip(groups, ask("drive_engine.py", groups), strict=True):
        for work, answer in zip(group["works"], answers, strict=True):
            ours = our_answer(work | {"settings": group["settings"]})
            assert canonical(ours) == canonical(answer), (group["settings"], work)


@pytest.fixture(scope="module")
def own_process(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run a backlog by its plan on an engine in its own process, and replay it."""
    folder = tmp_path_factory.mktemp("own_process")
    rng = random.Random(4)
    n = 40
    prompt = [rng.randint(5, 150) for _ in range(n)]
    output = [rng.randint(2, 60) for _ in range(n)]
    settings = {
        "num_gpu_blocks_override": 33,
        "block_size": 32,
        "max_model_len": 256,
        "max_num_seqs": 16,
        "max_num_batched_tokens": 128,
    }
    work: dict[str, Any] = {
        "prompt": prompt,
        "output": output,
        "predicted": output,
        "priorities": rng.sample(range(n), n),
        "settings": settings,
        "steps": str(folder / "steps.csv"),
    }
    with subprocess.Popen(
        [interpreter(), DRIVERS / "drive_own_process.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(json.dumps(work) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        steps = Path(work["steps"]).read_bytes() if line else b""  # while the engine lives
        process.stdin.close()
        errors = process.stderr.read()
        assert process.wait() == 0, errors[-3000:]
    found = replay(
        sortedf.Instance(prompt, output, 2**40),
        EngineSettings(
            num_gpu_blocks=settings["num_gpu_blocks_override"],
            block_size=settings["block_size"],
            max_num_batched_tokens=settings["max_num_batched_tokens"],
            max_num_seqs=settings["max_num_seqs"],
            max_model_len=settings["max_model_len"],
            policy="planned",
            async_scheduling=False,
        ),
        StepTimeModel(fixed=1.0),
        priorities=work["priorities"],
        log=True,
    )
    path = folder / "read.csv"
    path.write_bytes(steps)
    return work | {"answer": json.loads(line), "replayed": found, "log": path}


def test_plan_crosses_to_an_engine_in_its_own_process(own_process: dict[str, Any]) -> None:
    """Nobody is preempted; who is admitted when, and every token, is as replayed."""
    answer, found = own_process["answer"], own_process["replayed"]
    assert answer["preemptions"] == [0] * len(answer["first"])
    by_place = np.argsort(own_process["priorities"])
    admitted = np.array(answer["admitted"])[by_place]
    assert (np.diff(admitted) >= 0).all()
    for name, ours in (
        ("admitted", found.admitted_step),
        ("first", found.first_step),
        ("last", found.completion_step),
    ):
        _, theirs = np.unique(answer[name], return_inverse=True)
        assert theirs.tolist() == np.unique(ours, return_inverse=True)[1].tolist(), name


def test_steps_recorded_by_an_engine_in_its_own_process(own_process: dict[str, Any]) -> None:
    """Each is made of what was replayed, and they add up to the time of every token."""
    found, answer = own_process["replayed"], own_process["answer"]
    log = read_step_log(own_process["log"])
    assert log.work.tolist() == found.log.work.tolist()
    table = np.genfromtxt(own_process["log"], delimiter=",", names=True)
    usable = own_process["settings"]["num_gpu_blocks_override"] - 1
    assert table["running"].tolist() == found.log.running.tolist()
    assert table["waiting"].tolist() == found.log.waiting.tolist()
    assert np.allclose(table["kv_use"] * usable, found.log.used, atol=1e-3)
    assert not table["preempted"].any()
    ends = table["begin"] + table["seconds"]
    assert np.allclose(ends[:-1], table["begin"][1:], atol=1e-6)
    for name, step in (("first", found.first_step), ("last", found.completion_step)):
        # vLLM stamps the tokens of a step just before it ends.
        late = ends[step - 1] - np.array(answer[name])
        assert (late >= 0).all()
        assert np.median(late) < 0.1 * np.median(table["seconds"]) + 1e-3


@pytest.fixture(scope="module")
def checks() -> dict[str, Any]:
    """Answers of drivers/check_scheduler.py, which says what each is."""
    (answers,) = ask("check_scheduler.py", [])
    return dict(answers)


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        ("unplanned", [3, 4, 1, 0, 2]),
        ("volumes", [[1, 3, 2, 0], [0, 1, 3, 2], [1, 2, 3, 0]]),
        ("nonsense", [2, 0, 1]),
        ("without_predictions", [1, 4, 6]),
        ("blocked", [["1"], [1, 0, 2]]),
        ("aborted", [0, 2, 3, 4]),
        ("paused", [[0, 0, 0], [2, 1, 0]]),
        ("reset", [0, [True] * 4]),
        ("queue", True),
    ],
)
def test_what_a_replay_does_not_know(checks: dict[str, Any], check: str, answer: Any) -> None:
    """Orders, requests without predictions, grammars, aborts, pauses: nothing stalls."""
    assert checks[check] == answer


def test_what_is_refused_is_refused_in_one_line(checks: dict[str, Any]) -> None:
    """An engine without the methods that are needed, and settings that make no sense."""
    warning, text = checks["interface"]
    assert warning == (
        "sortedf was not tested with the scheduler of vLLM 0.99.1; tested versions: 0.32"
    )
    assert text == (
        "the scheduler of vLLM 0.99.1 has no update_from_output with 3 arguments, "
        "_free_request_blocks, which sortedf relies on; tested versions: 0.32"
    )
    (text,) = checks["settings"]
    assert text.startswith("additional_config: sortedf knows no polcy; it knows policy,")
