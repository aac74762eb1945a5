"""Requests that arrive while the real engine runs, and whether it admits them in a policy's order.

The order is reckoned here once more, request by request, from what the engine wrote down of its
steps: who had arrived, who got how many tokens, who was preempted.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).parent / "drivers" / "drive_live.py"

SETTINGS: dict[str, Any] = {
    "num_gpu_blocks": 41,
    "block_size": 32,
    "max_num_batched_tokens": 256,
    "max_num_seqs": 16,
    "max_model_len": 512,
    "long_prefill_token_threshold": 0,
    "long_prefill_token_threshold_adaptive": False,
    "enable_chunked_prefill": True,
    "enable_prefix_caching": False,
    "watermark": 0.0,
    "scheduler_reserve_full_isl": True,
}
STEP_TIME = {"fixed": 4e-3, "token": 2e-5}
"""About what a step of this engine takes, seconds: what UniBoost takes service for."""

SECTIONS: dict[str, dict[str, Any]] = {
    "fcfs": {"policy": "fcfs"},
    "svf": {"policy": "svf"},
    "svf-1bit": {"policy": "svf-1bit", "threshold": 80, "short": 45, "long": 140},
    # Thresholds, seconds and a window as small as these requests are.
    "uniboost": {
        "policy": "uniboost",
        "gamma": 1.0,
        "guard": 16,
        "hysteresis": 0.2,
        "window": 40,
        "every": 10,
        "step_time": STEP_TIME,
    },
}


@dataclass(frozen=True, kw_only=True)
class Arriving:
    """Requests, 80 % of them short talks, and when they arrive (seconds)."""

    prompt: list[int]
    output: list[int]
    arrivals: list[float]

    def work(self) -> dict[str, Any]:
        """Give it as the driver reads it; outputs are predicted as they are."""
        told = [{"sortedf_output_tokens": tokens} for tokens in self.output]
        return {
            "prompt": self.prompt,
            "output": self.output,
            "arrivals": self.arrivals,
            "extra_args": told,
        }


def drawn(n: int, rate: float, seed: int) -> Arriving:
    """Draw Poisson arrivals, so many a second; all at once for infinity."""
    rng = np.random.default_rng(seed)
    prompt, output = [], []
    for _ in range(n):
        ends = ((5, 60), (10, 80)) if rng.random() < 0.8 else ((80, 300), (60, 200))
        prompt.append(int(rng.integers(*ends[0])))
        output.append(int(rng.integers(*ends[1])))
    gaps = rng.exponential(1.0, n) / rate
    return Arriving(prompt=prompt, output=output, arrivals=np.cumsum(gaps).tolist())


class Engine:
    """The driver, which is asked policy by policy."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def serve(self, section: dict[str, Any], *works: Arriving) -> list[dict[str, Any]]:
        """Serve workloads, one after another, on an engine of their own."""
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        group = {
            "settings": SETTINGS,
            "section": section,
            "works": [work.work() for work in works],
        }
        asked.write(json.dumps(group) + "\n")
        asked.flush()
        line = answered.readline()
        assert line, "the engine ended"
        answers: list[dict[str, Any]] = json.loads(line)
        return answers


@contextmanager
def live_engine(python: Path, errors: Path | None = None) -> Iterator[Engine]:
    """Start the driver in the environment of vLLM, and end it."""
    with (
        errors.open("w") if errors else os.fdopen(os.dup(sys.stderr.fileno()), "w") as stderr,
        subprocess.Popen(
            [python, DRIVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        ) as process,
    ):
        yield Engine(process)


@dataclass(eq=False)
class Known:
    """A request as its policy knows it."""

    index: int
    prompt: int
    output: int
    arrival: float
    computed: int = 0
    generated: int = 0
    attained: float = 0.0
    threshold: int = 0
    work: float = 0.0


def out_of_order(section: dict[str, Any], work: Arriving, answer: dict[str, Any]) -> list[Any]:
    """Give the admissions that the policy would not have made: (call, request, who was to come).

    In each call those admitted must be, one after another, the first of all that wait then; those
    preempted by the call wait too.
    """
    chunk = SETTINGS["max_num_batched_tokens"]
    requests = []
    for i, (s, o, a) in enumerate(zip(work.prompt, work.output, work.arrivals, strict=True)):
        floor = STEP_TIME["fixed"] * math.ceil(s / chunk) + STEP_TIME["token"] * s
        requests.append(Known(i, s, o, a, threshold=section.get("guard", 0), work=floor))
    floors = [request.work for request in requests]
    waiting: set[int] = set()
    arrived = 0
    wrong = []
    for call, (rows, victims, gamma, present) in enumerate(answer["calls"]):
        waiting |= set(range(arrived, present)) | set(victims)
        arrived = present
        for victim in victims:
            requests[victim].computed = 0
        scores = {i: score(section, requests[i], gamma) for i in waiting}
        for i, _, kind in rows:
            if kind == 0:
                continue
            first = min(waiting, key=lambda i: (scores[i], requests[i].arrival))
            if i != first:
                wrong.append((call, i, first))
            waiting.discard(i)
        part = STEP_TIME["fixed"] / max(len(rows), 1)
        for i, tokens, _ in rows:
            request = requests[i]
            request.attained += part + STEP_TIME["token"] * tokens
            request.computed += tokens
            if request.computed == request.prompt + request.generated:
                request.generated += 1
            if request.threshold and request.generated >= request.threshold:
                request.threshold *= 2
                request.work = max(request.attained, floors[i])
    return wrong


def score(section: dict[str, Any], request: Known, gamma: float | None) -> float:
    """Give what the policy orders by, least first."""
    s, o = request.prompt, request.output
    match section["policy"]:
        case "fcfs":
            return request.arrival
        case "svf":
            return s * o + o * (o + 1) / 2
        case "svf-1bit":
            o = section["short"] if o <= section["threshold"] else section["long"]
            return float(s * o + (o * o + o) / 2)
        case "uniboost":
            assert gamma is not None
            return request.arrival - math.log(1 / (1 - math.exp(-gamma * request.work))) / gamma
    raise AssertionError(section)


def figures(work: Arriving, answer: dict[str, Any]) -> dict[str, float]:
    """Seconds from arrival to first and last token, preemptions, and the whole."""
    arrivals = np.array(work.arrivals)
    latency = np.array(answer["done"]) - arrivals
    ttft = np.array(answer["first"]) - arrivals
    middle, last = np.percentile(latency, [50, 99], method="inverted_cdf")
    return {
        "mean": float(latency.mean()),
        "P50": float(middle),
        "P99": float(last),
        "P99 to first token": float(np.percentile(ttft, 99, method="inverted_cdf")),
        "preemptions": float(sum(answer["preemptions"])),
        "seconds": float(max(answer["done"])),
    }
