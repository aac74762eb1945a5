"""What the planned scheduler adds to a step of vLLM's own.

    python bench/scheduler_overhead.py [--running 256] [--waiting 10000] [--steps 600]

Runs in the environment of vLLM (``make vllm``; ``PYTHONPATH=. .venv-vllm/bin/python bench/...``).
The scheduler classes alone, with fake model outputs: about so many requests run, so many wait. All
schedulers go on in turn, by 20 steps, each on a backlog of its own. Milliseconds of processor
time, medians over the steps after the first fill: schedule(), update_from_output(), and what both
together take above vLLM's own class with priorities and as many seats; 95th percentile of both.
Then, in the mean, requests that run and admissions a step.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "engine" / "drivers"))

from drive_scheduler import Machine, prepare

SIZE = 16
WARM_UP = 500  # steps until the first fill has spread
STRETCH = 20
TITLES = ("schedule", "update", "added", "both P95", "running", "admitted")
PROMPT, OUTPUT = (50, 400), (100, 500)


def workload(n: int, running: int, **changes: Any) -> dict[str, Any]:
    """Draw a backlog of ``n``, all there from the start, on an engine that is full of them."""
    section = {"lookahead": changes.get("lookahead", 1), **changes.pop("section", {})}
    rng = random.Random(0)
    prompt = [rng.randint(*PROMPT) for _ in range(n)]
    output = [rng.randint(*OUTPUT) for _ in range(n)]
    settings = {
        "num_gpu_blocks": running * 40,
        "block_size": SIZE,
        "max_num_batched_tokens": 8192,
        "max_num_seqs": running,
        "max_model_len": 4096,
        "long_prefill_token_threshold": 0,
        "long_prefill_token_threshold_adaptive": False,
        "enable_chunked_prefill": True,
        "watermark": 0.0,
        "scheduler_reserve_full_isl": True,
        "policy": "priority",
        "lookahead": 1,
        "async_scheduling": False,
        "enable_prefix_caching": False,
        "shared_blocks": 0,
    } | changes
    return {
        "settings": settings,
        "section": section,
        "prompt": prompt,
        "output": output,
        "predicted": output,
        "arrivals": [0] * n,
        "priorities": list(range(n)),
        "stamps": list(range(n)),
        "aborts": [None] * n,
        "seconds": [1, 0, 0, 0],
    }


class Timed:
    """An engine's loop around a scheduler, a step at a time, and what its calls take."""

    def __init__(self, model: str, work: dict[str, Any], record: Path | None) -> None:
        self._machine = Machine(model, work)
        self._queue: deque[Any] = deque()
        self.rows: list[tuple[float, ...]] = []
        self._taken = [0.0, 0.0]
        scheduler = self._machine.scheduler
        if record is not None:
            scheduler._recorder.record(str(record))
        scheduler.schedule = self._timed(0, scheduler.schedule)
        scheduler.update_from_output = self._timed(1, scheduler.update_from_output)
        self._machine.take_inputs(0)

    def _timed(self, which: int, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            begin = time.process_time()
            result = method(*args)
            self._taken[which] = 1000 * (time.process_time() - begin)
            return result

        return call

    def step(self) -> None:
        """One schedule() and, once the pipeline is full, one update."""
        machine = self._machine
        before = len(machine.admitted)
        self._queue.append(machine.schedule())
        if not (machine.asynchronous and len(self._queue) < 2):
            chosen, output, _ = self._queue.popleft()
            machine.update(chosen, output, 0)
        admitted = len(machine.admitted) - before
        self.rows.append((*self._taken, len(machine.scheduler.running), admitted))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--running", type=int, default=256)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=600)
    arguments = parser.parse_args()
    running = arguments.running
    n = running + arguments.waiting + 3 * (arguments.steps + WARM_UP)
    # Held on the way is about half of the outputs; what is foreseen fills the blocks.
    tight = {"policy": "planned", "max_num_seqs": 2 * running, "num_gpu_blocks": running * 25}
    # Foreseen is what is held at the next threshold of output tokens.
    guarded = tight | {"num_gpu_blocks": running * 26, "section": {"policy": "uniboost"}}
    kinds: list[tuple[str, dict[str, Any], bool]] = [
        ("vLLM's own, by priority, seats full", {}, False),
        ("planned, seats full", {"policy": "planned"}, False),
        ("planned, room full", tight, False),
        ("planned, room full, lookahead 8", tight | {"lookahead": 8}, False),
        ("planned, room full, steps recorded", tight, True),
        ("uniboost, room full", guarded, False),
        ("uniboost, room full, lookahead 8", guarded | {"lookahead": 8}, False),
    ]
    print(f"{'ms':36}" + "".join(f"{title:>11}" for title in TITLES))
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder)
        for mode in (False, True):
            print("asynchronous" if mode else "synchronous")
            engines = [
                Timed(
                    folder,
                    workload(n, running, async_scheduling=mode, **changes),
                    Path(folder, f"{mode}.csv") if record else None,
                )
                for _, changes, record in kinds
            ]
            for _ in range((WARM_UP + arguments.steps) // STRETCH):
                for engine in engines:  # in turn, so that all share what the machine is up to
                    for _ in range(STRETCH):
                        engine.step()
            table = [np.array(engine.rows)[WARM_UP:] for engine in engines]
            base = float(np.median(table[0][:, :2].sum(1)))
            for (name, _, _), rows in zip(kinds, table, strict=True):
                schedule, update = np.median(rows[:, :2], axis=0)
                both = rows[:, :2].sum(1)
                values = (schedule, update, np.median(both) - base, np.percentile(both, 95))
                means = rows[:, 2:].mean(0)
                print(f"{name:36}" + "".join(f"{value:11.3f}" for value in (*values, *means)))


if __name__ == "__main__":
    main()
