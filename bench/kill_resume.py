"""`sortedf run` on vLLM, killed at random moments and resumed: what is lost, and what is left.

    python bench/kill_resume.py [--kills 10] [--requests 300] [--seed 0] [--keep DIR]

Needs vLLM for the CPU: ``make vllm``, or its Python in SORTEDF_VLLM_PYTHON. A small batch is
planned and run on a tiny model of random weights, the engine in a process of its own. The runner is
ended by SIGKILL: three times in ten at a moment of the start, else some answers later. Each time
every line that stood in the output must still stand there, byte for byte, and the processes of the
engine must end by themselves. In the end every custom_id must stand there once. A row for each kill
to stdout; exit code 1 when anything is lost.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "runner"), str(TESTS / "engine" / "drivers")]

from run_commands import lines_in, mixed_batch, planned, wait_until  # noqa: E402
from run_on_vllm import (  # noqa: E402
    BLOCK,
    engine_options,
    kill,
    make_model,
    start_on_vllm,
    wait_for_end,
)

BLOCKS = 50
IN_THE_START = 0.3
"""Share of the kills."""


def kill_once(
    command: list[object], folder: Path, kept: list[bytes], generator: random.Random
) -> tuple[str, int, float]:
    """Start the runner and kill it; when, how many of its processes, seconds until they ended."""
    process = start_on_vllm(*command)
    if generator.random() < IN_THE_START:
        seconds = generator.uniform(0, 20)
        begun = time.monotonic()
        wait_until(
            lambda: time.monotonic() > begun + seconds or len(lines_in(folder)) > len(kept), process
        )
        moment = f"{time.monotonic() - begun:.1f} s after the start"
    else:
        more = generator.randint(0, 20)
        wait_until(lambda: len(lines_in(folder)) > len(kept) + more, process)
        time.sleep(generator.uniform(0, 0.02))
        moment = f"after {more} more answers"
    engine = kill(process)
    if process.returncode != -signal.SIGKILL:
        sys.exit("the run ended before it was killed; more --requests make it longer")
    begun = time.monotonic()
    left = wait_for_end(engine)
    if left:
        sys.exit(f"processes of the engine are left: {sorted(pid for pid, _ in left)}")
    return moment, len(engine), time.monotonic() - begun


def main() -> None:
    """Print a row for each kill, to stdout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the run folder here")
    options = parser.parse_args()
    generator = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as temporary:
        work = options.keep or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        model = make_model(work / "model")
        batch = mixed_batch(work / "batch.jsonl", options.requests, options.seed)
        plan = planned(batch, work / "plan.json", BLOCKS * BLOCK, "--block-size", BLOCK)
        folder = work / "run"
        begin: list[object] = [plan, batch, "-o", folder, *engine_options(model, BLOCKS)]
        kept: list[bytes] = []
        print("| kill | moment | lines before | after | torn bytes | processes | ended in s |")
        print("|---|---|---|---|---|---|---|")
        for number in range(1, options.kills + 1):
            again: list[object] = ["--resume", folder]
            command = again if (folder / "manifest.json").exists() else begin
            moment, processes, seconds = kill_once(command, folder, kept, generator)
            now = lines_in(folder)
            if now[: len(kept)] != kept:
                sys.exit("a line that stood in the output is lost or changed")
            output = folder / "output.jsonl"
            torn = len(output.read_bytes().rpartition(b"\n")[2]) if output.exists() else 0
            cells = (number, moment, len(kept), len(now), torn, processes, f"{seconds:.1f}")
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
            kept = now
        process = start_on_vllm("--resume", folder, "--json")
        out, err = process.communicate()
        if process.returncode:
            sys.exit(err)
        lines = lines_in(folder)
        found = Counter(json.loads(line)["custom_id"] for line in lines)
        if lines[: len(kept)] != kept or found != {f"r{k}": 1 for k in range(options.requests)}:
            sys.exit("not every request has one line")
        told = json.loads(out)
        print(f"\n{told['answered']} answered, {told['failed']} failed, {told['not_run']} not run")
        print(f"every custom_id once, {len(kept)} lines of {options.kills} kills byte for byte")


if __name__ == "__main__":
    main()
