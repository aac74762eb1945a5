"""3-Partition by trying everything, and least latencies by CP-SAT: no code of the package."""

from __future__ import annotations

from itertools import combinations

from sortedf import Instance


def has_partition(numbers: list[int], target: int) -> bool:
    """Whether the numbers can be put into triples that sum to the target: all ways, one by one."""
    if not numbers:
        return True
    first, *rest = numbers
    for j, k in combinations(range(len(rest)), 2):
        if first + rest[j] + rest[k] == target:
            others = [x for i, x in enumerate(rest) if i not in (j, k)]
            if has_partition(others, target):
                return True
    return False


def least_latency_by_cp_sat(instance: Instance) -> int:
    """Least total latency, all released at 0, with memory as the model says, at each completion.

    Held tokens only grow between completions, so these are the steps to look at.
    """
    from ortools.sat.python import cp_model

    s = instance.prompt_tokens.tolist()
    o = instance.output_tokens.tolist()
    model = cp_model.CpModel()
    horizon = sum(o)
    starts = [model.new_int_var(0, horizon, f"p{i}") for i in range(len(s))]
    for i in range(len(s)):
        held = []
        for j in range(len(s)):
            # Tokens that j holds at the completion of i, s + c_i - p_j if it is active then.
            begun = model.new_bool_var("")
            ended = model.new_bool_var("")
            elapsed = starts[i] + o[i] - starts[j]
            model.add(elapsed >= 1).only_enforce_if(begun)
            model.add(elapsed <= 0).only_enforce_if(~begun)
            model.add(elapsed >= o[j] + 1).only_enforce_if(ended)
            model.add(elapsed <= o[j]).only_enforce_if(~ended)
            tokens = model.new_int_var(0, s[j] + o[j], "")
            model.add(tokens == s[j] + elapsed).only_enforce_if(begun, ~ended)
            held.append(tokens)
        model.add(sum(held) <= instance.kv_tokens)
    model.minimize(sum(starts) + horizon)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return round(solver.objective_value)
