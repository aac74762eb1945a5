"""Plans for an engine that keeps KV in blocks, run on one with those blocks."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import sortedf
from sortedf.instances.plan import Plan, read_plan
from sortedf.runner import RunOptions, run


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 40)), min_size=1, max_size=30),
    st.sampled_from([2, 7, 16, 32]),
    st.integers(0, 200),
    st.sampled_from(["svf", "fcfs", "longest"]),
)
@settings(max_examples=60)
def test_nothing_is_preempted(
    lengths: list[tuple[int, int]], block: int, more: int, solver: str
) -> None:
    """On an engine that has just the blocks of the budget, whatever the order is.

    The steps of the plan itself are counted in blocks here, one by one.
    """
    prompt, output = zip(*lengths, strict=True)
    kv_tokens = max(s + o for s, o in lengths) + 2 * block + more
    instance = sortedf.Instance(prompt, output, kv_tokens)
    result = sortedf.solve(instance, solver=solver, block_size=block, bound=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        sortedf.write_plan(result, path)
        plan = read_plan(path)
        blocks = kv_tokens // block
        assert most_blocks(plan, block) <= blocks
        engine = {"num_gpu_blocks": blocks + 1, "block_size": block}
        done = run(path, None, Path(folder) / "run", RunOptions(settings=engine))
        assert done.counts == (len(lengths), 0, 0)
        assert done.realized["preemptions"] == 0
        records = (done.attempt / "requests.jsonl").read_text().splitlines()
        assert len(records) == len(lengths)
        assert all(json.loads(record)["preemptions"] == 0 for record in records)


def most_blocks(plan: Plan, block: int) -> int:
    """Count blocks in the steps of a plan: a sequence in its k-th step has s + k tokens."""
    rows = list(zip(plan.starts, plan.prompt_tokens, plan.output_tokens, strict=True))
    last = max(start + output for start, _, output in rows)
    most: int = max(
        sum(
            -(-(prompt + step - start) // block)
            for start, prompt, output in rows
            if start < step <= start + output
        )
        for step in range(1, last + 1)
    )
    return most
