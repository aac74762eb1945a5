"""The parts of a plan that are drawn: what runs on each worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sortedf.model import Instance, Result
from sortedf.model.instance import IntArray

DRAWN_WORKERS = 8
"""Of more workers the first ones are drawn."""


@dataclass(frozen=True)
class Part:
    """What one worker of a plan runs.

    Parameters
    ----------
    row
        Of the plan among the plans.
    members
        Positions of its requests.
    planned
        These, in blocks, on the budget of the worker.
    starts
        Their starts.
    told
        For the document, where there are several workers: name and budget of this one, the mean
        latency (steps) of what it runs, and the share of its memory in use until its last step.
    """

    row: int
    members: IntArray
    planned: Instance
    starts: IntArray
    told: dict[str, Any]


def parts_of(result: Result, planned: Instance, row: int) -> Iterator[Part]:
    """Give the workers of a plan that have any requests; ``planned`` is its instance in blocks."""
    for worker, (name, budget) in enumerate(planned.workers[:DRAWN_WORKERS]):
        members = np.flatnonzero(result.schedule.workers == worker)
        if len(members) == 0:
            continue
        part = planned.select(members).replace(kv_tokens=budget)
        starts = result.schedule.starts[members]
        told = {} if len(planned.workers) == 1 else {"worker": name, **_figures(part, starts)}
        yield Part(row, members, part, starts, told)


def _figures(part: Instance, starts: IntArray) -> dict[str, Any]:
    completions = starts + part.output_tokens
    held = float(part.volume.astype(np.float64).sum())
    return {
        "budget": part.kv_tokens,
        "mean_latency": float((completions - part.release).mean()),
        "mean_kv_use": held / part.kv_tokens / int(completions.max()),
    }
