"""From an OpenAI batch file to answers, through the library.

Run ``python examples/batch_job.py FOLDER``; the same once more goes on where it stopped. It runs
anywhere, on the engine ``replay``; for real answers give the options of ``RunOptions`` that the end
of this file shows.
"""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path

import make_batch

import sortedf
from sortedf.runner import RunOptions, RunResult, resume, run

KV_TOKENS = 20_000


def main(folder: Path, options: RunOptions) -> RunResult:
    """Make a batch, plan it, run the plan, and say what came of it; a run that stopped goes on."""
    if (folder / "run" / "manifest.json").exists():
        done = resume(folder / "run")
    else:
        plan, batch = planned(folder, options)
        done = run(plan, batch, folder / "run", options)
    print(f"{done.counts.answered} answered, {done.counts.failed} failed")
    for figure in ("mean_latency_seconds", "p99_latency_seconds", "makespan_seconds"):
        if done.realized:  # by this start: nothing, if all was done before
            predicted = f", predicted {done.predicted[figure]:,.2f}" if done.predicted else ""
            print(f"{figure}: {done.realized[figure]:,.2f}{predicted}")

    with (done.folder / "output.jsonl").open() as lines:
        answers = (line for line in map(json.loads, lines) if line["error"] is None)
        for answer in islice(answers, 1):
            print("first answered:", answer["custom_id"], answer["response"]["body"]["usage"])
    return done


def planned(folder: Path, options: RunOptions) -> tuple[Path, Path]:
    """Make a batch and plan it; gives the files of both."""
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
    return plan, batch


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: batch_job.py FOLDER")
    # RunOptions(engine="vllm", model="/models/my-model", tokenizer="/models/my-model", ...)
    options = RunOptions(served_model_name=["my-model"], steptime="qwen3-8b-h100")
    try:
        main(Path(sys.argv[1]), options)
    except sortedf.SortedfError as error:
        sys.exit(str(error))
