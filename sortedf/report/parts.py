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
        Name and budget of the worker for the document, where there are several.
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
        told = {"worker": name, "budget": budget} if len(planned.workers) > 1 else {}
        yield Part(row, members, part, result.schedule.starts[members], told)
