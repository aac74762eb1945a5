"""From an OpenAI batch file to answers, through the library.

Run ``python examples/batch_job.py FOLDER``. It runs anywhere, on the engine ``replay``; for real
answers give the options of ``RunOptions`` that the last line of this file shows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import make_batch

import sortedf
from sortedf.runner import RunOptions, RunResult, run

KV_TOKENS = 20_000


def main(folder: Path, options: RunOptions) -> RunResult:
    """Make a batch, plan it, run the plan, and say what came of it."""
    folder.mkdir(parents=True, exist_ok=True)
    batch, plan = folder / "batch.jsonl", folder / "plan.json"
    make_batch.main(str(batch), 200)

    backlog = sortedf.read_backlog(
        batch,
        kv_tokens=KV_TOKENS,
        tokenizer=options.tokenizer,
        prompt_tokens="chars/4" if options.tokenizer is None else None,
        note=print,
    )
    result = sortedf.solve(backlog, block_size=16)
    sortedf.write_plan(result, plan)
    first_come = sortedf.solve(backlog, solver="fcfs", block_size=16, bound=False)
    print(f"{len(backlog)} requests, mean latency {result.mean_latency:,.0f} steps")
    print(f"by arrival it would be {first_come.mean_latency:,.0f} steps")
    print(f"no plan is better by more than {result.gap:.1%}")

    done = run(plan, batch, folder / "run", options)
    print(f"{done.counts.answered} answered, {done.counts.failed} failed")
    for figure in ("mean_latency_seconds", "p99_latency_seconds", "makespan_seconds"):
        realized, predicted = done.realized[figure], (done.predicted or {}).get(figure)
        print(f"{figure}: {realized:,.2f}, predicted {predicted:,.2f}")

    with (done.folder / "output.jsonl").open() as lines:
        answer = json.loads(next(lines))
    print("first answered:", answer["custom_id"], answer["response"]["body"]["usage"])
    return done


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: batch_job.py FOLDER")
    main(
        Path(sys.argv[1]),
        # RunOptions(engine="vllm", model="/models/my-model", tokenizer="/models/my-model", ...)
        RunOptions(served_model_name=["my-model"], steptime="qwen3-8b-h100"),
    )
