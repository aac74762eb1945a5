"""Do what a test asks with an engine of the runner, in the environment of vLLM.

    python drive_vllm.py < commands.jsonl > answers.jsonl

A command is a JSON object a line, ``{"do": name, ...}``, and is answered by one line: ``start``
(the options, ``log``, ``engine``), ``refuses`` (``jobs``), ``execute`` (``jobs``, ``steps``,
``stop_after`` so many outcomes, ``kill_after`` so many), ``signal`` (``number``, to its processes),
``generate`` (that of transformers, greedy: ``tokens`` so many, of a ``prompt``), ``close``.
A job is [index, prompt, predicted output, sampling]. What sortedf raises on purpose is answered by
``{"error": class, "message": ...}``, with the outcomes before it. Nothing else is on stdout, which
is what the test looks at, too.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from sortedf.errors import SortedfError
from sortedf.runner.engines import Answer, Handover, Job, Outcome
from sortedf.runner.start import EngineOptions, start_engine
from sortedf.runner.vllm_engine import VllmEngine
from sortedf.runner.vllm_options import VllmOptions


class Driver:
    """The engine and what was asked of it."""

    def __init__(self) -> None:
        self.engine: Any = None

    def start(self, options: dict[str, Any], log: str, engine: str = "vllm") -> Any:
        if engine == "vllm":
            self.engine = VllmEngine.start(VllmOptions(**options), log=Path(log))
        else:
            options["handover"] = Handover(options["handover"])
            self.engine = start_engine(engine, EngineOptions(**options), Path(log))
        settings = asdict(self.engine.settings)
        return {
            "settings": settings,
            "meta": self.engine.meta,
            "processes": _processes(),
        }

    def refuses(self, jobs: list[Any]) -> Any:
        assert self.engine is not None
        refusals = [self.engine.refuses(job) for job in map(job_of, jobs)]
        return [None if r is None else [r.code, r.message] for r in refusals]

    def execute(
        self,
        jobs: list[Any],
        steps: str | None = None,
        stop_after: int | None = None,
        kill_after: int | None = None,
    ) -> Any:
        assert self.engine is not None
        outcomes: list[Any] = []
        loads = []
        told: dict[str, Any] = {"outcomes": outcomes}
        work = self.engine.execute(
            [job_of(job) for job in jobs], steps=None if steps is None else Path(steps)
        )
        try:
            for ended in work:
                outcomes.extend(map(plain, ended))
                loads.append(self.engine.load())
                if stop_after is not None and len(outcomes) >= stop_after:
                    work.close()
                    break
                if kill_after is not None and len(outcomes) >= kill_after:
                    os.kill(_processes()[0], signal.SIGKILL)
                    kill_after = None
        except SortedfError as error:
            told |= {"error": type(error).__name__, "message": str(error)}
        last = self.engine.load()
        return told | {
            "load": last,
            "most_running": max((load.running for load in loads), default=0),
            "most_kv": max((load.kv_use for load in loads), default=0.0),
        }

    def generate(self, prompt: list[int], tokens: int) -> Any:
        import torch

        asked = torch.tensor([prompt])
        answer = self.engine._manager.model.generate(
            asked,
            attention_mask=torch.ones_like(asked),  # or it would take some tokens for padding
            max_new_tokens=tokens,
            do_sample=False,
            eos_token_id=None,
        )
        return answer[0, len(prompt) :].tolist()

    def signal(self, number: int) -> Any:
        for process in _processes():
            os.kill(process, number)
        return _processes()

    def close(self) -> Any:
        assert self.engine is not None
        self.engine.close()
        self.engine = None
        return _processes()


def _processes() -> list[int]:
    """Give the engine's processes: the engine's own first, then its workers."""
    found: list[int] = []
    parents = [os.getpid()]
    while parents:
        parent = Path("/proc", str(parents.pop(0)))
        for task in (parent / "task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                parents.append(child)
                if Path("/proc", str(child), "comm").read_text().startswith("VLLM"):
                    found.append(child)
    return found


def job_of(fields: list[Any]) -> Job:
    index, prompt, output, sampling = fields
    if "logit_bias" in sampling:  # JSON has texts for keys alone
        sampling["logit_bias"] = {
            int(token): bias for token, bias in sampling["logit_bias"].items()
        }
    return Job(
        index=index,
        name=f"job {index}",
        place=index,
        prompt=prompt,
        output_tokens=output,
        sampling=sampling,
    )


def plain(outcome: Outcome) -> Any:
    job = outcome.job.index
    if not isinstance(outcome, Answer):
        return {"job": job, "code": outcome.code, "message": outcome.message}
    logprobs = outcome.logprobs
    if logprobs is not None:
        logprobs = [{str(token): one.logprob for token, one in row.items()} for row in logprobs]
    return {
        "job": job,
        "text": outcome.text,
        "token_ids": list(outcome.token_ids),
        "finish_reason": outcome.finish_reason,
        "stop_reason": outcome.stop_reason,
        "logprobs": logprobs,
        "times": outcome.times._asdict(),
    }


def main() -> None:
    driver = Driver()
    for line in sys.stdin:
        command = json.loads(line)
        act = getattr(driver, command.pop("do"))
        try:
            answer = act(**command)
        except SortedfError as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        print(json.dumps(answer), flush=True)
    if driver.engine is not None:
        driver.engine.close()


main()
