"""What is looked at in the answers of a real engine of the runner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from vllm_session import Row

import sortedf
from sortedf.engine import VLLM_0_32, EngineSettings, Replay, read_step_log
from sortedf.engine.step_time import StepTimeModel

ANY = StepTimeModel(fixed=0.01)
"""Seconds do not decide what is in a step."""


def settings_of(answer: dict[str, Any]) -> EngineSettings:
    assert "error" not in answer, answer
    told = dict(answer["settings"])
    assert told.pop("version")["name"] == VLLM_0_32.name
    return EngineSettings(**told)


def check_answers(rows: list[Row], outcomes: list[dict[str, Any]]) -> None:
    """Every job once, with the output that was asked for."""
    assert sorted(outcome["job"] for outcome in outcomes) == [row[0] for row in rows]
    for outcome in outcomes:
        assert len(outcome["token_ids"]) == rows[outcome["job"]][2]
        assert outcome["finish_reason"] == "length"


def check_steps(rows: list[Row], settings: EngineSettings, steps: Path) -> Any:
    """Every step is made of what the replay says; gives the replay."""
    prompt, output = [len(row[1]) for row in rows], [row[2] for row in rows]
    instance = sortedf.Instance(prompt, output, settings.kv_tokens)
    ordered = {} if settings.policy == "fcfs" else {"priorities": range(len(rows))}
    replayed = Replay(instance, settings, **ordered).run(ANY, log=True)
    assert replayed.log is not None
    np.testing.assert_array_equal(read_step_log(steps).work, replayed.log.work)
    return replayed


def write_run(folder: Path, rows: list[Row], answer: dict[str, Any], meta: dict[str, Any]) -> None:
    folder.mkdir()
    (folder / "meta.json").write_text(json.dumps(meta | {"num_requests": len(rows)}))
    lines = []
    for outcome in answer["outcomes"]:
        times = outcome["times"]
        _, prompt, output, _ = rows[outcome["job"]]
        line = {
            "request_id": str(outcome["job"]),
            "input_toks": len(prompt),
            "output_toks": output,
            "queued_ts": times["queued"],
            "scheduled_ts": times["admitted"],
            "first_token_ts": times["first_token"],
            "last_token_ts": times["last_token"],
        }
        lines.append(json.dumps(line) + "\n")
    (folder / "requests.jsonl").write_text("".join(lines))
