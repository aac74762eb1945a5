"""Where requests come over time and all wait for long, prices are sought on a coarser grid."""

from __future__ import annotations

import numpy as np
import pytest

from sortedf.lp import ascend, ascent, price_bound
from sortedf.model import Instance
from sortedf.solvers import solve


def test_a_look_that_takes_long_is_made_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer pieces, and what they prove is still a bound, near that of the fine grid."""
    rng = np.random.default_rng(5)
    instance = Instance(
        rng.integers(1, 40, 300),
        rng.integers(1, 60, 300),
        400,
        release=np.sort(rng.integers(0, 300, 300)),
    )
    fine, value = ascend(instance)
    monkeypatch.setattr(ascent, "MOST_CELLS", 5000)
    coarse, lower = ascend(instance)
    assert len(coarse.first) < len(fine.first)
    assert price_bound(instance, coarse) == lower
    best = solve(instance, solver="svf").total_latency
    assert 0.9 * value < lower <= best
